"""CPU seconds per clip of `transmission` and `tampering`, beside a plain ffmpeg in the same run.

    python benchmarks/new_suites.py VIDEO [--severity 3] [--only NAME ...]
    python benchmarks/new_suites.py --monotony VIDEO... [--seeds 2] [--only NAME ...]

The second form measures instead whether damage grows with severity: the PSNR of 12 sampled frames against the clean
clip's, over clips that are made 120 pixels high and at most 100 frames long. It prints the median per severity, the
steps from one severity to the next in which PSNR rose, and the share of clips (per draw) in which it never did. The
donor is the next clip.

Ours decodes the clip and renders every perturbed frame. `plain` is one ffmpeg of the same build, on one thread, that
does as much to the file: it encodes with the same arguments and decodes the result to nowhere; damages with its filter
`noise`; scales down and up; drops frames with `fps`; blackens or turns a part of the clip with `drawbox` or
`hflip,vflip`; cuts with `select`, `loop` or `reverse`. Rain and a donor have no counterpart. The donor is the clip,
mirrored. Times are CPU seconds of the process and its children, the better of two.
"""

from __future__ import annotations

import argparse
import itertools
import math
import resource
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.engine import rendering, shards
from perturbations.engine.source import Source, source_of
from perturbations.manifest.kinds import CompleteSource
from perturbations.media import encoding, program
from perturbations.plan import recipe
from perturbations.plan.listed import ListedClip
from perturbations.suites import registry

_PART = "between(t,4,8)"
_FILTERS = {
    "transmission/resolution": "scale=iw/4:-2,scale=iw*4:-2:flags=bicubic",
    "transmission/frame_rate": "fps=5,fps=25",
    "tampering/mask": f"drawbox=t=fill:color=black:enable='{_PART}'",
    "tampering/rotate": f"hflip=enable='{_PART}',vflip=enable='{_PART}'",
    "tampering/repeat": "loop=loop=1:size=100:start=100",
    "tampering/drop": f"select='not({_PART})'",
    "tampering/reverse": "reverse",
}


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of this process and of its children, the better of two runs."""

    def spent() -> float:
        return sum(
            resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )

    times = []
    for _ in range(2):
        before = spent()
        work()
        times.append(spent() - before)
    return min(times)


def plain(key: str, severity: int, path: Path, folder: Path) -> Callable[[], object] | None:
    """A plain ffmpeg that does as much to the file; None where there is none."""
    entry = registry.get(key)
    ffmpeg = [program.ffmpeg_program(), "-nostdin", "-y", "-loglevel", "quiet", "-threads", "1"]
    to_nowhere = ["-an", "-pix_fmt", "rgb24", "-f", "null", "-"]
    if entry.method != "codec":
        if key not in _FILTERS:
            return None
        return lambda: subprocess.run([*ffmpeg, "-i", str(path), "-vf", _FILTERS[key], *to_nowhere], check=True)
    arguments = registry.resolve(entry.kernel)(**entry.parameters(severity))
    options = [text for name, value in arguments.items() for text in (f"-{name}", str(value))]
    if entry.damage is not None:
        options += ["-bsf:v", "noise=amount=30000" if key.endswith("bit_error") else "noise=drop='lt(random(0),0.03)'"]
    coded = folder / f"plain{'.ts' if entry.damage else '.mp4'}"

    def run() -> None:
        subprocess.run([*ffmpeg, "-i", str(path), "-an", *options, str(coded)], check=True)
        # A damaged file may end in an error.
        subprocess.run([*ffmpeg, "-i", str(coded), *to_nowhere], check=entry.damage is None)

    return run


def mirrored(source: Source, path: Path) -> None:
    """Write the clip, mirrored: another clip of the same length."""
    frames = (frame._replace(image=frame.image[:, ::-1].copy()) for frame in source.frames())
    encoding.encode(frames, path, storage.PROFILES["high"], source.timing)


SAMPLED = 12
HEIGHT = 120
FRAMES = 100


def small(video: Path, path: Path) -> CompleteSource:
    """Write the beginning of a clip, 120 pixels high, without loss; its row."""
    source = source_of(described(video))
    width = round(source.width * HEIGHT / source.height / 2) * 2
    frames = (
        frame._replace(
            image=np.asarray(cv2.resize(frame.image, (width, HEIGHT), interpolation=cv2.INTER_AREA), np.uint8)
        )
        for frame in itertools.islice(source.frames(), FRAMES)
    )
    encoding.encode(frames, path, storage.PROFILES["lossless"], source.timing)
    return described(path)


def described(path: Path) -> CompleteSource:
    return shards.source_row("data", ListedClip(item_id=path.stem, source_video_id=path.stem, path=str(path)))


def sampled(frames: list[Image]) -> list[Image]:
    return [frames[round(place)] for place in np.linspace(0, len(frames) - 1, SAMPLED)]


def psnr(clean: list[Image], other: list[Image]) -> float:
    """In dB, over all frames together; infinite where they are equal."""
    pairs = zip(sampled(clean), sampled(other), strict=True)
    error = float(np.mean([np.square(one.astype(np.float64) - two).mean() for one, two in pairs]))
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def growing(entry: registry.Perturbation, rows: list[CompleteSource], seeds: int) -> list[list[float]]:
    """PSNR at each severity, of each clip under each seed."""
    curves = []
    for index, seed in itertools.product(range(len(rows)), range(seeds if entry.draw != "none" else 1)):
        clean = [frame.image for frame in source_of(rows[index]).frames()]
        donor = rows[(index + 1) % len(rows)]
        curve = []
        for severity in entry.severities:
            video = recipe.make(entry, severity, seed=seed, storage=recipe.Unstored(), donors="data")
            source = shards.source_with_facts(video, rows[index], [donor])
            curve.append(psnr(clean, [frame.image for frame in rendering.render(video, source)]))
        curves.append(curve)
    return curves


def monotony(videos: list[Path], entries: list[registry.Perturbation], seeds: int, folder: Path) -> None:
    """Print the table of how damage grows."""
    rows = [small(video, folder / f"{video.stem}.mkv") for video in videos]
    print(f"{len(rows)} clips\n| perturbation | median PSNR, dB | steps that rose | clips that never rose | declared |")
    for entry in entries:
        curves = growing(entry, rows, seeds)
        steps = [after > before for curve in curves for before, after in itertools.pairwise(curve)]
        never = [all(after <= before for before, after in itertools.pairwise(curve)) for curve in curves]
        medians = ", ".join(f"{np.median(values):.1f}" for values in zip(*curves, strict=True))
        declared = "grows" if entry.monotonic else "need not grow"
        counted = f"{sum(steps)} of {len(steps)} | {sum(never)} of {len(never)}"
        print(f"| `{entry.key}` | {medians} | {counted} | {declared} |", flush=True)


def speed(wanted: Path, entries: list[registry.Perturbation], severity: int, folder: Path) -> None:
    """Print the table of seconds."""
    row = described(wanted)
    source = source_of(row)
    mirrored(source, folder / "donor.mp4")
    donor = described(folder / "donor.mp4")
    print(f"{source.num_frames} frames of {source.width}x{source.height}\n| perturbation | ours, s | plain, s |")
    for entry in entries:
        video = recipe.make(entry, severity, seed=0, storage=recipe.Unstored(), donors="data")
        known = shards.source_with_facts(video, row, [donor])
        ours = cpu_seconds(lambda video=video, known=known: sum(1 for _ in rendering.render(video, known)))
        other = plain(entry.key, severity, wanted, folder)
        print(f"| `{entry.key}` | {ours:.2f} | {'' if other is None else f'{cpu_seconds(other):.2f}'} |", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", type=Path, nargs="+", metavar="VIDEO")
    parser.add_argument("--severity", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--monotony", action="store_true")
    parser.add_argument("--seeds", type=int, default=2, help="draws per clip")
    wanted = parser.parse_args()
    entries = [
        entry
        for entry in (*registry.perturbations("transmission"), *registry.perturbations("tampering"))
        if not wanted.only or entry.name in wanted.only
    ]
    with tempfile.TemporaryDirectory() as name:
        if wanted.monotony:
            monotony(wanted.videos, entries, wanted.seeds, Path(name))
        else:
            speed(wanted.videos[0], entries, wanted.severity, Path(name))


if __name__ == "__main__":
    main()
