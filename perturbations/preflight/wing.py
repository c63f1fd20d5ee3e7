"""What the wing `preflight` brings to the spine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perturbations.base.wings import Wing

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands


def _check(commands: Commands) -> None:
    from perturbations.preflight import command

    command.add(commands)


WING = Wing(
    summary="what a run needs and will make, before its first job",
    files=("docs/how-to/check-a-run.md",),
    commands={"before, during and after a run": {"check": _check}},
)
