"""AltCLIP: CLIP's vision transformer with XLM-R as its text tower."""

from __future__ import annotations

from perturbations.evaluation.backbones.backbone_registry import Backbone

BACKBONE = Backbone(
    name="altclip",
    title="AltCLIP",
    source="Chen et al., ACL Findings 2023",
    place=30,
    model_class="AltCLIPModel",
    image_processor="CLIPImageProcessor",
    example="BAAI/AltCLIP",
    places_follow_padding=True,
)
