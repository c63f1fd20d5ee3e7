"""The models that have roles, their weights, and how they are loaded. Files beside this one declare `MODELS`.

`pretrained` models are the papers': weights from a model hub. `offline` models work without any download. A model may
have a role in both backends. The files import torch and other large libraries in functions only: planning reads the
models' names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

from perturbations.base import plugins
from perturbations.base.errors import BackendError, PerturbationError, RegistryError, ToolError, short

_OWN = plugins.in_package(
    "perturbations.models",
    *("adain", "captioner", "clip_model", "language_model", "nouns", "owlv2", "text_inflection", "text_masked_lm"),
    *("text_neighbours", "text_similarity", "text_style", "text_tagger", "text_translator", "text_wordnet"),
    "yolo_world",
)

BACKENDS = ("offline", "pretrained")

_Need = Callable[[], object]
"""Raises `BackendError` where a program, a library or weights are not installed. It is quick and loads nothing."""


@dataclass(frozen=True, kw_only=True)
class Canary:
    """A sentence that a model answers when it is loaded, so that a broken model is noticed.

    Attributes:
        sentence: the sentence.
        answer: gives the sentence to the loaded model and returns its answer.
        holds: whether a working model could give this answer.
        expected: the expected answer, in words.
    """

    sentence: str
    answer: Callable[[Any, str], object]
    holds: Callable[[Any, str], bool]
    expected: str


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model in a role.

    Attributes:
        role: a role that a caption perturbation names, or a part of a guide's analysis.
        backends: in which of `BACKENDS` it has the role.
        name: what rows record.
        weights: where its weights come from.
        licence: of the weights, or of the library where there are none.
        load: the function that loads it. For roles of captions it takes no argument that must be given; other models
            are loaded from the folder and revision that `config.yaml` names.
        needs: what must be installed, so that planning knows which perturbations cannot be made. Only models of
            captions have needs.
        canary: a test sentence. Every model of captions has a canary.
        of: who uses the role: kernels of captions, guides, or splits for composed retrieval.
    """

    role: str
    backends: tuple[str, ...] = ("pretrained",)
    name: str
    weights: str = "model hub"
    licence: str
    load: Callable[..., object]
    needs: tuple[_Need, ...] = ()
    canary: Canary | None = None
    of: Literal["captions", "guides", "splits"] = "captions"


@plugins.cached
def models() -> tuple[Model, ...]:
    """Every model. Raises `RegistryError` where two models of captions have the same role in the same backend."""
    declared = plugins.load_all("perturbations.models", _OWN, "MODELS", tuple)
    every = tuple(model for file in declared.values() for model in file)
    taken = [(model.role, backend) for model in every if model.of == "captions" for backend in model.backends]
    if len(set(taken)) < len(taken):
        raise RegistryError(f"two models have one role: {max(taken, key=taken.count)}")
    return every


@plugins.cached
def roles() -> dict[str, dict[str, Model]]:
    """The roles of captions' kernels: the model of each, by backend."""
    by_role: dict[str, dict[str, Model]] = {}
    for model in models():
        if model.of == "captions":
            by_role.setdefault(model.role, {}).update(dict.fromkeys(model.backends, model))
    return by_role


def stand_ins() -> set[str]:
    """The names of offline models that differ from the papers'."""
    offline, pretrained = ({by_backend[backend].name for by_backend in roles().values()} for backend in BACKENDS)
    return offline - pretrained


def model_of(role: str, backend: str) -> Model:
    """The model of a role. Raises `BackendError` for an unknown backend."""
    if backend not in BACKENDS:
        raise BackendError(f"no backend '{backend}'; choose one of {list(BACKENDS)}")
    return roles()[role][backend]


@cache
def load(role: str, backend: str) -> Any:
    """The model of a role, loaded once per process.

    Raises `BackendError` for an unknown backend, and when a library, program or weight file is missing; `ToolError`
    when it does not answer its canary sentence.
    """
    model = model_of(role, backend)
    try:
        loaded = model.load()
    except ImportError as error:
        raise BackendError(
            f"the {backend} backend of '{role}' ({model.name}) needs {error.name}: {_INSTALL_TEXT}"
        ) from error
    if model.canary is not None:
        _check(model, model.canary, loaded)
    return loaded


def forget() -> None:
    """Forget the loaded models: the pretrained models of many perturbations would fill the memory of a job."""
    load.cache_clear()


def _check(model: Model, canary: Canary, loaded: object) -> None:
    try:
        answer = canary.answer(loaded, canary.sentence)
        holds = canary.holds(answer, canary.sentence)
    except PerturbationError:
        raise
    except Exception as error:  # whatever a broken library raises, or an answer of another form
        raise ToolError(
            f"{model.name}, the model of '{model.role}', fails on {canary.sentence!r}: {type(error).__name__}: {error}"
        ) from error
    if not holds:
        raise ToolError(
            f"{model.name}, the model of '{model.role}', gives {short(answer)} for {canary.sentence!r}; expected: "
            f"{canary.expected}. No caption was perturbed: repair its installation"
        )


_INSTALL_TEXT = "install the extra `perturbations[text]`"


def libraries(*names: str) -> _Need:
    """The need of libraries of the extra `text`."""

    def find() -> None:
        if absent := [name for name in names if find_spec(name) is None]:
            raise BackendError(f"{', '.join(absent)} not installed: {_INSTALL_TEXT}")

    return find


@cache
def missing(role: str, backend: str) -> str | None:
    """What a role's model needs and this machine lacks, from a quick look; None where nothing is found missing."""
    model = roles()[role][backend]
    try:
        for need in model.needs:
            need()
    except (BackendError, ToolError) as error:
        return f"{model.name}: {error}"
    return None


def names(role_names: Iterable[str], backend: str) -> str:
    """The models of these roles, as rows record them; "rules" when there are no roles."""
    return " + ".join(dict.fromkeys(roles()[role][backend].name for role in role_names)) or "rules"
