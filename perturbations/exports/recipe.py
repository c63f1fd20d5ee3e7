"""Rows and hashes without pixels, from which `perturb regenerate` makes the same frames where the clips are."""

from __future__ import annotations

from perturbations.exports.registry import Export
from perturbations.exports.writing.requests import Exported, Request


def _write(request: Request) -> Exported:
    from perturbations.exports.writing import recipefiles

    return recipefiles.write(request)


EXPORT = Export(
    name="recipe",
    summary="rows and hashes without pixels, for `perturb regenerate`",
    refuses="sources and mixes (those beside the videos are written with them)",
    videos=_write,
)
