"""What a job would miss on this machine: libraries, weights, devices. A line per lack; nothing heavy is loaded."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from perturbations.base import checkpoints, project
from perturbations.base.errors import PerturbationError, first_line

_TOKENIZERS = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model")
"""A pretrained model's folder has one of these."""


def missing_libraries(names: tuple[str, ...], what: str) -> Iterator[str]:
    """The libraries that are not installed, and what needs them."""
    if missing := [name for name in names if find_spec(name) is None]:
        yield f"{', '.join(missing)} not installed; {what} need them: {project.installation('models')}"


def of_weights(key: str, name: str, *, tokenizer: bool = False, weights: bool = True) -> Iterator[str]:
    """What a model's folder lacks, or that its weights are neither a folder nor downloaded.

    Without `weights`, the folder's weights are not looked for: who asks does it.
    """
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            yield f"{key}: {name} is no model's folder: it has no config.json"
        elif tokenizer and not any((folder / file).is_file() for file in _TOKENIZERS):
            yield f"{key}: {name} has no tokenizer: none of {', '.join(_TOKENIZERS)}"
        elif weights and not any(folder.glob("*.safetensors")):
            yield f"{key}: {name} holds no weights: no *.safetensors file"
        return
    if folder.is_absolute() or name.startswith("."):
        yield f"{key}: no such folder: {name}"
        return
    if find_spec("huggingface_hub") is None:
        return
    if missing := reason(lambda: checkpoints.missing_weights(name)):
        yield f"{key}: {missing}"


def reason(look: Callable[[], str | None]) -> str | None:
    """What `look` returns, or the first line of the error that it raises."""
    try:
        return look()
    except (PerturbationError, ValueError, OSError) as error:  # a name that no hub has
        return first_line(error)


# --- devices ----------------------------------------------------------------------------------------------------------


def of_device(key: str, device: str) -> Iterator[str]:
    """That a device is not here."""
    kind, _, number = device.partition(":")
    if kind == "mps" and sys.platform != "darwin":
        yield f"{key}: mps is a device of Apple's computers; this is {sys.platform}"
    gpus = _gpus(Path("/dev"))
    if kind == "cuda" and gpus is not None and int(number or 0) >= gpus:
        yield f"{key}: {device} is not here: this machine has {gpus or 'no'} GPU{'s' if gpus != 1 else ''} of NVIDIA"


def _gpus(devices: Path) -> int | None:
    """How many GPUs of NVIDIA a folder of devices has; None where that is not known."""
    if (devices / "dxg").exists():  # Linux within Windows
        return None
    return len([path for path in devices.glob("nvidia*") if re.fullmatch("nvidia[0-9]+", path.name)])
