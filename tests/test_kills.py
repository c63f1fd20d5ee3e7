"""What killed jobs made in the end is what nobody disturbed; the long form is `python benchmarks/kills.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perturbations.base import storage
from perturbations.engine.journal import Journal, Measured
from perturbations.manifest import layout

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "kills.py"
FINISHED = Measured(frame_count=3, stored_frames=3)
IDS = ["0" * 32, "1" * 32, "2" * 32]


@pytest.mark.parametrize(
    ("tier", "names"),
    [
        ("video/high", ["mlvp/h264_compression", "mlvp/temporal_scrambling", "motion", "mm_robustness/keyboard"]),
        ("frames/5", ["mlvp/event_insertion", "msrvtt_p/jumble", "embedding"]),
        ("tar", ["mlvp/fog", "msrvtt_p/jumble"]),
        ("recipe", ["mlvp/temporal_scrambling", "mm_robustness/fog"]),
    ],
)
def test_killed_jobs_end_as_undisturbed_ones(tier: str, names: list[str]) -> None:
    command = [sys.executable, SCRIPT, "--kills", "5", "--snakemake-kills", "0", "--tiers", tier, "--only", *names]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    table = {row[0]: [int(cell.replace(",", "")) for cell in row[1:]] for row in cells(done.stdout)}
    assert sum(sum(table[kind]) for kind in ("all", "main", "worker", "ffmpeg")) == 5
    assert sum(table["jobs"]) == len(names)
    assert min(table["cells seen"]) > 0


def cells(markdown: str) -> list[list[str]]:
    rows = [line.strip("| ").split("|") for line in markdown.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def test_a_line_that_a_killed_worker_left_half_swallows_no_other(tmp_path: Path) -> None:
    path = layout.journal_of(tmp_path / "s1.parquet")
    journal = Journal(path, Measured, IDS)
    journal.add(IDS[0], FINISHED)
    with path.open("a") as file:
        file.write(IDS[1] + '{"frame_c')
    journal.add(IDS[2], FINISHED)
    again = Journal(path, Measured, IDS)
    assert [again.find(name, None) for name in IDS] == [FINISHED, None, FINISHED]


def test_a_journal_that_another_shard_is_writing_is_left_alone(tmp_path: Path) -> None:
    journals = [layout.journal_of(tmp_path / f"{shard}.parquet") for shard in ("s1", "s2")]
    own, other = map(storage.temporary_path, journals)
    for path in (other, own):
        path.symlink_to("gone")  # as one that was renamed between looking and reading
    Journal(journals[0], Measured, IDS).add(IDS[0], FINISHED)
    assert {path.name for path in tmp_path.iterdir()} == {journals[0].name, other.name}
