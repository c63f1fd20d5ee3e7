"""Frost: a photograph of ice, or ice that the kernel draws."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from perturbations.guides.registry import ClipShape, Facts, FactsRequest, Guide, GuideRecipe, GuideSettings, Role
from perturbations.manifest.kinds import AnalysisRow
from perturbations.system import storage
from perturbations.system.records import Record, canonical
from perturbations.system.settings import Strict

if TYPE_CHECKING:
    from perturbations.arrays import Image

VERSION = 1


class Frost(Strict):
    """The source of the ice."""

    images: Path | None = Field(None, description="a folder of photographs of frost; the default is drawn ice")


class FrostFiles(Record):
    """The folder of photographs of frost; None: the kernel draws the ice."""

    images: str | None = None


class FrostGuide(GuideRecipe):
    """The kernel is given a photograph of frost, or nothing."""

    kind: Literal["frost"] = "frost"
    version: int
    files: FrostFiles

    def chooses_files(self) -> bool:
        """Whether a photograph is chosen from a folder."""
        return self.files.images is not None


class FrostFactFiles(Record):
    """The file of a clip's photograph of frost."""

    image: str | None = None


class FrostFacts(Facts):
    """The SHA-256 of a clip's photograph of frost; None where the kernel draws the ice."""

    frost: str | None = None
    files: FrostFactFiles


def settle(settings: GuideSettings) -> FrostGuide:
    """The photographs that the configuration names."""
    player = settings.roles["frost"].model_dump(mode="json")
    return FrostGuide(version=VERSION, files=FrostFiles.model_validate(player))


def find(request: FactsRequest) -> FrostFacts:
    """The photograph of a clip, drawn once per clip; none where the kernel draws the ice itself."""
    assert isinstance(request.guide, FrostGuide)
    folder = request.guide.files.images
    if folder is None:
        return FrostFacts(files=FrostFactFiles())
    from perturbations.media import images

    paths = images.listed("frost", Path(folder))
    path = paths[int(request.draw() * len(paths))]
    return FrostFacts(frost=storage.sha256(path), files=FrostFactFiles(image=str(path)))


def make(recipe: GuideRecipe, facts: Facts, shape: ClipShape) -> Image | None:
    """The photograph, RGB uint8. Raises `MediaError` when it is missing or changed."""
    assert isinstance(facts, FrostFacts)
    return photograph(facts.frost, facts.files.image)


@lru_cache(maxsize=4)
def photograph(sha256: str | None, path: str | None) -> Image | None:
    """A photograph of frost, RGB uint8. Raises `MediaError` when it is missing or changed."""
    from perturbations.media import images

    return None if sha256 is None or path is None else images.checked("frost", sha256, path)


def players(recipe: GuideRecipe, row: AnalysisRow | None) -> str:
    """Photographs, or the kernel, which draws offline."""
    return canonical({"frost": {"backend": "photographs" if recipe.chooses_files() else "offline"}})


GUIDE = Guide(
    name="frost",
    summary="the ice: photographs of `backends.frost`, or drawn",
    recipe=FrostGuide,
    facts=FrostFacts,
    settle=settle,
    find=find,
    make=make,
    players=players,
    roles=(Role(name="frost", summary="the ice of mm_robustness/frost", players=(Frost,)),),
)
