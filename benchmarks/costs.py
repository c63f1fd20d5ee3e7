"""What `perturb check` computes its estimates of disk and CPU time from: measure it, and write its table.

    python benchmarks/costs.py measure raw.csv VIDEO[:FROM-TO] ... [--tiers high frames ...] [--only WORD ...]
    python benchmarks/costs.py parts VIDEO [--tiers high frames] [--only WORD ...]
    python benchmarks/costs.py table short.csv long.csv     # writes perturbations/plan/costs.csv from them
    python benchmarks/costs.py captions MSRVTT_JSFUSION_test.csv [--captions 200]  # writes plan/caption_costs.csv

`measure` makes every video perturbation, at every severity and in every variant, of short real clips by the code of the
workflow's jobs, and writes the bytes of each stored clip and the CPU seconds, with how much longer than at its best
the machine took right before and after (`perturbations/preflight/speed.py`), by which they are divided. `parts` tells
apart what a job, a clip, its pixels and its stored pixels take. `table`: see `cost_table.py`; `costs.csv` and
`costs_long.csv` beside it are what the present table was written from. `captions` measures perturbed captions with
the offline players. `benchmarks/estimates.py` compares with runs.
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import cost_table
import numpy as np

from perturbations.base import storage
from perturbations.demo import film
from perturbations.engine import shards
from perturbations.engine.source import source_of
from perturbations.guides.registry import Known
from perturbations.manifest.kinds import AnalysisRow, CompleteSource
from perturbations.media import decoding, encoding, framefile
from perturbations.media.clip import Clip, Frame, Timing, uniform_indices
from perturbations.plan import recipe
from perturbations.plan.listed import ListedClip
from perturbations.preflight import costs, speed, survey
from perturbations.suites import registry

REPOSITORY = Path(__file__).parents[1]
TIERS = ("high", "frames", "lossless", "compatible", "released", "recipe")
COLUMNS = (
    "perturbation",
    "variant",
    "severity",
    "tier",
    "clip",
    "frames",
    "pixels",
    "seconds",
    "clean_bytes",
    "key_bytes",
    "bytes",
    "cpu_s",
    "slower",
)


def storage_of(tier: str) -> recipe.Storage:
    """The storage settings of one of `TIERS`."""
    if tier == "frames":
        return recipe.StoredFrames(num_frames=12)
    return recipe.Unstored() if tier == "recipe" else recipe.stored_video(tier)


def cpu_s() -> float:
    """CPU seconds of this process and its finished children."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def listed(text: str) -> ListedClip:
    """A clip as the command line names it: PATH or PATH:FROM-TO, in seconds."""
    path, _, span = text.partition(":")
    start, _, end = span.partition("-")
    name = Path(path).stem
    times = {"start_s": float(start), "end_s": float(end)} if span else {}
    return ListedClip(item_id=name, source_video_id=name, path=str(Path(path).resolve()), **times)


Clean = tuple[float, float]
"""Bytes of a clip that is stored as it is, and those of them that are in key frames."""


def clean_bytes(row: CompleteSource, tier: str, folder: Path) -> Clean:
    """The size of a clip that is stored as it is."""
    clip = Clip(Path(row.path), row.start_s, row.end_s)
    target = folder / "clean.mp4"
    if tier == "recipe":
        return 0, 0
    if tier == "frames":
        wanted = uniform_indices(12, row.frame_count)
        images = {frame.position: frame.image for frame in decoding.decode(clip, only=set(wanted))}
        framefile.write(target, np.stack([images[index] for index in wanted]))
        size = target.stat().st_size
        return size, size * survey.share_of_keys(12, row.frame_count)
    clock, profile = source_of(row).timing, storage.PROFILES[tier]
    keys = uniform_indices(profile.key_frames, row.frame_count) if profile.key_frames else ()
    encoding.encode(decoding.decode(clip), target, profile, clock, key_frames=set(keys))
    return target.stat().st_size, sum(size for size, is_key in survey.packets(target) if is_key)


def measure(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="estimates-") as name, options.raw.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not file.tell():
            writer.writeheader()
        for tier in options.tiers:
            for line in measured(tier, options, Path(name)):
                writer.writerow(line)
                file.flush()


def measured(tier: str, options: argparse.Namespace, root: Path) -> Iterator[dict[str, object]]:
    clock = Clock()
    rows = [shards.source_row("bench", listed(video)) for video in options.videos]
    used = clock.read()
    if options.variants == "first":
        if tier == "high":
            yield from lines(costs.SOURCES, "", 0, tier, rows, {}, {}, used)
        drawn = [shards.source_row("bench", drawn_clip(root, number)) for number in range(DRAWN)]
        unchanged = {row.item_id: clean_bytes(row, tier, root) for row in drawn}
        sizes = {item: int(size) for item, (size, _) in unchanged.items()}
        yield from lines(costs.DEMO, "", 0, tier, drawn, unchanged, sizes, (0, 1))
    clean = {row.item_id: clean_bytes(row, tier, root) for row in rows}
    stored = storage_of(tier)
    analyses: dict[str, list[AnalysisRow]] = {}
    for number, (form, severity) in enumerate(scenarios(options)):
        job = recipe.make(form, severity, seed=0, storage=stored, donors="bench")
        known = Known()
        if job.analysis is not None:
            name = job.analysis.text
            if name not in analyses:
                clock = Clock()
                analyses[name] = analysed(job.analysis, rows, tier, root)
                sizes = {row.item_id: row.bytes or 0 for row in analyses[name]}
                yield from lines(f"analyses/{job.analysis.analysis}", "", 0, tier, rows, {}, sizes, clock.read())
            known = Known({row.item_id: row for row in analyses[name]}, analyses[name] if job.donors else [])
        folder, journal = root / f"{tier}-{number}", root / f"{tier}-{number}.jsonl"
        clock = Clock()
        done = list(
            shards.run_videos(job, rows, root=root, folder=folder, journal=journal, stall_limit_s=300, known=known)
        )
        used = clock.read()
        for row in done:
            if row.error:
                print(form.key, severity, row.item_id, row.error, file=sys.stderr)
        sizes = {row.item_id: row.bytes or 0 for row in done if not row.error}
        yield from lines(form.key, form.variant, severity, tier, rows, clean, sizes, used)
        subprocess.run(["rm", "-rf", str(folder)], check=True)


class Clock:
    """The CPU seconds of what is done, and how much longer than usual the machine took right before and after it."""

    def __init__(self) -> None:
        self._before = speed.Probe().look()
        self._began = cpu_s()

    def read(self) -> tuple[float, float]:
        used = cpu_s() - self._began
        return used, (self._before + speed.Probe().look()) / 2


DRAWN = 6
"""Clips of the demo that are measured."""


def drawn_clip(root: Path, number: int) -> ListedClip:
    """A clip of the demo, as the workflow draws it."""
    rate = Fraction(film.FPS)
    frames = (Frame(image, index, index) for index, image in enumerate(film.frames(number)))
    encoding.encode(frames, root / f"drawn{number}.mp4", storage.PROFILES["compatible"], Timing(1 / rate, rate))
    return listed(str(root / f"drawn{number}.mp4"))


def lines(
    name: str,
    variant: str,
    severity: int,
    tier: str,
    rows: Sequence[CompleteSource],
    clean: Mapping[str, Clean],
    sizes: Mapping[str, int],
    used: tuple[float, float],
) -> Iterator[dict[str, object]]:
    """A line per clip; the CPU seconds of all clips (`used`, as `Clock` reads it) are shared out by their pixels."""
    pixels = {row.item_id: row.frame_count * row.width * row.height for row in rows}
    for row in rows:
        if name != "sources" and row.item_id not in sizes:
            continue
        share = pixels[row.item_id] / sum(pixels.values())
        measured = (
            row.frame_count,
            pixels[row.item_id],
            round(row.duration_s, 3),
            *(round(size) for size in clean.get(row.item_id, (0, 0))),
            sizes.get(row.item_id, 0),
            round(used[0] * share, 4),
            round(used[1], 3),
        )
        yield dict(zip(COLUMNS, (name, variant, severity, tier, row.item_id, *measured), strict=True))


def scenarios(options: argparse.Namespace) -> Iterator[tuple[registry.Perturbation, int]]:
    for entry in registry.perturbations(kind="video"):
        forms = {"first": entry.forms()[:1], "others": entry.forms()[1:]}[options.variants]
        for form in forms:
            if not options.only or any(word in f"{form.key}/{form.variant}" for word in options.only):
                for severity in form.severities:
                    if severity in options.severities:
                        yield form, severity


def analysed(wanted: object, rows: Sequence[CompleteSource], tier: str, root: Path) -> list[AnalysisRow]:
    name = wanted.analysis
    before: dict[str, AnalysisRow] = {}
    folder = root / f"{name}-{tier}"
    journal = root / f"{name}-{tier}.jsonl"
    return list(
        shards.run_analysis(wanted, rows, root=root, folder=folder, journal=journal, stall_limit_s=300, before=before)
    )


# --- parts of a job's time --------------------------------------------------------------------------------------------

BATCH = 8
"""Clips of a job, when one is not enough to tell a clip's time from a job's."""
REPEATS = 2
"""The shortest of so many times counts: other programs make them longer."""


def parts(options: argparse.Namespace) -> None:
    """CPU seconds per job, per clip, per million pixels, and per million stored ones (of frames), by scenario."""
    short, long = (f"{options.video}:0-{length}" for length in (1, 3))
    print("| perturbation | tier | per job | per clip | per Mpx | per stored Mpx |\n|---|---|---|---|---|---|")
    for form, severity in scenarios(options):
        for tier in options.tiers:
            single, batch, lengthy = (
                job_cpu_s(form, severity, tier, *of) for of in ((short, 1), (short, BATCH), (long, BATCH))
            )
            fewer = job_cpu_s(form, severity, tier, short, BATCH, num_frames=4) if tier == "frames" else batch
            clip_s = (batch.cpu_s - single.cpu_s) / (BATCH - 1)
            pixel_s = (lengthy.cpu_s - batch.cpu_s) / (lengthy.pixels - batch.pixels)
            stored_s = (batch.cpu_s - fewer.cpu_s) / max(1, batch.stored - fewer.stored)
            rest = clip_s - pixel_s * single.pixels - stored_s * single.stored
            cells = (single.cpu_s - clip_s, rest, pixel_s * 1e6, stored_s * 1e6)
            print(f"| {form.key} {severity} | {tier} | {' | '.join(f'{cell:.4f}' for cell in cells)} |", flush=True)


@dataclass(frozen=True)
class Job:
    """What a job took: CPU seconds, the pixels of its clips, and those that it stored."""

    cpu_s: float
    pixels: int
    stored: int


def job_cpu_s(
    form: registry.Perturbation, severity: int, tier: str, video: str, clips: int, *, num_frames: int = 12
) -> Job:
    """A job of the rule `videos`, without the start of its process, on so many copies of a clip."""
    first = shards.source_row("bench", listed(video))
    rows = [replace(first, item_id=f"clip{number}") for number in range(clips)]
    stored = recipe.StoredFrames(num_frames=num_frames) if tier == "frames" else storage_of(tier)
    job = recipe.make(form, severity, seed=0, storage=stored, donors="bench")
    frame = first.width * first.height
    kept = num_frames if tier == "frames" else first.frame_count
    times = []
    with tempfile.TemporaryDirectory(prefix="costs-") as name:
        root = Path(name)
        known = Known()
        if job.analysis is not None:
            analyses = analysed(job.analysis, rows, tier, root)
            known = Known({row.item_id: row for row in analyses}, analyses if job.donors else [])
        for number in range(REPEATS):
            clock = Clock()
            paths = {"folder": root / f"{number}", "journal": root / f"{number}.jsonl"}
            list(shards.run_videos(job, rows, root=root, stall_limit_s=300, known=known, **paths))
            used, slower = clock.read()
            times.append(used / slower)
    return Job(min(times), clips * frame * first.frame_count, clips * frame * kept)


# --- captions --------------------------------------------------------------------------------------------------------

CAPTION_TABLE = REPOSITORY / "perturbations/plan/caption_costs.csv"


def captions(options: argparse.Namespace) -> None:
    """Measure each perturbation at its first, middle and last severity, each in a new process, as jobs are."""
    with CAPTION_TABLE.open("w", newline="") as file:
        file.write("# measured by benchmarks/costs.py: see perturbations/preflight/caption_costs.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("perturbation", "severity", "start_s", "caption_s"))
        for entry in registry.perturbations(kind="text"):
            last = len(entry.severities)
            for severity in sorted({1, last // 2 + 1, last}):
                few, many = (job_of_captions(options, entry.key, severity, count) for count in (1, options.captions))
                caption_s = max(0.0, many - few) / (options.captions - 1)
                writer.writerow((entry.key, severity, f"{few:.3g}", f"{caption_s:.3g}"))
                file.flush()


def job_of_captions(options: argparse.Namespace, key: str, severity: int, count: int) -> float:
    """CPU seconds of a process that perturbs so many captions of a table, on the machine at its best."""
    command = [sys.executable, "-c", PERTURB, str(options.table), key, str(severity), str(count)]
    clock = Clock()
    subprocess.run(command, check=True)
    used, slower = clock.read()
    return used / slower


PERTURB = """
import csv, sys
from perturbations.captions.pipeline import perturb_captions
from perturbations.plan.listed import ListedCaption
path, key, severity, count = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
step = max(1, len(rows) // int(count))
rows = rows[::step][:int(count)]
captions = [ListedCaption(caption_id=row["key"], item_id=row["video_id"], text=row["sentence"]) for row in rows]
list(perturb_captions(captions, key, int(severity), seed=0, dataset="bench"))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("measure")
    command.add_argument("raw", type=Path)
    command.add_argument("videos", nargs="+")
    command.add_argument("--tiers", nargs="+", default=TIERS, choices=TIERS)
    command.add_argument("--only", nargs="+", default=())
    command.add_argument("--variants", default="first", choices=("first", "others"))
    command.add_argument("--severities", nargs="+", type=int, default=(1, 2, 3, 4, 5))
    command.set_defaults(run=measure)
    command = commands.add_parser("parts")
    command.add_argument("video")
    command.add_argument("--tiers", nargs="+", default=("high", "frames"), choices=TIERS)
    command.add_argument("--only", nargs="+", default=())
    command.add_argument("--severities", nargs="+", type=int, default=(3,))
    command.set_defaults(run=parts, variants="first")
    command = commands.add_parser("captions")
    command.add_argument("table", type=Path)
    command.add_argument("--captions", type=int, default=200)
    command.set_defaults(run=captions)
    command = commands.add_parser("table")
    command.add_argument("raw", type=Path, nargs="+")
    command.set_defaults(run=lambda options: cost_table.write(options.raw))
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
