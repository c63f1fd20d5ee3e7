"""What `preflight` brings to the configuration, the plan and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perturbations.base.features import Feature

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands


def _check(commands: Commands) -> None:
    from perturbations.preflight import command

    command.add(commands)


FEATURE = Feature(
    summary="what a run needs and will make, before its first job",
    commands={"before, during and after a run": {"check": _check}},
)
