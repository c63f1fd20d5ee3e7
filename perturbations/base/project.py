"""Where the project's files that are not Python lie: the workflow, its profiles, the pinned environment.

In a checkout they lie beside the package. A wheel carries them inside of the package, in a folder of its own: Snakemake
puts the Snakefile's folder on Python's path, where the package's modules must not be found by their short names.
"""

from __future__ import annotations

import os
import shlex
from importlib.util import find_spec
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


def check_libraries() -> None:
    """Raise `ConfigError` where jobs have no libraries, as where Snakemake alone is installed, which can only plan."""
    if find_spec("pyarrow") is None:
        raise ConfigError(
            f"jobs need the package and its libraries: pip install {shlex.quote(str(folder()))}, or let Snakemake "
            "install them with `--software-deployment-method conda`"
        )


def _about() -> tuple[str | None, str | None]:
    """The address of the package's repository and its version, as far as its metadata say them."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        about = metadata("perturbations")
    except PackageNotFoundError:
        return None, None
    links = dict(link.split(", ", 1) for link in about.get_all("Project-URL") or [])
    return links.get("Repository"), about["Version"]


def release(extras: str = "") -> str:
    """The requirement by which pip installs this version: its tag in the repository, as it is in no index."""
    address, version = _about()
    tag = f"@v{version}" if version else ""
    return f"perturbations{extras and f'[{extras}]'} @ git+{address or _ADDRESS}{tag}"


_ADDRESS = "https://github.com/OWNER/perturbations"
"""Of the repository, where the package was built without it."""


def environment() -> dict[str, str]:
    """The variables that tell `envs/perturb.post-deploy.sh` where the project is, and what pip is to install.

    That is the checkout; for an installed package the tag, or, where its repository is not known, its wheel by version.
    """
    place, extras = folder(), "text,models"
    package = f"{place}[{extras}]"
    if place == _INSTALLED:
        address, version = _about()
        package = release(extras) if address else f"perturbations[{extras}]=={version}"
    return {"PERTURBATIONS_PROJECT": str(place), "PERTURBATIONS_PACKAGE": package}


def image() -> str:
    """The container image of this version: of the variable PERTURBATIONS_IMAGE, or as CI publishes it.

    Raises `ConfigError` where the variable is not set, and the package does not know its repository.
    """
    if given := os.environ.get("PERTURBATIONS_IMAGE"):
        return given
    address, version = _about()
    _, host, name = (address or "").partition("https://github.com/")
    if not host:
        raise ConfigError(
            "containers: set PERTURBATIONS_IMAGE to an image that envs/Containerfile made, such as /images/my.sif"
        )
    return f"docker://ghcr.io/{name.lower()}:{version}"


def installation(extra: str) -> str:
    """The command that installs an extra, as the package itself was installed."""
    return f"sh envs/install.sh {extra}" if folder() != _INSTALLED else f"pip install '{release(extra)}'"
