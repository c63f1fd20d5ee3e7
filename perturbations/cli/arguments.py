"""The parser of commands, and the arguments that several commands share."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from perturbations.base.errors import ConfigError, did_you_mean, short

_NAMES_WIDTH = 24
"""Columns of a command's name in the help, so that its line is shown beside it."""


class Parser(argparse.ArgumentParser):
    """A parser that lists its commands in sections, and proposes the nearest name for a mistyped word."""

    sections: Mapping[str, list[argparse.Action]] = {}

    def __init__(self, *words: Any, **settings: Any) -> None:
        # An option cut short would be another one without a word: Snakemake's `--config` is no `--configfile`.
        super().__init__(*words, **{"allow_abbrev": False, **settings})

    def format_help(self) -> str:
        """The help: one line per command, below the title of its section."""
        if not self.sections:
            return super().format_help()
        formatter = argparse.HelpFormatter(self.prog, max_help_position=_NAMES_WIDTH)
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, actions in (*self.sections.items(), ("options", self._get_optional_actions())):
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        """End with the usage and a message, with the way to write a value that looks like an option."""
        hint = "; before a value that begins with a dash, write =" if message.endswith("argument") else ""
        super().error(message + hint)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of an argument's choices. argparse has no public place for this."""
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            allowed = "" if isinstance(action, argparse._SubParsersAction) else f"; allowed: {', '.join(known)}"
            raise argparse.ArgumentError(action, f"unknown: {short(value)}{allowed}{did_you_mean(str(value), known)}")


class Schema(argparse.Action):
    """The option that prints the schema of config.yaml, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it."""
        from perturbations.config import sections as config

        print(config.json_schema(), end="")
        parser.exit()


def parsed(command_line: Parser, words: Sequence[str]) -> argparse.Namespace:
    """The arguments; one that is not known ends the program with its command's usage and what may have been meant."""
    (commands,) = (action for action in command_line._actions if isinstance(action, argparse._SubParsersAction))
    named: Parser = next((commands.choices[word] for word in words if word in commands.choices), command_line)
    parsed, unknown = command_line.parse_known_args(words)
    if unknown:
        option, options = unknown[0].partition("=")[0], named._option_string_actions
        known = ", ".join(name for name in options if name.startswith("--"))
        hint = did_you_mean(option, options) or f"; its options: {known}"
        named.error(f"unknown: {' '.join(map(short, unknown))}{hint}")
    return parsed


def add_stall_limit(parser: argparse.ArgumentParser) -> None:
    """Add `--stall-limit`, the time that a clip may take without progress."""
    parser.add_argument(
        "--stall-limit",
        type=seconds,
        default=120.0,
        metavar="SECONDS",
        help="give up on a clip without progress for this time",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`, the output that programs read."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Add `--directory`, as Snakemake has it: where config.yaml and the results are."""
    parser.add_argument(
        "-d", "--directory", type=Path, default=Path(), metavar="DIR", help="as `snakemake --directory`"
    )


def enter(directory: Path) -> None:
    """Work in a folder from now on. Raises `ConfigError` where it cannot be entered."""
    try:
        os.chdir(directory)
    except OSError as error:
        hint = "" if directory.exists() else "; `perturb init FOLDER` makes a project"
        raise ConfigError(f"--directory {directory}: {error.strerror}{hint}") from None


def positive(text: str) -> int:
    """An integer of at least 1. Raises `argparse.ArgumentTypeError`."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {short(text)}") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def seconds(text: str) -> float:
    """A time above 0. Raises `argparse.ArgumentTypeError`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be seconds above 0, not {short(text)}")
    return value
