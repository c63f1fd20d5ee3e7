"""What killed jobs made in the end is what nobody disturbed; the long form is `python benchmarks/kills.py`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from copies import ROOT

from perturbations.base import storage
from perturbations.corpus.store.journal import ShardJournal
from perturbations.manifest import manifest_paths

SCRIPT = ROOT / "benchmarks" / "kills.py"
MANIFEST = "manifests/tiny/msrvtt_p/videos.parquet"
"""Of one perturbation; without pages, which Snakemake makes again whole, and captions, whose killed jobs the tests of
the workflow have."""
FINISHED = {"frame_count": 3, "stored_frames": 3}
IDS = ["0" * 32, "1" * 32, "2" * 32]


def test_killed_runs_end_as_undisturbed_ones() -> None:
    """In tars, whose jobs do all that others do; those are killed at chosen moments in the tests of the workflow."""
    command = [sys.executable, SCRIPT, "--kills", "2", "--tiers", "tar", "--targets", MANIFEST]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.fullmatch(r"tar: (.*); of (\d+) files 0 different; 0 processes left\n", done.stdout)
    assert counts is not None, done.stdout
    assert sum(ast.literal_eval(counts[1]).values()) == 2
    assert int(counts[2]) >= 5


def test_a_line_that_a_killed_worker_left_half_swallows_no_other(tmp_path: Path) -> None:
    path = manifest_paths.journal_of(tmp_path / "s1.parquet")
    journal = ShardJournal(path, IDS)
    journal.add(IDS[0], FINISHED)
    with path.open("a") as file:
        file.write(IDS[1] + '{"frame_c')
    journal.add(IDS[2], FINISHED)
    again = ShardJournal(path, IDS)
    assert [again.find(name, None) for name in IDS] == [FINISHED, None, FINISHED]


def test_a_journal_that_another_shard_is_writing_is_left_alone(tmp_path: Path) -> None:
    journals = [manifest_paths.journal_of(tmp_path / f"{shard}.parquet") for shard in ("s1", "s2")]
    own, other = map(storage.temporary_path, journals)
    for path in (other, own):
        path.symlink_to("gone")  # as one that was renamed between looking and reading
    ShardJournal(journals[0], IDS).add(IDS[0], FINISHED)
    assert {path.name for path in tmp_path.iterdir()} == {journals[0].name, other.name}
