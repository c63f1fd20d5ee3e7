"""What kills leave of a corpus, beside a run that nobody disturbed.

    python benchmarks/kills.py --kills 100 [--tiers high frames recipe tar] [--seed 0]

Snakemake makes a small corpus in each tier. At random moments everything, Snakemake alone, a job, or a process
that a job started (a worker, ffmpeg) gets SIGKILL, and the same call follows. At the end every file is
compared with an undisturbed run's. Exit status 1 where anything differs or is left.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil

PROJECT = Path(__file__).parents[1]
CONFIG = """
seed: 0
datasets:
  tiny: {adapter: demo, clips: 3}
suites:
  mlvp: {perturbations: [gaussian_noise, h264_compression, event_insertion, temporal_scrambling], severities: [5]}
  msrvtt_p:
    perturbations: [jpeg]
    severities: [3]
    captions: {perturbations: [typos, shuffle_order, drop_first], severities: all}
"""
TIERS = {
    "high": "storage: {tier: video, profile: high}",
    "frames": "storage: {tier: frames, num_frames: 4}",
    "recipe": "storage: {tier: recipe}",
    "tar": "storage: {tier: video, profile: compatible, container: tar}",
}
TARGETS = ["mlvp_tiny", "msrvtt_p_tiny", "text_msrvtt_p_tiny"]


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Snakemake in a folder, in a session of its own."""
    start = [sys.executable, "-m", "snakemake", "--snakefile", str(PROJECT / "Snakefile"), "--cores", "2"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.Popen(
        [*start, *words], cwd=folder, env=environment, start_new_session=True, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def make(folder: Path, *words: str) -> float:
    """Run Snakemake to its end; returns seconds."""
    begin = time.monotonic()
    process = started(folder, *words)
    _, errors = process.communicate()
    if process.returncode:
        raise SystemExit(errors)
    return time.monotonic() - begin


def project(folder: Path, tier: str) -> Path:
    folder.mkdir()
    (folder / "config.yaml").write_text(f"{CONFIG}{TIERS[tier]}\n", encoding="utf-8")
    return folder


KINDS: dict[str, Callable[[list[psutil.Process]], list[psutil.Process]]] = {
    "everything": lambda family: family,
    "Snakemake": lambda family: family[:1],
    "a job": lambda family: [each for each in family[1:] if "rule" in each.cmdline()][-1:],
    "a worker or ffmpeg": lambda family: family[1:][-1:],
}


def strike(process: subprocess.Popen[str], kind: str, moment_s: float) -> bool:
    """Kill after some seconds, once there is something to kill; False where Snakemake ends before."""
    due = time.monotonic() + moment_s
    while process.poll() is None:
        time.sleep(0.02)
        if time.monotonic() < due:
            continue
        with contextlib.suppress(psutil.Error):
            main = psutil.Process(process.pid)
            if victims := KINDS[kind]([main, *main.children(recursive=True)]):
                for victim in victims:
                    with contextlib.suppress(psutil.Error):
                        victim.kill()
                return True
    return False


def at_work(folder: Path) -> list[psutil.Process]:
    """The processes that work in a folder."""
    return [each for each in psutil.process_iter(["cwd"]) if f"{each.info['cwd']}/".startswith(f"{folder}/")]


def disturbed(folder: Path, targets: list[str], kills: int, whole_s: float, generator: random.Random) -> Counter[str]:
    """Make a corpus, and kill so often on the way."""
    counts: Counter[str] = Counter()
    while True:
        process = started(folder, "--", *targets)
        while counts.total() < kills:
            kind = generator.choice([*KINDS])
            if not strike(process, kind, generator.uniform(0, whole_s)):
                break
            counts[kind] += 1
        _, errors = process.communicate()
        if process.returncode == 0:
            return counts
        if counts.total() == 0:
            raise SystemExit(errors)
        until = time.monotonic() + 60
        while at_work(folder) and time.monotonic() < until:  # jobs of a Snakemake that was killed alone go on, and end
            time.sleep(0.1)
        if any((folder / ".snakemake" / "locks").glob("*.lock")):  # one that was not killed itself unlocks
            make(folder, "--unlock")


def contents(folder: Path) -> dict[str, bytes]:
    """Every clip and manifest of a corpus; not the pages, one of which says how much space is free."""
    paths = [path for top in ("corpora", "manifests") for path in (folder / top).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.suffix not in (".html", ".md")}


def kill(options: argparse.Namespace) -> int:
    """Print a line per tier; 1 where something differs or is left."""
    generator, wrong = random.Random(options.seed), 0
    for number, tier in enumerate(options.tiers):
        kills = len(range(number, options.kills, len(options.tiers)))
        with tempfile.TemporaryDirectory() as place:
            expected = project(Path(place, "expected"), tier)
            whole_s = make(expected, "--", *options.targets)
            counts: Counter[str] = Counter()
            differences = seen = 0
            while counts.total() < kills:
                folder = project(Path(place, "killed"), tier)
                count = min(5, kills - counts.total())
                counts += disturbed(folder, options.targets, count, whole_s, generator)
                one, other = contents(expected), contents(folder)
                unequal = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
                for name in unequal:
                    print(f"different: {name}", flush=True)
                differences += len(unequal)
                seen += len(one)
                shutil.rmtree(folder)
            left = len(at_work(Path(place)))
        print(f"{tier}: {dict(counts)}; of {seen:,} files {differences} different; {left} processes left", flush=True)
        wrong += differences + left
    return min(wrong, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--tiers", nargs="+", choices=TIERS, default=[*TIERS])
    parser.add_argument("--targets", nargs="+", default=TARGETS, help="of Snakemake: rules, or files of the corpus")
    parser.add_argument("--seed", type=int, default=0)
    return kill(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
