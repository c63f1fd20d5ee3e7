"""The command `perturb rule`: the commands that only the workflow's rules call, apart from those that people type."""

from __future__ import annotations

from perturbations.base import wings
from perturbations.cli import rules_captions, rules_clips, rules_manifests
from perturbations.cli.arguments import Commands

_TEXT = "called by the workflow's rules, one job each; not for typing"


def add(commands: Commands) -> None:
    """Declare the commands of all modules `rules_*`."""
    parser = commands.add_parser("rule", help=_TEXT, description=f"{_TEXT[:1].upper()}{_TEXT[1:]}.")
    parser.set_defaults(is_job=True)
    of_rules = parser.add_subparsers(metavar="COMMAND", required=True)
    for group in (rules_clips, rules_captions, rules_manifests):
        group.add(of_rules)
    for wing in wings.wings().values():
        wing.declare_jobs(of_rules)
