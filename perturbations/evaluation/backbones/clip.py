"""CLIP: a vision transformer, and a text transformer that is read at the end of the text."""

from __future__ import annotations

from perturbations.evaluation.backbones.backbone_registry import Backbone

BACKBONE = Backbone(
    name="clip",
    title="CLIP",
    source="Radford et al., ICML 2021",
    place=0,
    model_class="CLIPModel",
    image_processor="CLIPImageProcessor",
    example="openai/clip-vit-base-patch32",
    reads="end",
    own_pass=True,
    openai_checkpoints=True,
)
