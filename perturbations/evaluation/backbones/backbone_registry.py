"""The type of a backbone, an architecture of dual encoders, and the look-up. Standard library only.

Every other file of this package declares one architecture as `BACKBONE`. The weights are a folder of transformers; what
prepares images and texts is read from that folder and checked against what is declared here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perturbations.base import plugins
from perturbations.base.errors import ConfigError, did_you_mean, short

_GROUP = "perturbations.backbones"
_OWN = plugins.in_package(
    "perturbations.evaluation.backbones",
    *("clip", "altclip", "blip", "chinese_clip", "metaclip_2", "siglip", "videoprism", "xclip"),
)

_Reads = Literal["end", "first", "last"]
"""The token whose output is a text's feature: that which ends the text, the first, or the last of a fixed number."""


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """One architecture: what each file beside this one declares as `BACKBONE`.

    Attributes:
        name: the `model_type` of a folder's config.json; the name of the file.
        title: its name in tables.
        source: where the architecture comes from.
        place: backbones are listed by ascending place.
        model_class: the class of transformers that loads the weights.
        image_processor: the class of transformers whose settings the folder's preprocessor_config.json holds.
        example: the name of published weights.
        reads: the token whose output is a text's feature.
        masks_padding: whether a text is padded to the longest of its batch and the padding masked; otherwise every text
            is padded to the maximum length, and the padding is not masked.
        places_follow_padding: whether the first token's position is the id after the padding's, as in XLM-R.
        own_pass: whether frames take the faster pass of `tta.towers` where the model is large.
        whole_videos: whether it gives one feature per video, of as many frames as its configuration says; otherwise one
            per frame.
        openai_checkpoints: whether a fine-tuned checkpoint may have OpenAI's names, as CLIP4Clip's have.
    """

    name: str
    title: str
    source: str
    place: int
    model_class: str
    image_processor: str
    example: str
    reads: _Reads = "first"
    masks_padding: bool = True
    places_follow_padding: bool = False
    own_pass: bool = False
    whole_videos: bool = False
    openai_checkpoints: bool = False


@plugins.cached
def backbones() -> dict[str, Backbone]:
    """Every backbone by its name, in the order of tables."""
    known = plugins.load_all(_GROUP, _OWN, "BACKBONE", Backbone)
    return {entry.name: entry for entry in sorted(known.values(), key=lambda entry: (entry.place, entry.name))}


def code(name: str) -> str | None:
    """The SHA-256 of the file that declares a backbone from outside; None of this package's."""
    return plugins.code_of(_GROUP, name, _OWN, "BACKBONE")


def backbone(name: str, where: object) -> Backbone:
    """The backbone called `name`, the model type of the folder `where`.

    Raises `ConfigError` with the known and the nearest names when there is none.
    """
    known = backbones()
    if name not in known:
        raise ConfigError(
            f"{where} holds a {short(name)} model; allowed: {', '.join(known)}{did_you_mean(name, known)}"
        )
    return known[name]
