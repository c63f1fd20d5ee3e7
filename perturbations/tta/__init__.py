"""Test-time adaptation of video-text retrieval (HAT-VTR, Sec. 4 and 5): a model adapts to its queries.

model = clip4clip(transformers.CLIPModel.from_pretrained(folder))
for similarities in adapt(model, "hatvtr", batches, (ids, mask), direction="v2t"):
    ...  # B x N_G

The methods are declared in `perturbations.tta.methods`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perturbations.tta.adaptation import adapt as adapt
    from perturbations.tta.encoders import DualEncoder as DualEncoder
    from perturbations.tta.encoders import clip4clip as clip4clip
    from perturbations.tta.encoders import xpool as xpool
    from perturbations.tta.gallery import Gallery as Gallery
    from perturbations.tta.gallery import encode_gallery as encode_gallery
    from perturbations.tta.inputs import DIRECTIONS as DIRECTIONS
    from perturbations.tta.inputs import ByteFrames as ByteFrames
    from perturbations.tta.precision import PRECISIONS as PRECISIONS
    from perturbations.tta.recording import Recording as Recording

_HOMES = {
    "DIRECTIONS": "inputs",
    "PRECISIONS": "precision",
    "ByteFrames": "inputs",
    "DualEncoder": "encoders",
    "Gallery": "gallery",
    "Recording": "recording",
    "adapt": "adaptation",
    "clip4clip": "encoders",
    "encode_gallery": "gallery",
    "xpool": "encoders",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    # Imported late: Snakemake looks up the methods' names without torch.
    if name in _HOMES:
        return getattr(import_module(f"perturbations.tta.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'perturbations.tta' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
