"""The estimates of disk and CPU time that `perturb check` prints, beside what runs of the workflow store and use.

    python benchmarks/estimates.py compare VIDEO[:FROM-TO] ... [--suites mlvp ...] [--tiers high ...] [--severities 4]
    python benchmarks/estimates.py stages FOLDER TARGET ...

Clips are cut into files of their own, and each suite is made of them in each tier, in a temporary folder: a line says
what was stored, how many CPU seconds the jobs took, without Snakemake, what the probe of the machine's speed
said, and the ratio to the estimate without it. With `--in-process` only the jobs on clips are made, by their code in
one process, and the estimate is that without their starts and the jobs that follow: faster, and the pixels of short
clips count for more. `stages` makes targets one after the other in a folder that has a `config.yaml`, and prints for
each what its jobs took and the estimate of what was still missing. `benchmarks/costs.py` measures what the estimates
are made from.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml
from cost_table import BATCH_S
from costs import TIERS, analysed, cpu_s, listed, storage_of

from perturbations.config import sections as configuration
from perturbations.engine import shards
from perturbations.guides.registry import Known
from perturbations.manifest.kinds import AnalysisRow
from perturbations.media import program
from perturbations.plan import paths, recipe, sharding, targets
from perturbations.preflight import costs, estimates, speed
from perturbations.preflight import wanted as planning
from perturbations.suites import registry

REPOSITORY = Path(__file__).parents[1]


def compare(options: argparse.Namespace) -> None:
    """Estimate corpora, make them by the workflow, and print both: a line per suite and tier."""
    heads = (
        "suite",
        "tier",
        "stored, MB",
        "estimate",
        "ratio",
        "CPU, s",
        "estimate",
        "ratio",
        "probe",
        "ratio without",
    )
    print(f"| {' | '.join(heads)} | load |")
    print("|---" * (len(heads) + 1) + "|", flush=True)
    with tempfile.TemporaryDirectory(prefix="estimates-") as name:
        clips = [cut(video, Path(name) / "videos") for video in options.videos]
        for suite in options.suites:
            for tier in options.tiers:
                root = Path(name) / f"{suite}-{tier}"
                row = compared(root, clips, suite, tier, options)
                print(row, flush=True)
                shutil.rmtree(root)


def cut(text: str, folder: Path) -> Path:
    """A clip that the command line names, PATH or PATH:FROM-TO in seconds, as a file of its own: its packets."""
    path, _, span = text.partition(":")
    start, _, end = span.partition("-")
    folder.mkdir(exist_ok=True)
    output = folder / Path(path).name
    if not span:
        output.symlink_to(Path(path).resolve())
        return output
    times = ["-ss", start, "-to", end]
    command = [program.ffmpeg_program(), "-v", "error", *times, "-i", path, "-an", "-c", "copy", str(output)]
    subprocess.run(command, check=True)
    return output


def compared(root: Path, clips: Sequence[Path], suite: str, tier: str, options: argparse.Namespace) -> str:
    """A line of the table: a corpus in a folder of its own."""
    (root / "videos").mkdir(parents=True)
    for clip in clips:
        (root / "videos" / clip.name).symlink_to(clip.resolve())
    rows = [{"item_id": clip.stem, "video": clip.name, "caption": "a clip"} for clip in clips]
    (root / "captions.json").write_text(json.dumps(rows))
    dataset = {"adapter": "folder", "annotations": "captions.json", "videos": "videos", "columns": {"video": "video"}}
    wanted = {"severities": options.severities, **({"variant": options.variant} if options.variant else {})}
    storage_key = {"tier": tier} if tier in ("frames", "recipe") else {"tier": "video", "profile": tier}
    raw = {"datasets": {"real": dataset}, "suites": {suite: wanted}, "storage": storage_key}
    (root / "config.yaml").write_text(json.dumps(raw))
    probe = speed.Probe()
    probe.look()
    estimate = estimated(root, raw, f"{suite}_real")
    probe.look()
    if options.in_process:
        size, used = jobs_alone(root, clips, suite, tier, options)
        expected_s = estimate.cpu_s - (costs.JOB_S - BATCH_S) * estimate.jobs - costs.CORPUS_S
    else:
        expected_s = estimate.cpu_s
        used = jobs_cpu_s(root, f"{suite}_real", cores=options.cores)
        size = sum(path.stat().st_size for path in (root / "corpora").rglob("*") if path.is_file())
    stored = f"{size / 1e6:.1f} | {estimate.bytes / 1e6:.1f} | {ratio(size, estimate.bytes)}"
    alone, expected_s = expected_s * speed.USUAL, expected_s * probe.slower
    cpu = f"{used:.1f} | {expected_s:.1f} | {ratio(used, expected_s)} | {probe.slower:.2f} | {ratio(used, alone)}"
    return f"| {suite} | {tier} | {stored} | {cpu} | {os.getloadavg()[1]:.1f} |"


def jobs_alone(root: Path, clips: Sequence[Path], suite: str, tier: str, options: argparse.Namespace) -> Used:
    """What the jobs on clips store and take, by their code in this process: without their starts."""
    before = cpu_s()
    rows = [shards.source_row("real", listed(str(clip))) for clip in clips]
    used, size = cpu_s() - before, 0
    analyses: dict[str, list[AnalysisRow]] = {}
    wanted = [
        (entry.in_variant(options.variant) if options.variant else entry, severity)
        for entry in registry.perturbations(suite, "video")
        for severity in options.severities
        if severity in entry.severities
    ]
    for number, (entry, severity) in enumerate(wanted):
        job = recipe.make(entry, severity, seed=0, storage=storage_of(tier), donors="real")
        before = cpu_s()
        known = Known()
        if job.analysis is not None:
            name = job.analysis.text
            if name not in analyses:
                analyses[name] = analysed(job.analysis, rows, tier, root)
                size += sum(row.bytes or 0 for row in analyses[name])
            known = Known({row.item_id: row for row in analyses[name]}, analyses[name] if job.donors else [])
        places = {"folder": root / f"{number}", "journal": root / f"{number}.jsonl"}
        done = list(shards.run_videos(job, rows, root=root, stall_limit_s=300, known=known, **places))
        took, made = cpu_s() - before, sum(row.bytes or 0 for row in done)
        used, size = used + took, size + made
        if options.details:
            errors = [row.error for row in done if row.error]
            print(f"{tier} {entry.key} {severity}: {made} bytes, {took:.2f} s {errors}", file=sys.stderr, flush=True)
        shutil.rmtree(root / f"{number}", ignore_errors=True)
    return size, used


def stages(options: argparse.Namespace) -> None:
    """Make targets one after the other: CPU seconds beside the estimate of what was missing, without the probe."""
    print(
        "| target | clips | captions | evaluations | estimate, CPU s | CPU, s | ratio |\n|---|---|---|---|---|---|---|"
    )
    root = options.folder.resolve()
    for target in options.targets:
        with contextlib.chdir(root):
            parts = [seconds * speed.USUAL for seconds in seconds_of(target)]
        used = jobs_cpu_s(root, target, cores=options.cores)
        cells = [*parts, sum(parts), used]
        print(f"| {target} | {' | '.join(f'{cell:.1f}' for cell in cells)} | {ratio(used, sum(parts))} |", flush=True)


def seconds_of(target: str) -> list[float]:
    """The estimates of clips, captions and evaluations of what a target of the configuration here still needs."""
    config = configuration.parse(yaml.safe_load(Path("config.yaml").read_text()))

    def plan_of(collection: str) -> sharding.Plan:
        return paths.plan(config, collection)

    def shards_of(dataset: str) -> Sequence[str]:
        return paths.caption_shards(config, dataset)

    menu = {entry.name: entry for entry in targets.menu(config, plan_of, shards_of)}
    wanted = planning.of_files(config, menu[target].request().files, plan_of, shards_of)
    names = {job.collection for job in wanted.videos} | {name for name, _ in wanted.sources}
    surveyed = {name: estimates.Collection.read(name, wanted) for name in names}
    clips = estimates.of_clips(config, wanted, surveyed).cpu_s
    captions = estimates.of_captions(config, wanted).cpu_s
    return [clips, captions, estimates.of_evaluations(config, wanted, surveyed).cpu_s]


Used = tuple[int, float]
"""Bytes and CPU seconds."""


def ratio(real: float, estimate: float) -> str:
    return f"{real / estimate:.2f}" if estimate else ""


def estimated(root: Path, raw: dict[str, object], target: str) -> estimates.Estimate:
    """What the check before a run estimates of a target in a folder."""
    with contextlib.chdir(root):
        config = configuration.parse(raw)

        def plan_of(collection: str) -> sharding.Plan:
            return paths.plan(config, collection)

        menu = {entry.name: entry for entry in targets.menu(config, plan_of, lambda dataset: ())}
        wanted = planning.of_files(config, menu[target].request().files, plan_of, lambda dataset: ())
        return estimates.of_clips(config, wanted, {"real": estimates.Collection.read("real", wanted)})


MEASURED = """
import resource, sys
from pathlib import Path
from snakemake.cli import main
try:
    main(sys.argv[2:])
finally:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(sys.argv[1]).write_text(str(used.ru_utime + used.ru_stime))
"""
"""Runs Snakemake, and writes the CPU seconds of its jobs, without its own."""


def jobs_cpu_s(root: Path, *arguments: str, cores: int) -> float:
    options = ["--snakefile", str(REPOSITORY / "Snakefile"), "--cores", str(cores), "--scheduler", "greedy"]
    command = [sys.executable, "-c", MEASURED, "cpu", *options, "--no-hooks", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return float((root / "cpu").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("compare")
    command.add_argument("videos", nargs="+")
    command.add_argument("--suites", nargs="+", default=list(registry.suites()), choices=list(registry.suites()))
    command.add_argument("--variant", default="", help="the default is each suite's first")
    command.add_argument("--tiers", nargs="+", default=TIERS, choices=TIERS)
    command.add_argument("--severities", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    command.add_argument("--cores", type=int, default=1)
    command.add_argument("--in-process", action="store_true", help="without Snakemake and the start of processes")
    command.add_argument("--details", action="store_true", help="--in-process: print each scenario to stderr")
    command.set_defaults(run=compare)
    command = commands.add_parser("stages")
    command.add_argument("folder", type=Path)
    command.add_argument("targets", nargs="+")
    command.add_argument("--cores", type=int, default=1)
    command.set_defaults(run=stages)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
