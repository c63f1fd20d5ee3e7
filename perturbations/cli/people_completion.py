"""The command that prints a shell's completion of `perturb`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.cli.arguments import Commands, add_command

if TYPE_CHECKING:
    from perturbations.cli.arguments import Parser

_SHELLS = ("bash", "fish", "zsh")
_KEY = "SUITE/NAME"


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "completion", _completion, "print a shell's completion of this command")
    parser.add_argument("shell", choices=_SHELLS)
    parser.epilog = (
        'bash: eval "$(perturb completion bash)"; zsh: perturb completion zsh > a folder of $fpath, as _perturb; '
        "fish: perturb completion fish > ~/.config/fish/completions/perturb.fish"
    )


def _completion(options: argparse.Namespace) -> int:
    import shtab

    from perturbations.cli import main
    from perturbations.suites import registry

    parser = main.parser()
    _fill_in(parser, [entry.key for entry in registry.perturbations()])
    print(shtab.complete(parser, options.shell))
    return 0


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
