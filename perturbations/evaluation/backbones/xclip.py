"""X-CLIP: CLIP whose frames exchange messages, pooled by a transformer over frames; one feature per video.

Its own classification adds prompts to each text for each video. Retrieval takes the texts' features without them.
"""

from __future__ import annotations

from perturbations.evaluation.backbones.backbone_registry import Backbone

BACKBONE = Backbone(
    name="xclip",
    title="X-CLIP",
    source="Ni et al., ECCV 2022",
    place=44,
    model_class="XCLIPModel",
    image_processor="VideoMAEImageProcessor",
    example="microsoft/xclip-base-patch32",
    reads="end",
    whole_videos=True,
)
