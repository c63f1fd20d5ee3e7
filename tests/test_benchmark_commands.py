"""The commands that benchmarks call are commands that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perturbations.cli.main import parser

FOLDER = Path(__file__).parents[1] / "benchmarks"
CALLED = re.compile(r'(?:"-m", "perturbations", |perturb\()((?:"[a-z-]+"(?:, )?)+)')
"""The words of a command, in a list for subprocess or in the arguments of a helper."""

COMMANDS = sorted(
    {
        (path.name, *re.findall(r'"([a-z-]+)"', words))
        for path in FOLDER.glob("*.py")
        for words in CALLED.findall(path.read_text(encoding="utf-8"))
    }
)


def test_there_are_such_commands() -> None:
    assert ("corpus.py", "rule", "analyse") in {command[:3] for command in COMMANDS}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_benchmark_calls_a_command_that_there_is(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    _, *words = command
    depth = 2 if words[0] == "rule" else 1
    with pytest.raises(SystemExit) as end:
        parser().parse_args([*words[:depth], "--help"])
    assert end.value.code == 0
    assert "usage: perturb " + " ".join(words[:depth]) in capsys.readouterr().out
