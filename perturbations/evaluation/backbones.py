"""The architectures of dual encoders that an evaluation can load, their type, and the look-up. Standard library only.

The weights are a folder of transformers; what prepares images and texts is read from that folder and checked against
the declarations here. A user's file, or another package, declares a further architecture as `BACKBONE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perturbations.base import plugins
from perturbations.base.errors import ConfigError, RegistryError, did_you_mean, short

_GROUP = "perturbations.backbones"

_Reads = Literal["end", "first", "last"]
"""The token whose output is a text's feature: the text's end token, the first token, or the last of a fixed number."""


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """An architecture of dual encoders.

    Attributes:
        name: the `model_type` of a folder's config.json.
        title: its name in tables.
        source: where the architecture comes from.
        model_class: the class of transformers that loads the weights.
        example: the name of published weights.
        reads: the token whose output is a text's feature.
        masks_padding: whether a text is padded to the longest of its batch and the padding masked; otherwise every text
            is padded to the maximum length, and the padding is not masked.
        places_follow_padding: whether the first token's position is the id after the padding's, as in XLM-R.
        whole_videos: whether it gives one feature per video, of as many frames as its configuration says; otherwise one
            per frame.
        also: further abilities, for the documentation: the faster pass of `tta.towers` for frames of large models, or
            fine-tuned checkpoints under OpenAI's names, as CLIP4Clip's are.
    """

    name: str
    title: str
    source: str
    model_class: str
    example: str
    reads: _Reads = "first"
    masks_padding: bool = True
    places_follow_padding: bool = False
    whole_videos: bool = False
    also: str = ""


_OWN = (
    # CLIP: a vision transformer, and a text transformer that is read at the end of the text.
    Backbone(
        name="clip",
        title="CLIP",
        source="Radford et al., ICML 2021",
        model_class="CLIPModel",
        example="openai/clip-vit-base-patch32",
        reads="end",
        also="a faster pass of frames, OpenAI's checkpoints",
    ),
    # MetaCLIP 2: CLIP trained on 329 languages; its text transformer is read at the end of the text.
    Backbone(
        name="metaclip_2",
        title="MetaCLIP 2",
        source="Chuang et al., NeurIPS 2025",
        model_class="MetaClip2Model",
        example="facebook/metaclip-2-worldwide-huge-quickgelu",
        reads="end",
    ),
    # BLIP's retrieval: a vision transformer and a BERT, each projected from its first token.
    Backbone(
        name="blip",
        title="BLIP",
        source="Li et al., ICML 2022",
        model_class="BlipForImageTextRetrieval",
        example="Salesforce/blip-itm-base-coco",
    ),
    # SigLIP: CLIP's towers with attention pooling of images; texts are padded to the full length without a mask.
    # SigLIP 2's folders of one resolution, such as google/siglip2-base-patch16-224, are of this model type too.
    Backbone(
        name="siglip",
        title="SigLIP",
        source="Zhai et al., ICCV 2023",
        model_class="SiglipModel",
        example="google/siglip-base-patch16-224",
        reads="last",
        masks_padding=False,
    ),
    # AltCLIP: CLIP's vision transformer with XLM-R as its text tower.
    Backbone(
        name="altclip",
        title="AltCLIP",
        source="Chen et al., ACL Findings 2023",
        model_class="AltCLIPModel",
        example="BAAI/AltCLIP",
        places_follow_padding=True,
    ),
    # Chinese-CLIP: CLIP's vision transformer with a Chinese BERT as its text tower.
    Backbone(
        name="chinese_clip",
        title="Chinese-CLIP",
        source="Yang et al., arXiv 2211.01335",
        model_class="ChineseCLIPModel",
        example="OFA-Sys/chinese-clip-vit-base-patch16",
    ),
    # X-CLIP: CLIP whose frames exchange messages, pooled by a transformer over frames; one feature per video.
    # Its own classification adds prompts to each text for each video. Retrieval takes the texts' features without them.
    Backbone(
        name="xclip",
        title="X-CLIP",
        source="Ni et al., ECCV 2022",
        model_class="XCLIPModel",
        example="microsoft/xclip-base-patch32",
        reads="end",
        whole_videos=True,
    ),
    # VideoPrism's LvT: a spatial and a temporal transformer with attention pooling; one feature per video.
    Backbone(
        name="videoprism",
        title="VideoPrism",
        source="Zhao et al., ICML 2024",
        model_class="VideoPrismClipModel",
        example="google/videoprism-lvt-base-f16r288",
        reads="last",
        whole_videos=True,
    ),
)


@plugins.cached
def backbones() -> dict[str, Backbone]:
    """Every backbone by its name, in the order of tables: first this package's, then backbones from outside."""
    brought = plugins.load_all(_GROUP, {}, "BACKBONE", Backbone)
    if twice := [entry.name for entry in _OWN if entry.name in brought]:
        raise RegistryError(f"a file of `plugins` declares {twice[0]!r}, which there is already: give it another name")
    return {entry.name: entry for entry in _OWN} | dict(sorted(brought.items()))


def code(name: str) -> str | None:
    """The SHA-256 of the file that declares a backbone from outside; None for a backbone of this package."""
    return plugins.code_of(_GROUP, name, {}, "BACKBONE")


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
