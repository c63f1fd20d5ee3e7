"""The declaration of commands, and the arguments that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The object to which subcommands are added."""

Command = Callable[[argparse.Namespace], int]
"""The function of a command; it returns 0 for success and 1 for a problem."""


def add_command(commands: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    """Declare a command, with its one line of help."""
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=command)
    return parser


def add_stall_limit(parser: argparse.ArgumentParser) -> None:
    """Add `--stall-limit`, the time that a clip may take without progress."""
    parser.add_argument(
        "--stall-limit",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="give up on a clip without progress for this time",
    )


def positive(text: str) -> int:
    """An integer of at least 1. Raises `argparse.ArgumentTypeError`."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value
