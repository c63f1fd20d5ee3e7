"""Weights from a model hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from perturbations.base.errors import BackendError, first_line

if TYPE_CHECKING:
    import torch

Loaded = TypeVar("Loaded", covariant=True)


class Seq2Seq(Protocol):
    """A model of transformers from text to text."""

    def generate(self, **inputs: object) -> torch.Tensor:
        """Token ids, texts x length."""


class Loader(Protocol[Loaded]):
    """A class of transformers that loads models or tokenizers."""

    def from_pretrained(self, name: str, /, *, trust_remote_code: bool) -> Loaded:
        """The model or tokenizer of this name or folder."""


def pretrained(kind: Loader[Loaded], name: str) -> Loaded:
    """`kind.from_pretrained(name)`: a folder, or a hub's name that is in the local cache or can be downloaded.

    Raises `BackendError` with the way out when it is neither.
    """
    try:
        return kind.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"the weights of {name} are not here and cannot be fetched. Download them where the hub can be reached "
            f"(`hf download {name}`) and copy the cache (HF_HOME), or use the backend `offline`. "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error


def missing_weights(*names: str) -> str | None:
    """How to get the weights of models that are neither folders nor in the local cache; None where all are there.

    Nothing is downloaded while a run is planned, and a cluster's nodes often cannot.
    """
    from huggingface_hub import try_to_load_from_cache

    absent = [
        name
        for name in names
        if not Path(name).is_dir() and not isinstance(try_to_load_from_cache(name, "config.json"), str)
    ]
    commands = ", ".join(f"`hf download {name}`" for name in absent)
    return f"weights that are not on this machine: {commands}" if absent else None
