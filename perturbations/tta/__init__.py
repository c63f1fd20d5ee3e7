"""Test-time adaptation of video-text retrieval (HAT-VTR, Sec. 4 and 5): a model adapts to the queries it is asked.

model = clip4clip(transformers.CLIPModel.from_pretrained(folder))
for similarities in adapt(model, "hatvtr", batches, (ids, mask), direction="v2t"):
    ...  # B x N_G
"""

from perturbations.tta.adaptation import LEARNING_RATES, PRECISIONS, adapt
from perturbations.tta.encoders import DualEncoder, clip4clip, xpool
from perturbations.tta.gallery import Gallery, encode_gallery
from perturbations.tta.inputs import DIRECTIONS
from perturbations.tta.methods import METHODS
from perturbations.tta.recording import Counts, Timings

__all__ = [
    "DIRECTIONS",
    "LEARNING_RATES",
    "METHODS",
    "PRECISIONS",
    "Counts",
    "DualEncoder",
    "Gallery",
    "Timings",
    "adapt",
    "clip4clip",
    "encode_gallery",
    "xpool",
]
