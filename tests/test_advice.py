"""Every command that a message advises is one: its words parse, its targets and files have rules."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from snakemake.cli import get_argument_parser

from perturbations.cli.main import parser

PROJECT = Path(__file__).parents[1]
COMMAND = re.compile(r"`((?:snakemake|perturb)(?: [^`]*)?)`")
FIELD = "{}"


def messages(path: Path) -> Iterator[str]:
    """The strings of a module that are no docstrings, with `{}` for what is filled in."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        held = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Expr):  # a docstring
            continue
        for each in held:
            if isinstance(each, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else FIELD for part in each.values)
            elif isinstance(each, ast.Constant) and isinstance(each.value, str) and not isinstance(node, ast.JoinedStr):
                yield each.value


COMMANDS = sorted(
    {
        command
        for path in sorted((PROJECT / "perturbations").rglob("*.py"))
        for text in messages(path)
        for command in COMMAND.findall(text)
    }
)
TARGETS = re.compile(r"(?:evaluate|tta|composed|text)_(?:\{\}|<dataset>)|report|\{\}|\d+")


def test_the_commands_of_messages_are_collected() -> None:
    assert len(COMMANDS) >= 15
    assert {"perturb verify --delete", "perturb retry"} <= set(COMMANDS)


def of_wing(command: str) -> Any:
    """The command; the spine's messages advise one of the wing `status`."""
    marks = [needs.wings("status")] if command.startswith("perturb retry") else []
    return pytest.param(command, marks=marks)


@pytest.mark.parametrize("command", map(of_wing, COMMANDS))
def test_a_command_of_a_message_is_one(command: str) -> None:
    program, *words = shlex.split(command)
    if program == "snakemake":
        options = get_argument_parser()._option_string_actions
        assert [word for word in words if word not in options and not TARGETS.fullmatch(word)] == []
        return
    has_words(words)


def has_words(words: list[str]) -> None:
    """The words after `perturb`: its commands and their options; arguments may be missing."""
    group: argparse.ArgumentParser = parser()
    for word in words:
        choices = [action.choices for action in group._actions if action.choices and not action.option_strings]
        if word.startswith("-"):
            assert word in group._option_string_actions, word
        elif choices and isinstance(choices[0], dict):
            assert word in choices[0], word
            group = choices[0][word]
        elif choices:
            assert word in choices[0], word
