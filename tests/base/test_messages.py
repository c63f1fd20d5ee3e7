"""Messages say what is wrong, whatever the error behind them says, and in any terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import preloaded
import pytest

from perturbations.base.errors import ConfigError, ManifestError, first_line
from perturbations.cli.main import main
from perturbations.exports import vtr_tta
from perturbations.manifest import files
from perturbations.manifest.companions import numbered
from perturbations.manifest.rows import QUARANTINED, SOURCES, SourceRow
from perturbations.models import checkpoints


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(), "OSError"),
        (ValueError("  \n "), "ValueError"),
        (RuntimeError("CUDA error\nCompile with TORCH_USE_CUDA_DSA"), "CUDA error"),
        (OSError("\n not found"), "not found"),
    ],
)
def test_an_error_without_words_has_its_type_as_its_line(error: Exception, line: str) -> None:
    assert first_line(error) == line


def test_weights_that_fail_without_a_word_are_named(tmp_path: Path) -> None:
    class Loader:
        @classmethod
        def from_pretrained(cls, folder: Path, /, *, local_files_only: bool, trust_remote_code: bool) -> Loader:
            raise OSError

    with pytest.raises(ConfigError, match="model 't5' in .* cannot be loaded as Loader: OSError"):
        checkpoints.load_part(Loader, checkpoints.Checkpoint("t5", "", tmp_path))


# --- the terminal ----------------------------------------------------------------------------------------------------

EVIL = "clip\x1b[2J\u202e"


def quarantined_part(folder: Path) -> Path:
    """A part with a quarantined clip, whose id and reason hold what a terminal obeys."""
    row = SourceRow(dataset="d", split="test", item_id=EVIL, status=QUARANTINED, stage="source", error=f"bad {EVIL}")
    files.write(folder / "work/d/sources/s0.parquet", SOURCES, [row])
    return folder


def test_retry_shows_what_a_terminal_would_obey_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(quarantined_part(tmp_path))
    assert main(["retry", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert "bad clip\\x1b[2J\\u202e" in printed


def test_a_terminal_without_unicode_gets_escapes(tmp_path: Path) -> None:
    row = SourceRow(dataset="d", split="test", item_id="a", status=QUARANTINED, stage="source", error="视频 is damaged")
    files.write(tmp_path / "work/d/sources/s0.parquet", SOURCES, [row])
    command = [sys.executable, "-m", "perturbations", "retry", "--dry-run"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert rb"\u89c6\u9891 is damaged" in done.stdout


# --- Ids, options and lists of a stranger, of any length and depth, end in an order or in one message ---


DEEP = "[" * 100_000


def test_captions_are_ordered_by_their_numbers_however_long() -> None:
    ids = ["a#-", "a#0", "a#2", "a#10", "a#" + "9" * 5000, "a#1" + "0" * 5000]
    assert sorted(set(ids), key=numbered) == ids


def test_what_is_nested_too_deep_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text(f'{{"clip_id": {DEEP}', encoding="utf-8")
    with pytest.raises(ManifestError, match="does not list the videos of a test split"):
        vtr_tta.split_order(tmp_path / "test.jsonl")


# --- commands that are forked from a process that has imported them (preloaded.py) ------------------------------------


def run(command: list[str], folder: Path) -> tuple[int, str, str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["list", "mlvp"],
        ["lisst"],
        ["rule", "check_captions", '{"allowed": 0}', "--quarantine", "no such file", "--output", "o"],
    ],
    ids=str,
)
def test_output_and_status_are_those_of_the_real_command(words: list[str], tmp_path: Path) -> None:
    assert run([*preloaded.command("perturb"), *words], tmp_path) == run(
        [sys.executable, "-m", "perturbations", *words], tmp_path
    )
