"""Models: who plays which role, with which weights, and how they are loaded. Files of this shelf declare `MODELS`.

`pretrained` is what the papers used: weights from a model hub. `offline` works without any download. A model may play a
role in both. The files import NumPy, torch and other libraries in functions only: planning reads the models' names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from perturbations import shelf
from perturbations.errors import BackendError, ShelfError

BACKENDS = ("offline", "pretrained")


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model in a role.

    Attributes:
        role: what it plays: a role that a caption perturbation names, or a part of a guide's analysis.
        backends: in which of `BACKENDS` it plays the role.
        name: what rows record.
        weights: where they come from.
        licence: of the weights, or of the library where there are none.
        load: the function that loads it. For roles of captions it takes no argument that must be given; other models
            are loaded from the folder and revision that `config.yaml` names.
        of: whose roles these are: those of captions' kernels, or those of guides.
    """

    role: str
    backends: tuple[str, ...]
    name: str
    weights: str
    licence: str
    load: Callable[..., object]
    of: Literal["captions", "guides"] = "captions"


@cache
def models() -> tuple[Model, ...]:
    """Every model of this shelf. Raises `ShelfError` where two play one role in one backend of captions."""
    declared = shelf.things("perturbations.models", "MODELS", tuple)
    every = tuple(model for file in declared.values() for model in file)
    taken = [(model.role, backend) for model in every if model.of == "captions" for backend in model.backends]
    if len(set(taken)) < len(taken):
        raise ShelfError(f"two models play one role: {max(taken, key=taken.count)}")
    return every


@cache
def roles() -> dict[str, dict[str, Model]]:
    """The roles of captions' kernels: who plays each, by backend."""
    players: dict[str, dict[str, Model]] = {}
    for model in models():
        if model.of == "captions":
            players.setdefault(model.role, {}).update(dict.fromkeys(model.backends, model))
    return players


def stand_ins() -> set[str]:
    """The names of offline players that differ from the papers'."""
    offline, pretrained = ({players[backend].name for players in roles().values()} for backend in BACKENDS)
    return offline - pretrained


@cache
def load(role: str, backend: str) -> Any:
    """The player of a role, loaded once per process.

    Raises `BackendError` for an unknown backend, and when a library, program or weight file is missing.
    """
    if backend not in BACKENDS:
        raise BackendError(f"no backend '{backend}'; choose one of {list(BACKENDS)}")
    model = roles()[role][backend]
    try:
        return model.load()
    except ImportError as error:
        raise BackendError(
            f"the {backend} backend of '{role}' ({model.name}) needs {error.name}: "
            "install the extra `perturbations[text]`"
        ) from error


def names(wanted: Iterable[str], backend: str) -> str:
    """The players of the wanted roles, as rows record them; "rules" when there are no roles."""
    return " + ".join(dict.fromkeys(roles()[role][backend].name for role in wanted)) or "rules"
