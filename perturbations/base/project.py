"""Where the project's files that are not Python lie: the workflow, its profiles, the pinned environment.

In a checkout they lie beside the package. A wheel carries them inside of the package, in a folder of its own: Snakemake
puts the Snakefile's folder on Python's path, where the package's modules must not be found by their short names.
"""

from __future__ import annotations

import os
from pathlib import Path

from perturbations.base.errors import ConfigError

_PACKAGE = Path(__file__).parents[1]
_INSTALLED = _PACKAGE / "project"


def folder() -> Path:
    """The folder of `workflow/` and `envs/`; raises `ConfigError` for a package without it."""
    for place in (_INSTALLED, _PACKAGE.parent):
        if (place / "workflow" / "Snakefile").is_file():
            return place
    raise ConfigError(f"{_PACKAGE} was installed without its workflow: install it from a wheel or a checkout")


def snakefile(name: str = "Snakefile") -> str:
    """The path of the workflow, or of its `scenarios.smk`, for `module` or `include` in a Snakefile of your own."""
    return str(folder() / "workflow" / name)


def environment() -> dict[str, str]:
    """The variables that tell `envs/perturb.post-deploy.sh` where the project is, and what pip is to install."""
    from importlib.metadata import version

    place = folder()
    package = f"perturbations=={version('perturbations')}" if place == _INSTALLED else str(place)
    return {"PERTURBATIONS_PROJECT": str(place), "PERTURBATIONS_PACKAGE": package}


def image() -> str:
    """The container image of this version: of the variable PERTURBATIONS_IMAGE, or as CI publishes it.

    Raises `ConfigError` where the variable is not set, and the package does not know its repository.
    """
    from importlib.metadata import PackageNotFoundError, metadata

    if given := os.environ.get("PERTURBATIONS_IMAGE"):
        return given
    try:
        about = metadata("perturbations")
        links = dict(link.split(", ", 1) for link in about.get_all("Project-URL") or [])
    except PackageNotFoundError:
        links = {}
    _, host, repository = links.get("Repository", "").partition("https://github.com/")
    if not host:
        raise ConfigError(
            "containers: set PERTURBATIONS_IMAGE to an image that envs/Containerfile made, such as /images/my.sif"
        )
    return f"docker://ghcr.io/{repository.lower()}:{about['Version']}"


def installation(extra: str) -> str:
    """The command that installs an extra, as the package itself was installed."""
    return f"sh envs/install.sh {extra}" if folder() != _INSTALLED else f"pip install 'perturbations[{extra}]'"
