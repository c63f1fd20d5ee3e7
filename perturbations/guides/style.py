"""Style: the picture in whose style a clip is painted, and the painter."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from perturbations.base import storage
from perturbations.base.records import Record, canonical
from perturbations.base.settings import Strict
from perturbations.guides.analyses import GuideSettings, Role
from perturbations.guides.registry import ClipShape, Facts, FactsRequest, Guide, GuideRecipe
from perturbations.manifest.kinds import AnalysisRow

if TYPE_CHECKING:
    from perturbations.base.arrays import Image
    from perturbations.models import adain
    from perturbations.video.style import Painter


# --- configuration and recipe ----------------------------------------------------------------------------------------


class OfflineStyle(Strict):
    """AdaIN's statistics on a filter bank: no download."""

    backend: Literal["offline"] = "offline"
    images: Path | None = Field(None, description="a folder of style images; the default are those the package draws")


class PretrainedStyle(Strict):
    """AdaIN with the published weights."""

    backend: Literal["pretrained"]
    images: Path | None = Field(None, description="a folder of style images; the default are those the package draws")
    encoder: Path = Field(description="vgg_normalised.pth, or the same as safetensors")
    encoder_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="its SHA-256")
    decoder: Path = Field(description="decoder.pth, or the same as safetensors")
    decoder_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="its SHA-256")


class StyleFiles(Record):
    """The files of a style's image and networks: not a part of a recipe's identity."""

    images: str | None = None
    encoder: str | None = None
    decoder: str | None = None


class StyleGuide(GuideRecipe):
    """The kernel paints in a style."""

    kind: Literal["style"] = "style"
    version: int = 1
    backend: Literal["offline", "pretrained"]
    encoder_sha256: str | None = None
    decoder_sha256: str | None = None
    device: str | None = None
    dtype: str | None = None
    files: StyleFiles

    def is_offline(self) -> bool:
        """Whether the package itself paints."""
        return self.backend == "offline"

    def differences(self, dataset: str) -> Iterator[str]:
        """The authors' styles are paintings; of an offline painter its stand-in is said anyway."""
        if self.files.images is None and not self.is_offline():
            yield "styles are drawn by the package, and the authors' are paintings"

    def chooses_files(self) -> bool:
        """Whether a style's image is chosen from a folder."""
        return self.files.images is not None


def _settle(settings: GuideSettings) -> StyleGuide:
    """The recipe for the painter and its weights, from the configuration."""
    model = settings.roles["style"].model_dump(mode="json")
    files = {name: model.pop(name) for name in ("images", "encoder", "decoder") if name in model}
    where = {"device": settings.device, "dtype": settings.dtype} if model["backend"] == "pretrained" else {}
    return StyleGuide.model_validate({**model, **where, "files": files})


# --- facts -----------------------------------------------------------------------------------------------------------


class StyleFactFiles(Record):
    """The files of a clip's style image (None where the package draws it) and of the networks."""

    image: str | None = None
    encoder: str | None = None
    decoder: str | None = None


class StyleFacts(Facts):
    """The style that a clip is painted in: a name, or the SHA-256 of an image."""

    style: str
    files: StyleFactFiles


def _find(request: FactsRequest) -> StyleFacts:
    """The style of a clip: drawn once per clip, the same for all severities."""
    from perturbations.media import images
    from perturbations.video import procedural_styles

    assert isinstance(request.guide, StyleGuide)
    where = request.guide.files
    image: str | None = None
    if where.images is None:
        name = request.choice(procedural_styles.names())
    else:
        path = request.choice(images.listed("style", Path(where.images)))
        name, image = storage.sha256(path), str(path)
    return StyleFacts(style=name, files=StyleFactFiles(image=image, encoder=where.encoder, decoder=where.decoder))


# --- painters --------------------------------------------------------------------------------------------------------


def make(recipe: GuideRecipe, facts: Facts, shape: ClipShape) -> Painter:
    """The painter of a clip's style.

    Raises `MediaError` for a style image that is missing or changed, `ConfigError` for weights that are missing.
    """
    assert isinstance(recipe, StyleGuide)
    assert isinstance(facts, StyleFacts)
    if recipe.backend == "offline":
        return _offline_painter(facts.style, facts.files.image)
    return _pretrained_painter(facts.style, facts.files.image, recipe.text, facts.files.text)


# The severities of a clip, and clips of one style, share a painter.
@lru_cache(maxsize=4)
def _offline_painter(name: str, image: str | None) -> Painter:
    from perturbations.video import style

    picture = _style_image(name, image)
    as_released = cache(lambda: style.Painter(style.filter_bank(picture, own_size=True)))
    return style.Painter(style.filter_bank(picture), as_released=as_released)


@lru_cache(maxsize=4)
def _pretrained_painter(name: str, image: str | None, guide: str, files: str) -> Painter:
    from perturbations.video import style

    where = StyleFactFiles.model_validate_json(files)
    networks = _networks(guide, where.encoder or "", where.decoder or "")
    picture = _style_image(name, image)

    def painter(*, released: bool) -> Painter:
        statistics = cache(lambda: networks.style(picture, own_size=released))

        def batch(frames: Image, alpha: float) -> Image:
            return networks.stylize(frames, statistics(), alpha, rounded=released)

        return style.Painter(
            frame=lambda frame, alpha: batch(frame[None], alpha)[0],
            batch=batch,
            batch_size=networks.batch_size,
            as_released=None if released else cache(lambda: painter(released=True)),
        )

    return painter(released=False)


def _style_image(name: str, path: str | None) -> Image:
    from perturbations.media import images
    from perturbations.video import procedural_styles

    return procedural_styles.image(name) if path is None else images.checked("style", name, path)


@lru_cache(maxsize=1)
def _networks(guide: str, encoder: str, decoder: str) -> adain.Adain:
    from perturbations.models import adain

    settings = StyleGuide.model_validate_json(guide)
    return adain.load(
        Path(encoder),
        Path(decoder),
        encoder_sha256=settings.encoder_sha256 or "",
        decoder_sha256=settings.decoder_sha256 or "",
        device=settings.device or "cpu",
        dtype=settings.dtype or "float32",
    )


def _models(recipe: GuideRecipe, row: AnalysisRow | None) -> str:
    """The painter and its weights."""
    return canonical({"style": recipe.model_dump(mode="json", exclude_none=True, exclude={"kind", "files"})})


GUIDE = Guide(
    name="style",
    summary="the picture in whose style a clip is painted: `backends.style`, `offline` or `pretrained`",
    recipe=StyleGuide,
    facts=StyleFacts,
    settle=_settle,
    find=_find,
    make=make,
    models=_models,
    roles=(Role(name="style", summary="paints for style_transfer", backends=(OfflineStyle, PretrainedStyle)),),
)
