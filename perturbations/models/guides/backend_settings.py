"""The section `backends` of `config.yaml`: which models play the roles of guides and of captions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from perturbations.base.settings import Device, Strict
from perturbations.models.guides import guide_registry as guides
from perturbations.models.guides.donor import OfflineEmbedding, PretrainedEmbedding
from perturbations.models.guides.frost_photographs import Frost
from perturbations.models.guides.main_object import OfflineMainObject, PretrainedMainObject
from perturbations.models.guides.style_pictures import OfflineStyle, PretrainedStyle


class CaptionBackend(Strict):
    """Who perturbs captions."""

    backend: Literal["offline", "pretrained"] = Field(
        "offline", description="offline: rules, WordNet, a small sentence model; pretrained: what the papers used"
    )


class Backends(Strict):
    """The models. Results of `offline` backends are not comparable with published numbers."""

    device: Device = Field("cpu", description="where pretrained models run: cpu, cuda, cuda:1, mps")
    dtype: Literal["float32", "bfloat16", "float16"] = Field("float32", description="the precision they run in")
    captions: CaptionBackend = Field(default_factory=CaptionBackend, description="the models of text perturbations")
    embedding: Annotated[OfflineEmbedding | PretrainedEmbedding, Field(discriminator="backend")] = Field(
        default_factory=OfflineEmbedding, description="finds similar clips, for event_insertion"
    )
    frost: Frost = Field(default_factory=Frost, description="the ice of mm_robustness/frost")
    main_object: Annotated[OfflineMainObject | PretrainedMainObject, Field(discriminator="backend")] = Field(
        default_factory=OfflineMainObject, description="finds the object that main_object_occlusion covers"
    )
    style: Annotated[OfflineStyle | PretrainedStyle, Field(discriminator="backend")] = Field(
        default_factory=OfflineStyle, description="paints for style_transfer"
    )

    def roles(self) -> dict[str, Strict]:
        """The settings of the models that guides use, by role."""
        return {name: getattr(self, name) for name in ("embedding", "frost", "main_object", "style")}


def has_stand_in(guide: str | None) -> bool:
    """Whether, by default, a stand-in makes the perturbations with this guide."""
    role = guides.get(guide).role if guide else None
    return role is not None and getattr(Backends().roles()[role], "backend", "") == "offline"


STAND_IN = "stand-in"
"""The mark of perturbations that a stand-in made, wherever they are shown."""
