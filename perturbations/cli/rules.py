"""The command `perturb rule`: the commands that only the workflow's rules call, apart from those that people type."""

from __future__ import annotations

import importlib

from perturbations.base import wings
from perturbations.cli.arguments import CommandGroup, Commands

_TEXT = "called by the workflow's rules, one job each; not for typing"


def add(commands: Commands, job: str | None = None) -> None:
    """Declare the commands of all modules `rules_*` and of the wings; for a job's name, those up to its own."""
    parser = commands.add_parser("rule", help=_TEXT, description=f"{_TEXT[:1].upper()}{_TEXT[1:]}.")
    of_rules = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in ("rules_clips", "rules_captions", "rules_manifests"):
        group: CommandGroup = importlib.import_module(f"perturbations.cli.{name}")
        group.add(of_rules)
        if job in of_rules.choices:
            return
    for wing in wings.wings().values():
        wing.declare_jobs(of_rules)
