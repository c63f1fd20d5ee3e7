"""Perturbed benchmark corpora for video-text retrieval: exact, seeded, regenerable.

The public names are `list_perturbations`, `perturb`, `perturb_text`, `read_manifest`, `read_captions`, `open_clip`,
`Corpus`, `Transform` and `snakefile`. The command is `perturb`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perturbations.api.arrays import list_perturbations, perturb, perturb_text
    from perturbations.api.corpus import Corpus
    from perturbations.api.opening import open_clip
    from perturbations.api.transform import Transform
    from perturbations.base.project import snakefile
    from perturbations.manifest.dataframes import read_captions, read_manifest

__version__ = "0.1.0"
__all__ = [
    "Corpus",
    "Transform",
    "__version__",
    "list_perturbations",
    "open_clip",
    "perturb",
    "perturb_text",
    "read_captions",
    "read_manifest",
    "snakefile",
]

_HOMES = {
    "Corpus": "api.corpus",
    "Transform": "api.transform",
    "list_perturbations": "api.arrays",
    "open_clip": "api.opening",
    "perturb": "api.arrays",
    "perturb_text": "api.arrays",
    "read_captions": "manifest.dataframes",
    "read_manifest": "manifest.dataframes",
    "snakefile": "base.project",
}


def __getattr__(name: str) -> object:
    # Imported on first use: Snakemake and `perturb --help` import the package without NumPy, OpenCV and PyArrow.
    if name in _HOMES:
        return getattr(import_module(f"perturbations.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'perturbations' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
