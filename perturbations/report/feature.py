"""What `report` brings to the configuration and the plan: the paths of pictures and pages of corpora."""

from __future__ import annotations

from perturbations.base.features import Feature
from perturbations.manifest.layout import INDEX

FEATURE = Feature(
    summary="pictures and pages of corpora",
    places={
        "index": INDEX,
        "preview": "manifests/{dataset}/{suite}/preview.png",
        "corpus_page": "manifests/{dataset}/{suite}/corpus.html",
        "caption_pairs": "manifests/{dataset}/{suite}/captions.html",
    },
    corpus_files=("preview", "corpus_page"),
    caption_files=("caption_pairs",),
)
