"""Style: the picture in whose style a clip is painted, and the painter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
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
from perturbations.models import adain
from perturbations.models.guides.guide_registry import Facts, GuideRecipe, GuideSettings, Known, Parameters
from perturbations.video import procedural_styles, style
from perturbations.video.style import Painter

# --- configuration ---------------------------------------------------------------------------------------------------


class OfflineStyle(Strict):
    """AdaIN's statistics on a filter bank: no download."""

    backend: Literal["offline"] = "offline"
    images: Path | None = Field(None, description="a folder of style images; the default are synthetic ones")


class PretrainedStyle(Strict):
    """AdaIN with the published weights."""

    backend: Literal["pretrained"]
    images: Path | None = Field(None, description="a folder of style images; the default are synthetic ones")
    encoder: Path = Field(description="vgg_normalised.pth, or the same as safetensors")
    encoder_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="its SHA-256")
    decoder: Path = Field(description="decoder.pth, or the same as safetensors")
    decoder_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="its SHA-256")


@dataclass(frozen=True, kw_only=True)
class StyleFacts(Facts):
    """The style that a clip is painted in: a name, or the SHA-256 of an image.

    `files` has the image, unless the package generates it, and the networks.
    """

    style: str
    files: dict[Literal["image", "encoder", "decoder"], str]


# --- guide -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StyleGuide(GuideRecipe):
    """The kernel paints in a style."""

    summary: ClassVar = "the picture in whose style a clip is painted: `backends.style`, `offline` or `pretrained`"
    facts: ClassVar = StyleFacts
    role: ClassVar = "style"

    kind: Literal["style"] = "style"
    version: int = 1
    backend: Literal["offline", "pretrained"]
    encoder_sha256: str | None = None
    decoder_sha256: str | None = None
    device: str | None = None
    dtype: str | None = None
    files: dict[Literal["images", "encoder", "decoder"], str]

    @classmethod
    def settle(cls, settings: GuideSettings) -> StyleGuide:
        """The recipe for the painter and its weights, from the configuration."""
        model: dict[str, Any] = settings.model("style")
        files: Any = {name: model.pop(name) for name in ("images", "encoder", "decoder") if name in model}
        return cls(**model, files=files)

    def find(self, item_id: str, known: Known, *, seed: int, draw: float, parameters: Parameters) -> StyleFacts:
        """The style of a clip: drawn once per clip, the same for all severities."""
        files: Any = {name: path for name, path in self.files.items() if name != "images"}
        if "images" not in self.files:
            names = procedural_styles.names()
            name = names[int(draw * len(names))]
        else:
            paths = stills.images_in("style", Path(self.files["images"]))
            path = paths[int(draw * len(paths))]
            name, files["image"] = storage.sha256(path), str(path)
        return StyleFacts(style=name, files=files)

    def argument(self, facts: Facts, clip: CleanClip, kept: Path | None) -> Painter:
        """The painter of a clip's style."""
        assert isinstance(facts, StyleFacts)
        return painter(self, facts)

    def models(self, row: AnalysisRow | None) -> str:
        """The painter and its weights."""
        described = json.loads(self.text)
        return canonical({"style": {name: described[name] for name in described.keys() - {"kind", "files"}}})

    def differences(self, *, own_donors: bool) -> Iterator[str]:
        """Generated styles differ: the authors' are paintings. (An offline painter is reported as a stand-in.)"""
        if "images" not in self.files and not self.is_offline:
            yield "styles are drawn by the package, and the authors' are paintings"

    @property
    def is_offline(self) -> bool:
        """Whether the package itself paints."""
        return self.backend == "offline"


# --- painters --------------------------------------------------------------------------------------------------------


def painter(guide: StyleGuide, facts: StyleFacts) -> Painter:
    """The painter of a clip's style.

    Raises `MediaError` for a style image that is missing or changed, `ConfigError` for weights that are missing.
    """
    if guide.is_offline:
        return _offline_painter(facts.style, facts.files.get("image"))
    return _pretrained_painter(
        facts.style, facts.files.get("image"), guide.text, facts.files["encoder"], facts.files["decoder"]
    )


# The severities of a clip, and clips of one style, share a painter.
@lru_cache(maxsize=4)
def _offline_painter(name: str, image: str | None) -> Painter:
    picture = _style_image(name, image)
    as_released = cache(lambda: style.Painter(style.filter_bank(picture, own_size=True)))
    return style.Painter(style.filter_bank(picture), as_released=as_released)


@lru_cache(maxsize=4)
def _pretrained_painter(name: str, image: str | None, guide: str, encoder: str, decoder: str) -> Painter:
    networks = _networks(guide, encoder, decoder)
    picture = _style_image(name, image)

    def painter_of(*, released: bool) -> Painter:
        statistics = cache(lambda: networks.style(picture, own_size=released))

        def batch(frames: Image, alpha: float) -> Image:
            return networks.stylize(frames, statistics(), alpha, rounded=released)

        return style.Painter(
            frame=lambda frame, alpha: batch(frame[None], alpha)[0],
            batch=batch,
            batch_size=networks.batch_size,
            as_released=None if released else cache(lambda: painter_of(released=True)),
        )

    return painter_of(released=False)


def _style_image(name: str, path: str | None) -> Image:
    return _drawn_style(name) if path is None else stills.checked_image("style", name, path)


@cache  # drawing a style may take a tenth of a second, and the clips of a shard have all styles
def _drawn_style(name: str) -> Image:
    return procedural_styles.image(name)


@lru_cache(maxsize=1)
def _networks(guide: str, encoder: str, decoder: str) -> adain.Adain:
    settings = StyleGuide(**json.loads(guide))
    return adain.load(
        Path(encoder),
        Path(decoder),
        encoder_sha256=settings.encoder_sha256 or "",
        decoder_sha256=settings.decoder_sha256 or "",
        device=settings.device or "cpu",
        dtype=settings.dtype or "float32",
    )


GUIDES = {"style": StyleGuide}
