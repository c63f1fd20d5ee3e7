"""What is left of a corpus after kills, and which faults of its files `perturb verify` finds.

    python benchmarks/faults.py kills --kills 100 [--tiers high frames recipe tar] [--seed 0]
    python benchmarks/faults.py files --faults 100 --mend 10 [--seed 0]

`kills`: Snakemake makes a small corpus in each tier. At random moments everything, Snakemake alone, a job, or a process
that a job started (a worker, ffmpeg) gets SIGKILL, and the same call follows. At the end every file is
compared with an undisturbed run's. Exit status 1 where anything differs or is left.

`files`: one fault at a time is put into a copy of a corpus, of files (lost, cut short, a byte changed, exchanged,
added) and of manifests (a cell, metadata or a byte edited; rows lost, doubled, of a clip that is not listed). `--mend`
deletes what was found of so many of them, runs the workflow, and counts where all is as it was, to the byte.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from perturbations.cli.main import main as perturb
from perturbations.manifest import files
from perturbations.manifest.kinds import VIDEOS

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


# --- kills -----------------------------------------------------------------------------------------------------------

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


# --- faults of files -------------------------------------------------------------------------------------------------

Generator = np.random.Generator


def some(pattern: str, generator: Generator, count: int = 1) -> list[Path]:
    """Some files that fit a pattern."""
    paths = sorted(Path().glob(pattern))
    return [paths[place] for place in generator.permutation(len(paths))[:count]]


def change_byte(pattern: str, generator: Generator) -> None:
    (path,) = some(pattern, generator)
    data = bytearray(path.read_bytes())
    data[generator.integers(len(data))] ^= int(generator.integers(1, 256))
    path.write_bytes(data)


def exchange(generator: Generator) -> None:
    first, second = some("corpora/**/*.mp4", generator, 2)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def edit_cell(generator: Generator) -> None:
    """Write another value into one cell, and leave the hashes as they are."""
    (path,) = some("manifests/**/videos.parquet", generator)
    table = pq.read_table(path)
    names = [field.name for field in table.schema if pa.types.is_string(field.type)]
    name = names[generator.integers(len(names))]
    values = table[name].to_pylist()
    values[generator.integers(len(values))] = "another"
    place = table.column_names.index(name)
    pq.write_table(table.set_column(place, table.schema.field(name), pa.array(values, pa.string())), path)


def edit_metadata(generator: Generator) -> None:
    (path,) = some("manifests/**/*.parquet", generator)
    about = files.read_metadata(path)
    about[sorted(about)[generator.integers(len(about))]] = "another"
    pq.write_table(pq.read_table(path).replace_schema_metadata({"perturbations": json.dumps(about)}), path)


def other_rows(change: Callable[[list[Any], int], list[Any]]) -> Callable[[Generator], None]:
    """A fault: other rows in a manifest of videos, with hashes that fit."""

    def inject(generator: Generator) -> None:
        (path,) = some("manifests/**/videos.parquet", generator)
        rows = list(files.read_rows(path, VIDEOS))
        files.write(path, VIDEOS, change(rows, int(generator.integers(len(rows)))), files.read_metadata(path))

    return inject


FAULTS: dict[str, Callable[[Generator], object]] = {
    "a clip is lost": lambda generator: some("corpora/**/*.mp4", generator)[0].unlink(),
    "a clip is cut short": lambda generator: os.truncate(some("corpora/**/*.mp4", generator)[0], 1000),
    "a byte of a clip": lambda generator: change_byte("corpora/**/*.mp4", generator),
    "two clips are exchanged": exchange,
    "a foreign file": lambda generator: (some("corpora/*/*/*/*", generator)[0] / "foreign.mp4").write_bytes(b""),
    "a cell": edit_cell,
    "the metadata": edit_metadata,
    "a byte of a manifest": lambda generator: change_byte("manifests/**/*.parquet", generator),
    "a row is lost": other_rows(lambda rows, place: rows[:place] + rows[place + 1 :]),
    "a row is there twice": other_rows(lambda rows, place: [*rows, rows[place]]),
    "a row of no clip": other_rows(lambda rows, place: [*rows, replace(rows[place], item_id="none")]),
}


def verified(*words: str) -> int:
    """The exit status of `perturb verify`, which prints nothing."""
    with contextlib.redirect_stdout(io.StringIO()):
        return perturb(["verify", *words])


def inject(options: argparse.Namespace) -> int:
    """Print a line per class of faults; 1 where one was not found, or did not come back."""
    generator = np.random.default_rng(options.seed)
    injected, found, mended = Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        sound, copy = project(Path(place, "sound"), "high"), Path(place, "copy")
        make(sound, "--", *TARGETS)
        before = contents(sound)
        for number in range(options.faults):
            kind = [*FAULTS][number % len(FAULTS)]
            shutil.copytree(sound, copy)
            os.chdir(copy)
            FAULTS[kind](generator)
            injected[kind] += 1
            found[kind] += verified()
            if number < options.mend and kind != "a foreign file":  # which is nobody's to delete
                verified("--delete")
                make(copy, "--", *TARGETS)
                mended["made again"] += contents(copy) == before
                mended["of"] += 1
            os.chdir(sound)
            shutil.rmtree(copy)
        os.chdir(PROJECT)
    for kind, count in injected.items():
        print(f"{kind:24} {found[kind]:4} of {count:4} found")
    print(f"{found.total()} of {options.faults} found; {dict(mended)}")
    return int(found != injected or mended["made again"] != mended["of"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    what = parser.add_subparsers(required=True)
    kills = what.add_parser("kills")
    kills.add_argument("--kills", type=int, default=100)
    kills.add_argument("--tiers", nargs="+", choices=TIERS, default=[*TIERS])
    kills.add_argument("--targets", nargs="+", default=TARGETS, help="of Snakemake: rules, or files of the corpus")
    kills.set_defaults(run=kill)
    faults = what.add_parser("files")
    faults.add_argument("--faults", type=int, default=100)
    faults.add_argument("--mend", type=int, default=0, help="of so many faults what was found is deleted and made")
    faults.set_defaults(run=inject)
    options = parser.parse_args()
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
