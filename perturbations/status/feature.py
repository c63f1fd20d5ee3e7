"""What `status` brings to the configuration, the plan and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perturbations.base.features import Feature

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands


def _status(commands: Commands) -> None:
    from perturbations.status import command

    command.add(commands)


FEATURE = Feature(
    summary="how far a run is, and what failed",
    commands={"before, during and after a run": {"status": _status, "retry": _status}},
)
