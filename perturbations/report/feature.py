"""What `report` brings to the configuration, the plan and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perturbations.base.features import Feature
from perturbations.report.layout import CAPTION_FILES, CORPUS_FILES, PLACES

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands


def _preview(commands: Commands) -> None:
    from perturbations.report import command

    command.add(commands)


FEATURE = Feature(
    summary="pictures and pages of corpora",
    places=PLACES,
    corpus_files=CORPUS_FILES,
    caption_files=CAPTION_FILES,
    commands={"use what a run made": {"preview": _preview}},
)
