"""The estimates of disk and CPU time that `perturb check` prints: measure what they are computed from, and check them.

    python benchmarks/estimates.py measure raw.csv VIDEO[:FROM-TO] ... [--tiers high frames ...] [--only WORD ...]
    python benchmarks/estimates.py table raw.csv     # writes perturbations/plan/costs.csv from it
    python benchmarks/estimates.py compare VIDEO ... [--suite mlvp] [--profile high]

`measure` makes every video perturbation, at every severity and in every variant, of short real clips by the code of the
workflow's jobs, and writes the bytes of each stored clip per pixel and the CPU seconds per million pixels. `table` fits
to each scenario a line over the clips: its bytes per pixel by those of the clean clip in the same tier. `compare` runs
the workflow on other clips, in a temporary folder, and prints its estimates beside what was stored and used.
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from perturbations.engine import shards
from perturbations.engine.source import source_of
from perturbations.guides.registry import Known
from perturbations.manifest.kinds import AnalysisRow, CompleteSource
from perturbations.media import decoding, encoding, framefile
from perturbations.media.clip import Clip, uniform_indices
from perturbations.plan import recipe
from perturbations.plan.listed import ListedClip
from perturbations.suites import registry
from perturbations.system import storage

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
    "bytes",
    "cpu_s",
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


def clean_bytes(row: CompleteSource, tier: str, folder: Path) -> int:
    """The size of a clip that is stored as it is."""
    clip = Clip(Path(row.path), row.start_s, row.end_s)
    target = folder / "clean.mp4"
    if tier == "recipe":
        return 0
    if tier == "frames":
        import numpy as np

        wanted = uniform_indices(12, row.frame_count)
        images = {frame.position: frame.image for frame in decoding.decode(clip, only=set(wanted))}
        framefile.write(target, np.stack([images[index] for index in wanted]))
    else:
        clock = source_of(row).timing
        encoding.encode(decoding.decode(clip), target, storage.PROFILES[tier], clock)
    return target.stat().st_size


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
    before = cpu_s()
    rows = [shards.source_row("bench", listed(video)) for video in options.videos]
    used = cpu_s() - before
    if tier == "high":
        yield from lines("sources", "", 0, tier, rows, {}, {}, used)
    clean = {row.item_id: clean_bytes(row, tier, root) for row in rows}
    stored = storage_of(tier)
    analyses: dict[str, list[AnalysisRow]] = {}
    for number, (form, severity) in enumerate(scenarios(options)):
        job = recipe.make(form, severity, seed=0, storage=stored, donors="bench")
        known = Known()
        if job.analysis is not None:
            name = job.analysis.text
            if name not in analyses:
                before = cpu_s()
                analyses[name] = analysed(job.analysis, rows, tier, root)
                sizes = {row.item_id: row.bytes or 0 for row in analyses[name]}
                yield from lines(f"analyses/{job.analysis.analysis}", "", 0, tier, rows, {}, sizes, cpu_s() - before)
            known = Known({row.item_id: row for row in analyses[name]}, analyses[name] if job.donors else [])
        folder, journal = root / f"{tier}-{number}", root / f"{tier}-{number}.jsonl"
        before = cpu_s()
        done = list(
            shards.run_videos(job, rows, root=root, folder=folder, journal=journal, stall_limit_s=300, known=known)
        )
        for row in done:
            if row.error:
                print(form.key, severity, row.item_id, row.error, file=sys.stderr)
        sizes = {row.item_id: row.bytes or 0 for row in done if not row.error}
        yield from lines(form.key, form.variant, severity, tier, rows, clean, sizes, cpu_s() - before)
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def lines(
    name: str,
    variant: str,
    severity: int,
    tier: str,
    rows: Sequence[CompleteSource],
    clean: Mapping[str, int],
    sizes: Mapping[str, int],
    used: float,
) -> Iterator[dict[str, object]]:
    """A line per clip; the CPU seconds of all clips are shared out by their pixels."""
    pixels = {row.item_id: row.frame_count * row.width * row.height for row in rows}
    for row in rows:
        if name != "sources" and row.item_id not in sizes:
            continue
        share = pixels[row.item_id] / sum(pixels.values())
        measured = (
            row.frame_count,
            pixels[row.item_id],
            round(row.duration_s, 3),
            clean.get(row.item_id, 0),
            sizes.get(row.item_id, 0),
            round(used * share, 4),
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


# --- the table -------------------------------------------------------------------------------------------------------


def table(options: argparse.Namespace) -> None:
    with options.raw.open(newline="") as file:
        raw = [line for line in csv.DictReader(file) if line["perturbation"] != "perturbation"]
    grouped: dict[tuple[str, str, int, str], list[dict[str, str]]] = {}
    for line in raw:
        key = line["perturbation"], line["variant"], int(line["severity"]), line["tier"]
        grouped.setdefault(key, []).append(line)
    with TABLE.open("w", newline="") as file:
        file.write("# measured by benchmarks/estimates.py: see perturbations/plan/costs.py\n")
        writer = csv.writer(file, lineterminator="\n")
        names = ("per_pixel", "per_clean", "per_second", "cpu_s")
        writer.writerow(("perturbation", "variant", "severity", "tier", *names))
        for key, lines in sorted(grouped.items()):
            writer.writerow((*key, *(f"{value:.4g}" for value in fitted(key, lines))))


TABLE = REPOSITORY / "perturbations/plan/costs.csv"


def fitted(key: tuple[str, str, int, str], lines: list[dict[str, str]]) -> tuple[float, float, float, float]:
    """Bytes per pixel, per clean byte, per second; CPU seconds per million pixels."""
    import numpy as np
    from scipy.optimize import nnls

    pixels = np.array([float(line["pixels"]) for line in lines])
    sizes, seconds = (np.array([float(line[name]) for line in lines]) for name in ("bytes", "seconds"))
    clean = np.array([float(line["clean_bytes"]) for line in lines])
    if key[3] == "frames":  # of each clip, 12 frames are stored
        frames = np.array([float(line["frames"]) for line in lines])
        pixels_stored = pixels / frames * 12
    else:
        pixels_stored = pixels
    cpu_s = sum(float(line["cpu_s"]) for line in lines) / pixels.sum() * 1e6
    parameters = {}
    if "/" in key[0] and not key[0].startswith("analyses/"):
        parameters = registry.get(key[0], key[1]).parameters(key[2])
    if "bitrate" in parameters and key[3] not in ("frames", "recipe"):
        return 0.0, 0.0, float(sizes.sum() / seconds.sum()), cpu_s
    if not sizes.any():
        return 0.0, 0.0, 0.0, cpu_s
    if len(lines) == 1 or not clean.all():
        return float(sizes.sum() / pixels_stored.sum()), 0.0, 0.0, cpu_s
    design = np.stack([pixels_stored, clean], axis=1) / sizes[:, None]  # relative errors count
    per_pixel, per_clean = nnls(design, np.ones(len(sizes)))[0]
    return float(per_pixel), float(per_clean), 0.0, cpu_s


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
    command = commands.add_parser("table")
    command.add_argument("raw", type=Path)
    command.set_defaults(run=table)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
