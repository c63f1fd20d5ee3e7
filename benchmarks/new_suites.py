"""CPU seconds per clip of `transmission` and `tampering`, beside a plain ffmpeg in the same run.

    python benchmarks/new_suites.py VIDEO [--severity 3] [--only NAME ...]

Ours decodes the clip and renders every perturbed frame. `plain` is one ffmpeg of the same build, on one thread, that
does as much to the file: it encodes with the same arguments and decodes the result to nowhere; damages with its filter
`noise`; scales down and up; drops frames with `fps`; blackens or turns a part of the clip with `drawbox` or
`hflip,vflip`; cuts with `select`, `loop` or `reverse`. Rain and a donor have no counterpart. The donor is the clip,
mirrored. Times are CPU seconds of the process and its children, the better of two.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from perturbations.engine import rendering, shards
from perturbations.engine.source import Source, source_of
from perturbations.media import encoding, program
from perturbations.plan import recipe
from perturbations.plan.listed import ListedClip
from perturbations.suites import registry
from perturbations.system import storage

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


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", type=Path)
    parser.add_argument("--severity", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        row = shards.source_row("data", ListedClip(item_id="it", source_video_id="it", path=str(wanted.video)))
        source = source_of(row)
        mirrored(source, folder / "donor.mp4")
        donor = shards.source_row(
            "data", ListedClip(item_id="donor", source_video_id="donor", path=str(folder / "donor.mp4"))
        )
        print(f"{source.num_frames} frames of {source.width}x{source.height}\n| perturbation | ours, s | plain, s |")
        for entry in (*registry.perturbations("transmission"), *registry.perturbations("tampering")):
            if wanted.only and entry.name not in wanted.only:
                continue
            video = recipe.make(entry, wanted.severity, seed=0, storage=recipe.Unstored(), donors="data")
            known = shards.source_with_facts(video, row, [donor])
            ours = cpu_seconds(lambda video=video, known=known: sum(1 for _ in rendering.render(video, known)))
            other = plain(entry.key, wanted.severity, wanted.video, folder)
            print(
                f"| `{entry.key}` | {ours:.2f} | {'' if other is None else f'{cpu_seconds(other):.2f}'} |", flush=True
            )


if __name__ == "__main__":
    main()
