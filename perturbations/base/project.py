"""Where the project's files that are not Python lie: the workflow, its profiles, the pinned versions.

In a checkout they lie beside the package. A wheel carries them inside of the package, in a folder of its own: Snakemake
puts the Snakefile's folder on Python's path, where the package's modules must not be found by their short names.
"""

from __future__ import annotations

from contextlib import suppress
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


def snakefile() -> str:
    """The path of the workflow, for `module` or `include` in a Snakefile of your own."""
    return str(folder() / "workflow" / "Snakefile")


def release(extras: str = "") -> str:
    """The requirement by which pip installs this version."""
    from importlib import metadata  # slow, and needed for a message alone

    with suppress(metadata.PackageNotFoundError):  # a checkout that is not installed
        return f"perturbations{extras and f'[{extras}]'}=={metadata.version('perturbations')}"
    return f"perturbations{extras and f'[{extras}]'}"


def installation(extra: str) -> str:
    """The command that installs an extra, as the package itself was installed."""
    if folder() == _INSTALLED:
        return f"pip install '{release(extra)}'"
    return f"sh envs/install.sh {extra}" if extra != "workflow" else "sh envs/install.sh"


def needs(error: ModuleNotFoundError) -> str:
    """The message about a library of the workflow that is not there, with the command that installs it."""
    return f"{error.name} is not installed; it comes with the workflow: {installation('workflow')}"


def need_models(*names: str) -> None:
    """Raise `ConfigError` when a library that evaluations need is not installed: one of these, or of all."""
    missing = [name for name in names or ("torch", "transformers", "safetensors") if find_spec(name) is None]
    if missing:
        install = installation("models")
        raise ConfigError(f"{', '.join(missing)} not installed; evaluations need them: {install}")
