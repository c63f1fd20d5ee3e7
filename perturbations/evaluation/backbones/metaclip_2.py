"""MetaCLIP 2: CLIP trained on 329 languages; its text transformer is read at the end of the text."""

from __future__ import annotations

from perturbations.evaluation.backbones.backbone_registry import Backbone

BACKBONE = Backbone(
    name="metaclip_2",
    title="MetaCLIP 2",
    source="Chuang et al., NeurIPS 2025",
    place=5,
    model_class="MetaClip2Model",
    image_processor="CLIPImageProcessor",
    example="facebook/metaclip-2-worldwide-huge-quickgelu",
    reads="end",
)
