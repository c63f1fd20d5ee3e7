"""What the wing `report` brings to the spine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perturbations.base.wings import Wing
from perturbations.report.layout import CAPTION_FILES, CORPUS_FILES, PLACES

if TYPE_CHECKING:
    from perturbations.cli.arguments import Commands


def _preview(commands: Commands) -> None:
    from perturbations.report import command

    command.add(commands)


WING = Wing(
    summary="pictures and pages of corpora",
    places=PLACES,
    corpus_files=CORPUS_FILES,
    caption_files=CAPTION_FILES,
    commands={"use what a run made": {"preview": _preview}},
)
