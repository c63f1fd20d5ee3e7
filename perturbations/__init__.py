"""Perturbed benchmark corpora for video-text retrieval: exact, seeded, regenerable.

`corrupt` perturbs a picture or a clip, `perturb_text` a caption; `names`, `severities` and `parameters` tell what there
is. `perturb` and `Transform` are for loops over clips in memory; `Corpus`, `open_clip`, `read_manifest` and
`read_captions` read what the workflow made. The command is `perturb`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perturbations.api.array_clips import perturb
    from perturbations.api.captions import perturb_text
    from perturbations.api.clip_opening import open_clip
    from perturbations.api.corpus import Corpus
    from perturbations.api.corrupt import corrupt, names, parameters, severities
    from perturbations.api.transform import Transform
    from perturbations.base.project import snakefile
    from perturbations.manifest.dataframes import read_captions, read_manifest

__version__ = "1.0.0"
__all__ = [
    "Corpus",
    "Transform",
    "__version__",
    "corrupt",
    "names",
    "open_clip",
    "parameters",
    "perturb",
    "perturb_text",
    "read_captions",
    "read_manifest",
    "severities",
    "snakefile",
]

_HOMES = {
    "Corpus": "api.corpus",
    "Transform": "api.transform",
    "corrupt": "api.corrupt",
    "names": "api.corrupt",
    "open_clip": "api.clip_opening",
    "parameters": "api.corrupt",
    "perturb": "api.array_clips",
    "perturb_text": "api.captions",
    "read_captions": "manifest.dataframes",
    "read_manifest": "manifest.dataframes",
    "severities": "api.corrupt",
    "snakefile": "base.project",
}


def __getattr__(name: str) -> object:
    # Imported on first use: Snakemake and `perturb --help` import the package without NumPy, OpenCV and PyArrow.
    if name in _HOMES:
        try:
            return getattr(import_module(f"perturbations.{_HOMES[name]}"), name)
        except ModuleNotFoundError as error:
            from perturbations.base.project import needs

            raise ModuleNotFoundError(f"perturbations.{name}: {needs(error)}", name=error.name) from error
    raise AttributeError(f"module 'perturbations' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
