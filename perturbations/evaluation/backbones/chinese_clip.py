"""Chinese-CLIP: CLIP's vision transformer with a Chinese BERT as its text tower."""

from __future__ import annotations

from perturbations.evaluation.backbones.backbone_registry import Backbone

BACKBONE = Backbone(
    name="chinese_clip",
    title="Chinese-CLIP",
    source="Yang et al., arXiv 2211.01335",
    place=40,
    model_class="ChineseCLIPModel",
    image_processor="ChineseCLIPImageProcessor",
    example="OFA-Sys/chinese-clip-vit-base-patch16",
)
