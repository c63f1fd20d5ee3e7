"""The type of an adaptation method, and the look-up. Standard library only: Snakemake reads the names from here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from perturbations.base import shelf
from perturbations.base.errors import ConfigError, ShelfError, did_you_mean, short

if TYPE_CHECKING:
    from torch import Tensor

    from perturbations.tta.inputs import Batch
    from perturbations.tta.task import Task

SHELF = "perturbations.tta.methods"


class Rates(NamedTuple):
    """AdamW's learning rates per direction (HAT-VTR, App. B.3)."""

    v2t: float
    t2v: float


@dataclass(frozen=True, kw_only=True)
class Method:
    """One adaptation method: what each file of the shelf declares as `METHOD`.

    Attributes:
        name: in config.yaml, manifests and `adapt`; the name of the file.
        title: its name on pages, in tables, figures and messages, as its paper spells it; `name` is for programs.
        paper: where the method comes from.
        place: methods are listed by ascending place.
        run: takes the task of one scenario and the batches of queries, and yields float32 similarities B x N_G per
            batch, in the order of the batches. Imports torch inside, so that planning does not load it.
        minimizes: for the documentation, what the method minimizes.
        gives: for the documentation, what the similarities are.
        rates: learning rates; None for a method that does not learn but keeps or re-ranks similarities.
        by_default: whether an evaluation runs it where config.yaml lists no methods.
        needs_bank: whether it needs a bank of training queries.
        needs_all_queries: whether it yields only after the last batch.
        is_baseline: the model as it is, which every evaluation runs and others are compared with; exactly one method.
    """

    name: str
    title: str
    paper: str
    place: int
    run: Callable[[Task, Iterable[Batch]], Iterator[Tensor]]
    minimizes: str
    gives: str
    rates: Rates | None = None
    by_default: bool = True
    needs_bank: bool = False
    needs_all_queries: bool = False
    is_baseline: bool = False

    @property
    def adapts(self) -> bool:
        """Whether weights change; otherwise the method keeps or re-ranks similarities."""
        return self.rates is not None


@cache
def methods() -> dict[str, Method]:
    """Every method by its name, in the order of tables.

    Raises `ShelfError` where a file's method has another name, two have one title, or there is not one baseline.
    """
    known = shelf.in_order(SHELF, "method", shelf.things(SHELF, "METHOD", Method))
    baselines = [entry.name for entry in known.values() if entry.is_baseline]
    if len(baselines) != 1:
        raise ShelfError(f"{SHELF} has the baselines {', '.join(baselines) or '(none)'}; there must be exactly one")
    return known


def method(name: str) -> Method:
    """The method called `name`; raises `ConfigError` with the known and the nearest names when there is none."""
    known = methods()
    if name not in known:
        allowed = ", ".join(known)
        raise ConfigError(f"method {short(name)} is unknown; allowed: {allowed}{did_you_mean(name, known)}")
    return known[name]


def baseline() -> Method:
    """The model as it is, which every evaluation runs."""
    return next(entry for entry in methods().values() if entry.is_baseline)


def defaults() -> tuple[str, ...]:
    """Names of the methods that an evaluation runs where config.yaml lists none; the baseline is always run."""
    return tuple(name for name, entry in methods().items() if entry.by_default and not entry.is_baseline)


def title_of(name: str) -> str:
    """A method's title; for results of a method that is no longer on the shelf, its name."""
    return methods()[name].title if name in methods() else name


def place_of(name: str) -> int:
    """A method's place in tables, from 0; results of a method that is no longer on the shelf come last."""
    names = list(methods())
    return names.index(name) if name in names else len(names)
