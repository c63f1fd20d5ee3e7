"""The whole of MLVP, 12 perturbations x 5 severities, over a few clips, and where the time goes.

    python benchmarks/mlvp.py VIDEO [VIDEO ...]

In one process, as a job works, without its start and imports. CPU seconds per clip, ffmpeg's included:
*decode* the clean clip; *analysis* motion, main object, embedding, once per clip; *kernel*; *encode*; *check* decoding
the stored file again; *overhead* the rest: hashes, PSNR, SSIM, files.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from perturbations.config import sections as config
from perturbations.engine import guided, pipeline, rendering, shards
from perturbations.engine import rows as manifest_rows
from perturbations.engine.source import source_of
from perturbations.guides import registry as guides
from perturbations.guides.registry import Known, Work
from perturbations.manifest.kinds import CompleteSource
from perturbations.media import decoding, encoding, program
from perturbations.media.clip import Clip, Frame
from perturbations.plan import recipe
from perturbations.plan.listed import ListedClip
from perturbations.suites import registry

PARTS = ("decode", "analysis", "kernel", "encode", "check", "overhead")


def cpu_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Stopwatch:
    """CPU seconds by part; a part that starts within another stops that one for as long."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._running = ["overhead"]
        self._since = cpu_s()

    def _turn(self) -> None:
        now = cpu_s()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._turn()
        self._running.append(name)
        try:
            yield
        finally:
            self._turn()
            self._running.pop()

    def function(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            with self.part(name):
                return function(*arguments, **options)

        return timed

    def frames(self, name: str, things: Iterator[Any]) -> Iterator[Any]:
        things = iter(things)
        while True:
            with self.part(name):
                try:
                    thing = next(things)
                except StopIteration:
                    return
            yield thing

    def take(self) -> dict[str, float]:
        self._turn()
        taken, self.seconds = dict(self.seconds), defaultdict(float)
        return taken


def instrument(watch: Stopwatch, clean: set[Path]) -> None:
    decode, bind, encode, by_ffmpeg = decoding.decode, rendering.applier, encoding.encode, program.encode_with_ffmpeg

    def timed_decode(clip: Clip, **options: Any) -> Iterator[Frame]:
        return watch.frames("decode" if clip.path in clean else "check", decode(clip, **options))

    def timed_applier(*arguments: Any) -> Any:
        with watch.part("kernel"):
            return watch.function("kernel", bind(*arguments))

    decoding.decode = timed_decode
    rendering.applier = timed_applier
    encoding.encode = watch.function("encode", encode)
    program.encode_with_ffmpeg = watch.function("encode", by_ffmpeg)


HIGH = recipe.stored_video("high")


def known_of(rows: Sequence[CompleteSource], folder: Path, watch: Stopwatch) -> dict[str, Known]:
    """Every analysis of every clip."""
    known = {}
    for name in ("motion", "main_object", "embedding"):
        job_recipe = recipe.analysis(name, config.Backends(), HIGH)
        analysis = guides.analysis(name)
        rows_by_item = {}
        for row in rows:
            target = folder / f"{name}-{row.item_id}.parquet" if analysis.extension else None
            with watch.part("analysis"):
                (result,) = analysis.run(job_recipe, [source_of(row)], Work(files=[target]))
            if isinstance(result, Exception):
                raise result
            expected = manifest_rows.expected_analysis(job_recipe, row, str(target) if target else None)
            rows_by_item[row.item_id] = manifest_rows.complete_analysis(expected, result)
        known[name] = Known(rows_by_item, list(rows_by_item.values()) if name == "embedding" else ())
        spent = watch.take()
        print(f"{name:24} {sum(spent.values()) / len(rows):7.2f}", flush=True)
        TOTAL.append({"analysis": sum(spent.values())})
    return known


TOTAL: list[dict[str, float]] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path)
    options = parser.parse_args()
    videos = [path.resolve() for path in options.videos]
    watch = Stopwatch()
    instrument(watch, set(videos))
    rows = []
    for path in videos:
        listed = ListedClip(item_id=path.stem, source_video_id=path.stem, path=str(path))
        rows.append(shards.source_row("bench", listed))
    frames = sum(row.frame_count for row in rows)
    print(f"{len(rows)} clips, {frames} frames; CPU seconds per clip\n")
    watch.take()
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        known = known_of(rows, folder, watch)
        print(f"\n{'perturbation':24} severity " + " ".join(f"{part:>9}" for part in (*PARTS, "all")))
        for entry in registry.perturbations("mlvp", "video"):
            for severity in entry.severities:
                job_recipe = recipe.make(entry, severity, seed=0, storage=HIGH, donors="bench")
                for row in rows:
                    about = known[job_recipe.analysis.analysis] if job_recipe.analysis else Known()
                    facts = guided.facts_of(job_recipe, row, about) if job_recipe.guide else None
                    source = replace(source_of(row), facts=facts)
                    if job_recipe.analysis and (kept := about.rows[row.item_id].path):
                        source = replace(source, kept=Path(kept))
                    pipeline.produce(job_recipe, source, folder / "out.mp4")
                spent = watch.take()
                TOTAL.append(spent)
                cells = [spent.get(part, 0.0) / len(rows) for part in PARTS]
                print(f"{entry.name:24} {severity:8} " + " ".join(f"{cell:9.3f}" for cell in (*cells, sum(cells))))
    sums = {part: sum(spent.get(part, 0.0) for spent in TOTAL) for part in PARTS}
    whole = sum(sums.values())
    per_frame_ms = 1000 * whole / frames / 60
    print(f"\nall: {whole / len(rows):.1f} CPU seconds per clip, {per_frame_ms:.2f} ms per frame and scenario")
    print("share: " + ", ".join(f"{part} {sums[part] / whole:.0%}" for part in PARTS))


if __name__ == "__main__":
    main()
