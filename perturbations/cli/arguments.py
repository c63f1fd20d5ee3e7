"""How commands are declared, and the arguments that several of them take."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Where subcommands are added."""

Command = Callable[[argparse.Namespace], int]
"""A command's work: 0 when it is done, 1 when something is wrong."""


def add_command(commands: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
    """Declare a command, with its one line of help."""
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=command)
    return parser


def add_stall_limit(parser: argparse.ArgumentParser) -> None:
    """Add `--stall-limit`, how long a clip may be silent."""
    parser.add_argument(
        "--stall-limit", type=float, default=120.0, metavar="SECONDS", help="give up on a clip that is silent so long"
    )


def positive(text: str) -> int:
    """A whole number from 1 on. Raises `argparse.ArgumentTypeError`."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value
