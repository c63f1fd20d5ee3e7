"""How many faults `perturb verify` finds: a small corpus, one fault at a time, and what verifying says of it.

    python benchmarks/faults.py --faults 100 --seed 0 --mend 10

Faults are of files (lost, cut short, a byte changed, exchanged, added) and of manifests (a cell, metadata or a byte
edited; rows lost, doubled, of a clip that is not listed). Prints a table by class: how many were found. `--mend`
deletes what was found of so many of them, runs the workflow, and counts where all is as it was, to the byte.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
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
  mlvp: {perturbations: [gaussian_noise, h264_compression, temporal_scrambling], severities: [1, 5]}
  msrvtt_p:
    perturbations: [jpeg]
    severities: [3]
    captions: {perturbations: [typos, shuffle_order, drop_first], severities: all}
storage: {tier: video, profile: high}
"""
TARGETS = ["mlvp_tiny", "msrvtt_p_tiny", "text_msrvtt_p_tiny"]
ENDINGS = (".mp4", ".parquet")

Generator = np.random.Generator


def make() -> None:
    """Run the workflow in the working directory."""
    workflow = ["--snakefile", str(PROJECT / "Snakefile"), "--cores", "2", "--quiet", "all"]
    subprocess.run([sys.executable, "-m", "snakemake", *workflow, "--", *TARGETS], check=True, capture_output=True)


def contents() -> dict[str, bytes]:
    """Every clip and manifest in the working directory."""
    paths = [path for top in ("corpora", "manifests") for path in Path(top).rglob("*")]
    return {str(path): path.read_bytes() for path in paths if path.suffix in ENDINGS and path.is_file()}


def one_of(pattern: str, generator: Generator, count: int = 1) -> list[Path]:
    """Some files that fit a pattern."""
    paths = sorted(Path().glob(pattern))
    return [paths[place] for place in generator.permutation(len(paths))[:count]]


def change_byte(path: Path, generator: Generator) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[generator.integers(len(data))] ^= int(generator.integers(1, 256))
    path.write_bytes(data)


def exchange(generator: Generator) -> None:
    """Exchange two clips."""
    first, second = one_of("corpora/**/*.mp4", generator, 2)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def edit_cell(generator: Generator) -> None:
    """Write another value into one cell, and leave the hashes as they are."""
    (path,) = one_of("manifests/**/*.parquet", generator)
    table = pq.read_table(path)
    names = [field.name for field in table.schema if pa.types.is_string(field.type)]
    if not table.num_rows:
        path.write_bytes(b"")  # a manifest of no rows has no cell
        return
    name = names[generator.integers(len(names))]
    cells = table[name].to_pylist()
    cells[generator.integers(len(cells))] = "another"
    place = table.column_names.index(name)
    pq.write_table(table.set_column(place, table.schema.field(name), pa.array(cells, pa.string())), path)


def edit_metadata(generator: Generator) -> None:
    """Write another value into the metadata."""
    (path,) = one_of("manifests/**/*.parquet", generator)
    about = files.read_metadata(path)
    about[sorted(about)[generator.integers(len(about))]] = "another"
    pq.write_table(pq.read_table(path).replace_schema_metadata({"perturbations": json.dumps(about)}), path)


def other_rows(change: Callable[[list[Any], int], list[Any]]) -> Callable[[Generator], None]:
    """A fault: other rows in a manifest of videos, with hashes that fit."""

    def inject(generator: Generator) -> None:
        (path,) = one_of("manifests/**/videos.parquet", generator)
        rows = list(files.read_rows(path, VIDEOS))
        files.write(path, VIDEOS, change(rows, int(generator.integers(len(rows)))), files.read_metadata(path))

    return inject


FAULTS: dict[str, Callable[[Generator], object]] = {
    "a clip is lost": lambda generator: one_of("corpora/**/*.mp4", generator)[0].unlink(),
    "a clip is cut short": lambda generator: os.truncate(one_of("corpora/**/*.mp4", generator)[0], 1000),
    "a byte of a clip": lambda generator: change_byte(one_of("corpora/**/*.mp4", generator)[0], generator),
    "two clips are exchanged": exchange,
    "a foreign file": lambda generator: (one_of("corpora/*/*/*/*", generator)[0] / "foreign.mp4").write_bytes(b""),
    "a cell": edit_cell,
    "the metadata": edit_metadata,
    "a byte of a manifest": lambda generator: change_byte(one_of("manifests/**/*.parquet", generator)[0], generator),
    "a row is lost": other_rows(lambda rows, place: rows[:place] + rows[place + 1 :]),
    "a row is there twice": other_rows(lambda rows, place: [*rows, rows[place]]),
    "a row of no clip": other_rows(lambda rows, place: [*rows, replace(rows[place], item_id="none")]),
}


def verified(*words: str) -> int:
    """The exit status of `perturb verify`, which prints nothing."""
    with contextlib.redirect_stdout(io.StringIO()):
        return perturb(["verify", *words])


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--faults", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--mend", type=int, default=0, help="of so many faults what was found is deleted and made")
    options = arguments.parse_args()
    generator = np.random.default_rng(options.seed)
    found: Counter[str] = Counter()
    injected: Counter[str] = Counter()
    mended: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        sound, copy = Path(place, "sound"), Path(place, "copy")
        sound.mkdir()
        os.chdir(sound)
        Path("config.yaml").write_text(CONFIG, encoding="utf-8")
        make()
        assert verified() == 0
        before = contents()
        for number in range(options.faults):
            kind = [*FAULTS][number % len(FAULTS)]
            os.chdir(sound)
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(sound, copy)
            os.chdir(copy)
            FAULTS[kind](generator)
            injected[kind] += 1
            found[kind] += verified()
            if number < options.mend and kind != "a foreign file":  # which is nobody's to delete
                verified("--delete")
                make()
                mended["made again"] += contents() == before
                mended["of"] += 1
        os.chdir(PROJECT)
    for kind, count in injected.items():
        print(f"{kind:24} {found[kind]:4} of {count:4} found")
    print(f"{sum(found.values())} of {options.faults} found; {dict(mended)}")


if __name__ == "__main__":
    main()
