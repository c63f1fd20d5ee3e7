"""The paths of pictures and pages of corpora."""

from perturbations.manifest.layout import INDEX

PLACES = {
    "index": INDEX,
    "preview": "manifests/{dataset}/{suite}/preview.png",
    "corpus_page": "manifests/{dataset}/{suite}/corpus.html",
    "caption_pairs": "manifests/{dataset}/{suite}/captions.html",
}

CORPUS_FILES = ("preview", "corpus_page")
"""Those beside a corpus's manifests that people look at."""

CAPTION_FILES = ("caption_pairs",)
"""The same of perturbed captions."""
