"""CPU seconds and peak resident memory of planning large collections, each in a process of its own.

    python benchmarks/planning.py [--case captions] [--repeat 1] [--keep FOLDER]

Other code is measured with PYTHONPATH set to its folder. `sha256` is over all files written, names and bytes, so that
two programs can be compared.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = {
    # name: what is planned, captions, videos that they describe, whether the videos are there
    "captions": ("captions", 1_000_000, 1_000_000, False),
    "captions of 50,000 videos": ("captions", 1_000_000, 50_000, False),
    "videos with 20 captions each": ("make", 1_000_000, 50_000, True),
    "60,000 videos": ("make", 60_000, 60_000, True),
    "300,000 videos": ("make", 300_000, 300_000, True),
}


def write_dataset(folder: Path, captions: int, videos: int, present: bool) -> None:
    (folder / "videos").mkdir(parents=True)
    with (folder / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["item_id", "caption"])
        for number in range(captions):
            rows.writerow([f"video{number % videos}", f"caption number {number} of a man who walks a dog on a beach"])
    for number in range(videos if present else 0):
        (folder / "videos" / f"video{number}.mp4").touch()


def measure(kind: str, folder: Path) -> None:
    """In the child: plan, and print what it took."""
    from perturbations.plan import config, sharding

    dataset = {"adapter": "folder", "annotations": str(folder / "captions.csv"), "videos": str(folder / "videos")}
    parsed = config.parse({"datasets": {"d": dataset}, "suites": {"mlvp": {}}})
    before = time.process_time()
    (sharding.captions if kind == "captions" else sharding.make)("d", parsed, folder / "work")
    spent = time.process_time() - before
    print(json.dumps([spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(folder)}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, action="append", help="which cases; the default is all of them")
    parser.add_argument("--repeat", type=int, default=1, help="runs per case, of which the quickest counts")
    parser.add_argument("--keep", type=Path, help="make the datasets here once, and use them again")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], Path(options.measure[1]))
        return
    print("| case | CPU s | again | peak MB | sha256 |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.case or CASES:
            kind, *dataset = CASES[name]
            folder = (options.keep or Path(temporary)) / hashlib.sha256(name.encode()).hexdigest()[:8]
            if not folder.exists():
                write_dataset(folder, *dataset)
            command = [sys.executable, __file__, "--measure", kind, str(folder)]
            first, again = [], []
            for _ in range(options.repeat):
                shutil.rmtree(folder / "work", ignore_errors=True)
                for runs in (first, again):  # again: the list files are there, as at every later start
                    runs.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
            peak = max(run[1] for run in (*first, *again))
            cpu, cpu_again = (min(run[0] for run in runs) for runs in (first, again))
            print(f"| {name} | {cpu:.1f} | {cpu_again:.1f} | {peak:.0f} | {digest(folder / 'work')} |", flush=True)


if __name__ == "__main__":
    main()
