"""SigLIP: CLIP's towers with attention pooling of images; texts are padded to the full length without a mask.

SigLIP 2's folders of one resolution, such as google/siglip2-base-patch16-224, are of this model type too.
"""

from __future__ import annotations

from perturbations.evaluation.backbones.backbone_registry import Backbone

BACKBONE = Backbone(
    name="siglip",
    title="SigLIP",
    source="Zhai et al., ICCV 2023",
    place=20,
    model_class="SiglipModel",
    image_processor="SiglipImageProcessor",
    example="google/siglip-base-patch16-224",
    reads="last",
    masks_padding=False,
)
