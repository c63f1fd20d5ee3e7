"""Where the project's files that are not Python lie: the workflow, its profiles, the pinned environment.

In a checkout they lie beside the package. A wheel carries them inside of the package, in a folder of its own: Snakemake
puts the Snakefile's folder on Python's path, where the package's modules must not be found by their short names.
"""

from __future__ import annotations

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


def snakefile() -> str:
    """The path of the workflow's Snakefile, for `module` in a Snakefile of your own."""
    return str(folder() / "workflow" / "Snakefile")


def environment() -> dict[str, str]:
    """The variables that tell `envs/perturb.post-deploy.sh` where the project is, and what pip is to install."""
    from importlib.metadata import version

    place = folder()
    package = f"perturbations=={version('perturbations')}" if place == _INSTALLED else str(place)
    return {"PERTURBATIONS_PROJECT": str(place), "PERTURBATIONS_PACKAGE": package}


def installation(extra: str) -> str:
    """The command that installs an extra, as the package itself was installed."""
    return f"sh envs/install.sh {extra}" if folder() != _INSTALLED else f"pip install 'perturbations[{extra}]'"
