"""Kills jobs at random moments and runs them again until they end; compares the result with an undisturbed run's.

    python benchmarks/kills.py --kills 1000 --snakemake-kills 100 --seed 0

Jobs are `perturb rule videos` of every visual perturbation in every storage tier, and `analyse` and `texts` on a
few drawn clips, forked from a process that has imported everything. A kill is a SIGKILL of all of a job's processes at
once, of its main process, of its worker, or of the worker's ffmpeg. Snakemake is killed alone or with all of its
session, and then run again as the README says. Prints a table; exit status 1 where anything differs, is left behind,
or more than one item is made again after one kill.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import kill_jobs
import psutil
import yaml
from kill_jobs import KINDS, TIERS, Job
from snakemake import cli as snakemake

from perturbations.suites import registry

COUNTED = (
    *("jobs", "rounds", *KINDS, "runs", "stopped", "redone", "most per kill", "without a kill"),
    *("cells seen", "cells", "files seen", "files", "leftovers", "survivors"),
)
FAULTS = ("without a kill", "cells", "files", "leftovers", "survivors")
SNAKEFILE = Path(__file__).parents[1] / "Snakefile"
CONFIG = {
    "datasets": {"tiny": {"adapter": "folder", "annotations": "base/annotations.json", "videos": "base/videos"}},
    "suites": {
        "mlvp": {
            "perturbations": ["h264_compression", "event_insertion", "temporal_scrambling"],
            "severities": [3],
        },
        "msrvtt_p": {"perturbations": ["jpeg"], "captions": {"perturbations": ["typos"], "severities": [1]}},
    },
}
TARGETS = ("mlvp_tiny", "text_msrvtt_p_tiny")

Totals = dict[str, Counter[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000, help="of jobs")
    parser.add_argument("--snakemake-kills", type=int, default=100)
    parser.add_argument("--most", type=int, default=8, help="kills of one job in one round")
    parser.add_argument("--tiers", nargs="+", choices=TIERS, default=TIERS)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these jobs: mlvp/fog, motion, msrvtt_p/typos")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no more kills of Snakemake after so long")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "tmp").mkdir()
        tempfile.tempdir = str(root / "tmp")
        registry.perturbations()  # kernels are imported here, not in every job
        recipes = kill_jobs.video_recipes(options.tiers)
        jobs = kill_jobs.prepare(root, list(recipes.values()))
        jobs += [kill_jobs.video_job(tier, key, job_recipe) for (tier, key), job_recipe in recipes.items()]
        if options.only:
            jobs = [job for job in jobs if job.name in options.only]
        totals: Totals = defaultdict(Counter)
        if options.kills:
            kill_the_jobs(root, jobs, options, totals)
        if options.snakemake_kills:
            kill_snakemake(root, options, random.Random(options.seed), totals)
        totals["scratch folders in TMPDIR"]["left"] = len(list((root / "tmp").iterdir()))
        left = [process.pid for process in psutil.process_iter(["cwd"]) if f"{process.info['cwd']}/".startswith(folder)]
    print_table(totals)
    print(f"{len(left)} processes left; {totals['scratch folders in TMPDIR']['left']} scratch folders left in TMPDIR")
    bad = any(counts[fault] for counts in totals.values() for fault in FAULTS)
    sys.exit(bad or bool(left) or any(counts["most per kill"] > 1 for counts in totals.values()))


def kill_the_jobs(root: Path, jobs: list[Job], options: argparse.Namespace, totals: Totals) -> None:
    generator = random.Random(options.seed)
    done, start = 0, time.monotonic()
    expected: dict[Job, tuple[Path, float]] = {}
    while done < options.kills:
        # Evenly over the jobs: so many are left to each.
        share = max(1, min(options.most, -(-(options.kills - done) // len(jobs))))
        for job in jobs:
            if job not in expected:
                expected[job] = kill_jobs.undisturbed(root, job)
                totals[job.group]["jobs"] += 1
            if done >= options.kills:
                continue
            folder, whole_s = expected[job]
            kept, counts = kill_jobs.disturbed(root, job, whole_s, min(share, options.kills - done), generator)
            counts |= kill_jobs.compared(folder, kept, ("corpus", "parts"))
            again = kill_jobs.redone(kept / "diary")
            counts["without a kill"] = again.pop(None, 0)
            counts["redone"] = again.total()
            most = max(totals[job.group]["most per kill"], *again.values(), 0)
            if any(counts[fault] for fault in FAULTS) or max([*again.values(), 0]) > 1:
                wrong = {name: counts[name] for name in FAULTS if counts[name]}
                names = kill_jobs.names_of(folder, kept)
                print(f"{job.group} {job.name}: {wrong} {dict(again)} {names}", file=sys.stderr, flush=True)
                print((kept / "diary").read_text(), (kept / "job.log").read_text(), file=sys.stderr, flush=True)
            before, done = done, done + sum(counts[kind] for kind in KINDS)
            totals[job.group] += counts
            totals[job.group]["most per kill"] = most
            shutil.rmtree(kept)
            if done // 50 > before // 50:
                print(f"{done} of {options.kills} kills, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


# --- Snakemake -------------------------------------------------------------------------------------------------------


def run_snakemake(folder: Path, *arguments: str) -> int:
    """Snakemake in a process and session of its own; returns its id."""
    command = ["--snakefile", str(SNAKEFILE), "--cores", "2", *arguments]
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return kill_jobs.fork(folder, lambda: snakemake.main(command))


def kill_snakemake(root: Path, options: argparse.Namespace, generator: random.Random, totals: Totals) -> None:
    expected, kills = snakemake_folder(root), options.snakemake_kills
    begin = time.monotonic()
    last = begin + 60 * options.minutes
    kill_jobs.finish(run_snakemake(expected, *TARGETS))
    whole_s = time.monotonic() - begin
    counts = totals["snakemake"]
    counts["jobs"] = 1
    while counts["all"] + counts["main"] < kills and time.monotonic() < last:
        folder = snakemake_folder(root)
        counts["rounds"] += 1
        code = None
        while code != 0:
            counts["runs"] += 1
            pid = run_snakemake(folder, *TARGETS)
            kind = generator.choice(("all", "main"))
            spent = counts["all"] + counts["main"] >= kills or time.monotonic() >= last
            moment = float("inf") if spent else generator.uniform(0, whole_s / 2)
            code = killed_after(pid, moment, kind)
            if code is None:
                counts[kind] += 1
                kill_jobs.finish(run_snakemake(folder, "--unlock"))
            elif code:
                counts["stopped"] += 1
                print((folder / "job.log").read_text()[-3000:], file=sys.stderr)
                if counts["stopped"] > kills:
                    raise SystemExit("Snakemake stops again and again")
        await_orphans(folder, counts)
        differences = kill_jobs.compared(expected, folder, ("manifests", "corpora"))
        if differences["cells"] or differences["files"] or differences["leftovers"]:
            print("snakemake:", kill_jobs.names_of(expected, folder), file=sys.stderr)
        counts.update(differences)
        print(f"{counts['all'] + counts['main']} of {kills} kills of Snakemake, {time.monotonic() - begin:.0f} s",
              file=sys.stderr, flush=True)  # fmt: skip
        shutil.rmtree(folder)


def snakemake_folder(root: Path) -> Path:
    folder = kill_jobs.new_folder(root)
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    return folder


def killed_after(pid: int, moment_s: float, kind: str) -> int | None:
    """Kill Snakemake, or its session, after some seconds; its exit code where it ended before."""
    due = time.monotonic() + moment_s
    while time.monotonic() < due:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    for victim in of_session(pid) if kind == "all" else [pid]:
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def of_session(leader: int) -> list[int]:
    pids = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == leader:
                pids.append(pid)
    return pids


def await_orphans(folder: Path, counts: Counter[str]) -> None:
    """Jobs of a Snakemake that was killed alone go on, and end."""
    deadline = time.monotonic() + kill_jobs.PATIENCE_S
    while alive := [each for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == str(folder)]:
        if time.monotonic() > deadline:
            counts["survivors"] += len(alive)
            return
        time.sleep(0.2)


def print_table(totals: Totals) -> None:
    shown = {name: counts for name, counts in totals.items() if counts["jobs"]}
    print("| |", " | ".join(shown), "|")
    print("|---" * (len(shown) + 1) + "|")
    for name in COUNTED:
        print(f"| {name} |", " | ".join(f"{counts[name]:,}" for counts in shown.values()), "|")


if __name__ == "__main__":
    main()
