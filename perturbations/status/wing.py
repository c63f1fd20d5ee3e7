"""What the wing `status` brings to the spine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perturbations.base.wings import Wing

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands


def _status(commands: Commands) -> None:
    from perturbations.status import command

    command.add(commands)


WING = Wing(
    summary="how far a run is, and what failed",
    files=("docs/how-to/resume-and-retry.md", "docs/how-to/snakemake-habits.md"),
    commands={"before, during and after a run": {"status": _status, "retry": _status}},
)
