"""BLIP's retrieval: a vision transformer and a BERT, each projected from its first token."""

from __future__ import annotations

from perturbations.evaluation.backbones.backbone_registry import Backbone

BACKBONE = Backbone(
    name="blip",
    title="BLIP",
    source="Li et al., ICML 2022",
    place=10,
    model_class="BlipForImageTextRetrieval",
    image_processor="BlipImageProcessor",
    example="Salesforce/blip-itm-base-coco",
)
