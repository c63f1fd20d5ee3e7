"""The options that print a text and end: the JSON schema of config.yaml, and a shell's completion of `perturb`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perturbations.cli.arguments import Parser

_SHELLS = ("bash", "fish", "zsh")
_KEY = "SUITE/NAME"


def add(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("--schema", action=_Schema, nargs=0, help="print the JSON schema of config.yaml, for editors")
    parser.add_argument("--completion", action=_Completion, choices=_SHELLS, help="print the completion of a shell")


class _Schema(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from perturbations.config import sections as config

        print(config.json_schema(), end="")
        parser.exit()


class _Completion(argparse.Action):
    def __call__(self, parser: Any, _: argparse.Namespace, shell: Any, __: str | None = None) -> None:
        import shtab

        from perturbations.suites import registry

        _fill_in(parser, [entry.key for entry in registry.perturbations()])
        print(shtab.complete(parser, shell))
        parser.exit()


def _fill_in(parser: Parser, keys: list[str]) -> None:
    """Say of every argument what completes it: the perturbations' keys, or files."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _fill_in(command, keys)
        elif action.metavar == _KEY:
            action.choices = keys
        elif action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
