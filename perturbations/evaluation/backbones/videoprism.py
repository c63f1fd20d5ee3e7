"""VideoPrism's LvT: a spatial and a temporal transformer with attention pooling; one feature per video."""

from __future__ import annotations

from perturbations.evaluation.backbones.backbone_registry import Backbone

BACKBONE = Backbone(
    name="videoprism",
    title="VideoPrism",
    source="Zhao et al., ICML 2024",
    place=46,
    model_class="VideoPrismClipModel",
    image_processor="LlavaOnevisionVideoProcessor",
    example="google/videoprism-lvt-base-f16r288",
    reads="last",
    whole_videos=True,
)
