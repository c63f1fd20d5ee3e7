"""Frost: a photograph of ice, or ice that the kernel draws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.records import canonical
from perturbations.base.settings import Strict
from perturbations.manifest.rows import AnalysisRow
from perturbations.media import stills
from perturbations.media.clean_clip import CleanClip
from perturbations.models.guides.guide_registry import Facts, GuideRecipe, GuideSettings, Known, Parameters

_FIRST = 5
"""How many photographs, in the order of their names, MM-Robustness' code chooses from."""


class Frost(Strict):
    """The source of the ice."""

    images: Path | None = Field(None, description="a folder of photographs of frost; the default is synthetic ice")


@dataclass(frozen=True, kw_only=True)
class FrostFacts(Facts):
    """The SHA-256 and file of a clip's photograph of frost; None where the kernel draws the ice.

    `size` is its width and height, if the recipe does not resize it: a photograph smaller than the frame is enlarged.
    """

    frost: str | None = None
    size: tuple[int, int] | None = None
    files: dict[Literal["image"], str]


@dataclass(frozen=True, kw_only=True)
class FrostGuide(GuideRecipe):
    """The kernel gets a photograph of frost from the folder `files["images"]`, or nothing: then it draws the ice.

    `choice` is "first_five" for the choice of MM-Robustness' code, which never takes the last of its six photographs.
    """

    summary: ClassVar = "the ice: photographs of `backends.frost`, or synthetic"
    facts: ClassVar = FrostFacts
    role: ClassVar = "frost"

    kind: Literal["frost"] = "frost"
    version: int = 1
    choice: Literal["first_five"] | None = None
    files: dict[Literal["images"], str]

    @classmethod
    def settle(cls, settings: GuideSettings) -> FrostGuide:
        """The photographs that the configuration names."""
        files: Any = settings.role_settings("frost")
        return cls(choice="first_five" if settings.variant == "released" else None, files=files)

    def find(self, item_id: str, known: Known, *, seed: int, draw: float, parameters: Parameters) -> FrostFacts:
        """The photograph of a clip, drawn once per clip; none where the kernel draws the ice itself.

        Raises `MediaError` when the photograph cannot be read, where its size is a fact.
        """
        if "images" not in self.files:
            return FrostFacts(files={})
        as_released = self.choice is not None
        paths = stills.images_in("frost", Path(self.files["images"]))[: _FIRST if as_released else None]
        path = paths[int(draw * len(paths))]
        sha256 = storage.sha256(path)
        picture = photograph(sha256, str(path)) if as_released else None
        size = None if picture is None else (picture.shape[1], picture.shape[0])
        return FrostFacts(frost=sha256, size=size, files={"image": str(path)})

    def argument(self, facts: Facts, clip: CleanClip, kept: Path | None) -> Image | None:
        """The photograph, RGB uint8. Raises `MediaError` when it is missing or changed."""
        assert isinstance(facts, FrostFacts)
        return photograph(facts.frost, facts.files.get("image"))

    def models(self, row: AnalysisRow | None) -> str:
        """Photographs, or the kernel, which draws offline."""
        return canonical({"frost": {"backend": "photographs" if self.files else "offline"}})


@lru_cache(maxsize=4)
def photograph(sha256: str | None, path: str | None) -> Image | None:
    """A photograph of frost, RGB uint8. Raises `MediaError` when it is missing or changed."""
    return None if sha256 is None or path is None else stills.checked_image("frost", sha256, path)


GUIDES = {"frost": FrostGuide}
