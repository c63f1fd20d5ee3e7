"""Peak memory and CPU seconds of what writes and reads the manifest of a large corpus, with made-up rows.

    python benchmarks/manifests.py [--clips 100000] [--keep FOLDER]

The rows are those of one drawn clip under 12 perturbations at 5 severities, in the tier `recipe`, repeated under other
ids: 60 rows per clip, without files. Every step is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from perturbations.manifest import files
from perturbations.manifest.rows import SOURCES, VIDEOS

PROJECT = Path(__file__).parents[1]
MANIFEST, CLEAN = Path("manifests/data/mm_robustness/videos.parquet"), Path("manifests/data/sources.parquet")
NAMES = [
    *("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "defocus_blur", "glass_blur", "motion_blur"),
    *("zoom_blur", "snow", "fog", "brightness", "contrast"),
]
CONFIG = {
    "datasets": {"data": {"adapter": "demo", "clips": 1}},
    "suites": {"mm_robustness": {"perturbations": NAMES}},
    "storage": {"tier": "recipe"},
}
CORPUS = f"""
from perturbations import Corpus
corpus = Corpus("{MANIFEST}")
print(len(corpus), corpus.perturbations, sum(clip.frame_count for clip in corpus.where(perturbation="fog", severity=3)))
"""
POLARS = f"""
import polars
print(polars.scan_parquet("{MANIFEST}").group_by("perturbation").agg(polars.len()).collect(engine="streaming").height)
"""
STEPS = {
    "write": (__file__, "--write"),
    "Corpus.where": ("-c", CORPUS),
    "polars, streaming": ("-c", POLARS),
    "status": ("-m", "perturbations", "status"),
    "export recipe": ("-m", "perturbations", "export", str(MANIFEST), "--format", "recipe", "--output", "exported"),
}


def copies(rows: list[Any], clips: int) -> Iterator[Any]:
    """The rows under other ids, in the order of their key."""
    for number in range(clips):
        yield from (replace(row, item_id=f"video{number:07d}") for row in rows)


def write(clips: int) -> None:
    """Write the large manifests in place of the small ones."""
    for path, kind in ((CLEAN, SOURCES), (MANIFEST, VIDEOS)):
        about, rows = files.read_metadata(path), list(files.read_rows(path, kind))
        files.write(path, kind, copies(rows, clips), about)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=100_000)
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=[*STEPS])
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.clips)
        return
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        (Path(name) / "config.yaml").write_text(json.dumps(CONFIG))
        snakemake = [sys.executable, "-m", "snakemake", "--snakefile", PROJECT / "Snakefile", "--cores", "2"]
        subprocess.run([*snakemake, "mm_robustness_data"], cwd=name, check=True, stdout=sys.stderr)
        print("| step | peak, MB | CPU s |\n|---|---|---|")
        for step in options.steps:
            command = [sys.executable, *STEPS[step], *(["--clips", str(options.clips)] if step == "write" else [])]
            process = subprocess.Popen(command, cwd=name, stdout=sys.stderr)
            _, status, usage = os.wait4(process.pid, 0)
            failed = "" if status == 0 else f" exit status {os.waitstatus_to_exitcode(status)}"
            cpu_s = usage.ru_utime + usage.ru_stime
            print(f"| {step} | {usage.ru_maxrss / 1e3:,.0f} | {cpu_s:,.0f} |{failed}", flush=True)


if __name__ == "__main__":
    main()
