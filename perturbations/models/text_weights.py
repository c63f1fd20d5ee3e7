"""Weights from a model hub."""

from __future__ import annotations

from typing import Any

from perturbations.errors import BackendError


def pretrained(kind: Any, name: str) -> Any:
    """`kind.from_pretrained(name)`: a folder, or a hub's name that is in the local cache or can be downloaded.

    Raises `BackendError` with the way out when it is neither.
    """
    try:
        return kind.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"the weights of {name} are not here and cannot be fetched. Download them where the hub can be reached "
            f"(`hf download {name}`) and copy the cache (HF_HOME), or use the backend `offline`. "
            f"{type(error).__name__}: {str(error).splitlines()[0]}"
        ) from error
