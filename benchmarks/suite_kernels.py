"""CPU milliseconds per frame of all 35 visual perturbations of MSRVTT-P and MM-Robustness, beside the plain way.

    python benchmarks/suite_kernels.py [--size 320x240] [--severities 1 3 5] [--repeats 5] [--only NAME ...]

One process per measurement, one thread, frames of a drifting scene; the time is the best of the repeats.
The time of a formula with large temporary arrays depends on whether the C library gives their memory back to the
system after each frame, which it does at first; for `kept`, ours and plain, glibc is configured to keep everything.
Where a suite draws again for every frame, the draw and the kernel's preparation are included in the frame's time; in
other suites they are done once per clip and not included. `published` is the time of the papers' own functions for a
320x240 frame on a slower machine.
`plain` is, on the same frames and machine:

- for pixels the formula of the papers' code (NumPy, SciPy, scikit-image, Pillow, double precision). It is code for
  single images, so it draws for every frame, also where a suite draws once per clip. Only fog, snow and elastic
  distortion get what is computed once per clip on both sides, and frost its texture, which the papers' code reads from
  a file each time.
  Motion blur is imagecorruptions' own: ImageMagick, which MSRVTT-P calls, takes ten times as long. Glass blur's loops
  over pixels are left out, because compiled ones cost little;
- for order a list of the clip's frames, rearranged and stacked, as the papers' code does; ours is the plan, and each
  frame copied when its turn comes, as rendering does;
- for MPEG an ffmpeg that transcodes the file with the same arguments; ours decodes it and pipes frames to ffmpeg;
- for stylize AdaIN's networks, at random weights, encoding the style again for every frame as MLVP's code does. Ours is
  the offline filter bank: another algorithm, which no network's time is a measure of.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import multiprocessing
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from kernels import KEEP_MEMORY, scene, size
from plain_suite_kernels import ORDERS, PLAIN, PREPARED

from perturbations.base import rng, storage
from perturbations.base.progress import no_tick
from perturbations.engine import rendering, shards
from perturbations.engine.source import source_of
from perturbations.media import encoding, program
from perturbations.media.clip import Frame, Timing
from perturbations.plan import recipe
from perturbations.plan.listed import ListedClip
from perturbations.suites import registry
from perturbations.suites.registry import Perturbation
from perturbations.video import procedural_styles, style

Apply = Callable[[np.ndarray, int], np.ndarray]

# What the reference code took, over severities 1, 3, 5 or at their middle: (least, most).
PUBLISHED_MS = {
    "msrvtt_p/gaussian_noise": (6.6, 6.6),
    "msrvtt_p/shot_noise": (15, 18),
    "msrvtt_p/impulse_noise": (7, 8),
    "msrvtt_p/speckle_noise": (6.6, 6.6),
    "msrvtt_p/defocus_blur": (6.7, 8.5),
    "msrvtt_p/zoom_blur": (92, 102),
    "msrvtt_p/motion_blur": (85, 108),
    "msrvtt_p/jpeg": (0.6, 0.6),
    "msrvtt_p/static_rotate": (0.25, 0.25),
    "msrvtt_p/rotate": (0.25, 0.25),
    "mm_robustness/gaussian_noise": (7.9, 7.9),
    "mm_robustness/shot_noise": (18.6, 18.6),
    "mm_robustness/impulse_noise": (7.4, 7.4),
    "mm_robustness/speckle_noise": (5.3, 5.3),
    "mm_robustness/defocus_blur": (8.6, 8.6),
    "mm_robustness/glass_blur": (19.8, 19.8),
    "mm_robustness/motion_blur": (11.5, 11.5),
    "mm_robustness/zoom_blur": (98, 98),
    "mm_robustness/snow": (14.1, 14.1),
    "mm_robustness/frost": (11, 11),
    "mm_robustness/fog": (7.9, 7.9),
    "mm_robustness/brightness": (29.8, 29.8),
    "mm_robustness/contrast": (3.1, 3.1),
    "mm_robustness/elastic_transform": (18.8, 18.8),
    "mm_robustness/pixelate": (0.8, 0.8),
    "mm_robustness/jpeg_compression": (1, 1),
}


# --- measuring -------------------------------------------------------------------------------------------------------

Run = Callable[[], None]
LONG = 288  # frames of a clip that is put in order or encoded


def cpu_seconds() -> float:
    """Of this process and of the programs that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def timed_ms(run: Run, frames: int) -> float:
    """CPU milliseconds per frame."""
    started = cpu_seconds()
    run()
    return (cpu_seconds() - started) / frames * 1000


def drawn(entry: Perturbation, shape: tuple[int, int, int], index: int | None) -> Any:
    if entry.realization is None:
        return None
    return registry.resolve(entry.realization)(rng.generator(0, "benchmark", "scene", entry.key, index), *shape)


def measure(key: str, severity: int, which: int, shape: tuple[int, int, int], repeats: int) -> float:
    """Ours (0) or plain (1), CPU milliseconds per frame; to be called in a process of its own."""
    cv2.setNumThreads(1)
    entry = registry.get(key)
    runs = {"codec": codec_runs, "temporal": order_runs, "pixel": pixel_runs}[entry.method]
    with tempfile.TemporaryDirectory() as folder:
        *both, frames = runs(entry, severity, shape, Path(folder))
        run: Run = both[which]
        if entry.name == "stylize" and which == 1:
            return timed_ms(run, 1)
        run()  # tables that all frames use
        return min(timed_ms(run, frames) for _ in range(repeats))


def pixel_runs(entry: Perturbation, severity: int, shape: tuple[int, int, int], folder: Path) -> tuple[Run, Run, int]:
    parameters = entry.parameters(severity)
    kernel = registry.resolve(entry.kernel)
    frames = scene(*shape)
    guide_argument: tuple[Any, ...] = (None,) if entry.guide == "frost" else ()  # drawn ice
    if entry.guide == "style":
        guide_argument = (style.filter_bank(procedural_styles.image(procedural_styles.names()[0])),)

    def bound(index: int | None) -> Apply:
        apply: Apply = kernel(drawn(entry, shape, index), *guide_argument, *shape, **parameters)
        return apply

    once = None if entry.draw == "frame" else bound(None)

    def ours() -> None:
        for index, frame in enumerate(frames):
            (once or bound(index))(frame, index)

    if entry.name == "stylize":
        return ours, networks_run(frames[0], **parameters), len(frames)
    if entry.name in PREPARED:
        # The plain snow falls; it is shown one frame.
        applied = PREPARED[entry.name](drawn(entry, shape, None), (1, *shape[1:]), **parameters)
        return ours, lambda: [applied(frame, 0) for frame in frames] and None, len(frames)
    generator = np.random.default_rng(0)
    plain_parameters = {"rate": parameters["strength"]} if "strength" in parameters else parameters
    plain_frame = partial(PLAIN[entry.name], **plain_parameters)
    return ours, lambda: [plain_frame(frame, generator) for frame in frames] and None, len(frames)


def networks_run(frame: np.ndarray, *, alpha: float) -> Run:
    """One frame through AdaIN's networks, its style encoded for it."""
    import torch

    from perturbations.models import adain

    torch.set_num_threads(1)
    networks = adain.Adain(adain.encoder().eval(), adain.decoder().eval(), {})
    picture = procedural_styles.image(procedural_styles.names()[0])
    return lambda: networks.stylize(frame[None], networks.style(picture), alpha) is None


def order_runs(entry: Perturbation, severity: int, shape: tuple[int, int, int], folder: Path) -> tuple[Run, Run, int]:
    parameters = entry.parameters(severity)
    frames = list(scene(LONG, *shape[1:]))
    generator = np.random.default_rng(0)

    def ours() -> None:
        plan = registry.resolve(entry.kernel)(drawn(entry, (LONG, *shape[1:]), None), LONG, **parameters)
        for position in plan.tolist():
            frames[position].copy()

    return ours, lambda: np.stack(ORDERS[entry.name](frames, generator, **parameters)) is None, LONG


def codec_runs(entry: Perturbation, severity: int, shape: tuple[int, int, int], folder: Path) -> tuple[Run, Run, int]:
    clip, target, rate = folder / "clip.mp4", folder / "out.mp4", Fraction(25)
    frames = (Frame(image, index, index) for index, image in enumerate(scene(LONG, *shape[1:])))
    encoding.encode(frames, clip, storage.PROFILES["compatible"], Timing(1 / rate, rate))
    listed = ListedClip(item_id="scene", source_video_id="scene", path=str(clip))
    source = source_of(shards.source_row("benchmark", listed))
    job_recipe = recipe.make(entry, severity, seed=0, storage=recipe.Unstored())
    arguments = registry.resolve(entry.kernel)(**job_recipe.params)
    words = [part for name, value in arguments.items() for part in (f"-{name}", str(value))]
    quiet = ["-nostdin", "-hide_banner", "-loglevel", "error", "-y"]
    command = [program.ffmpeg_program(), *quiet, "-threads", "1", "-i", str(clip), "-an", *words, str(target)]
    return (
        lambda: rendering.encode_stream(job_recipe, source, target, no_tick),
        lambda: subprocess.run(command, check=True) is None,
        LONG,
    )


def in_own_process(*arguments: Any) -> float:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


class Measured(NamedTuple):
    ours: list[float]
    plain: list[float]

    @property
    def ratio(self) -> float:
        """The median over the severities."""
        return statistics.median(plain / ours for ours, plain in zip(*self, strict=True))

    def cells(self) -> str:
        return f"{span(self.ours)} | {span(self.plain)} | {self.ratio:.1f} x"


def measured(entry: Perturbation, options: argparse.Namespace) -> Measured:
    width, height = options.size
    rest = (options.frames, height, width), options.repeats
    return Measured(
        *([in_own_process(entry.key, severity, which, *rest) for severity in options.severities] for which in (0, 1))
    )


def span(times: list[float]) -> str:
    least, most = (f"{time:.3g}" for time in (min(times), max(times)))
    return least if least == most else f"{least}-{most}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=size, default=(320, 240), metavar="WIDTHxHEIGHT")
    parser.add_argument("--severities", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME")
    options = parser.parse_args()

    width, height = options.size
    print(f"{width}x{height}, severities {options.severities}, best of {options.repeats}; CPU ms per frame\n")
    print("| perturbation | ours | plain | ratio | ours, kept | plain, kept | ratio | published | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    measured_ratios: dict[str, tuple[float, float]] = {}
    published: dict[str, float] = {}
    for entry in [*registry.perturbations("msrvtt_p", "video"), *registry.perturbations("mm_robustness", "video")]:
        if options.only and entry.name not in options.only:
            continue
        fresh = measured(entry, options)
        os.environ.update(KEEP_MEMORY)
        kept = measured(entry, options)
        for name in KEEP_MEMORY:
            del os.environ[name]
        measured_ratios[entry.key] = fresh.ratio, kept.ratio
        papers = list(PUBLISHED_MS.get(entry.key, ()))
        if papers:
            published[entry.key] = statistics.mean(papers) / statistics.median(fresh.ours)
        cells = f"{span(papers)} | {published[entry.key]:.1f} x" if papers else "|"
        print(f"| {entry.key} | {fresh.cells()} | {kept.cells()} | {cells} |", flush=True)
    fresh_ratios = {key: both[0] for key, both in measured_ratios.items()}
    for name, ratios in (
        ("the plain way", fresh_ratios),
        ("the plain way, memory kept", {key: both[1] for key, both in measured_ratios.items()}),
        (
            f"the papers' own functions, and the plain way where those were not timed ({len(published)} were)",
            fresh_ratios | published,
        ),
    ):
        slowest = sorted(ratios, key=ratios.__getitem__)[:8]
        named = [key for key in ratios if key.endswith(("glass_blur", "zoom_blur", "motion_blur"))]
        print(f"\nbeside {name}: median of {len(ratios)} perturbations {statistics.median(ratios.values()):.1f} x")
        print("slowest: " + ", ".join(f"{key} {ratios[key]:.2f} x" for key in slowest))
        print("blurs: " + ", ".join(f"{key} {ratios[key]:.1f} x" for key in named))


if __name__ == "__main__":
    main()
