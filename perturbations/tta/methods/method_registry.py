"""The types of an adaptation method and its parameters, and the look-up.

Standard library only: Snakemake reads the names from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perturbations.base import plugins
from perturbations.base.bounds import SHARE, Choice, Range, problem_of, whole
from perturbations.base.errors import ConfigError, did_you_mean, short

if TYPE_CHECKING:
    from torch import Tensor as Tensor

    from perturbations.tta.task import Batches as Batches
    from perturbations.tta.task import BatchScores as BatchScores
    from perturbations.tta.task import Task as Task
else:  # what methods' annotations name, which nobody evaluates: planning loads no torch
    Batches = BatchScores = Task = Tensor = None

_GROUP = "perturbations.methods"
_OWN = plugins.in_package(
    "perturbations.tta.methods",
    *("none", "tent", "read", "sar", "eata", "shot", "tcr", "hatvtr", "qbnorm", "hsm_qbnorm", "dual_is", "dual_dis"),
    *("dual_sinkhorn", "csls", "dsl", "inverted_softmax", "invgc", "sinkhorn"),
)


MethodValue = bool | int | float | str

FLAG = Choice((False, True))


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method.

    Attributes:
        name: in `evaluation.parameters` and in `adapt`.
        bound: the values that it takes.
        default: the published value; None where it depends on the run, as `about` says.
        about: what it is.
        source: where the default comes from.
        of_gallery: the default as a share of the gallery's size, rounded down, at least 1.
    """

    name: str
    bound: Range | Choice
    default: MethodValue | None
    about: str
    source: str
    of_gallery: float | None = None

    @property
    def schema(self) -> dict[str, object]:
        """Its JSON schema."""
        schema: dict[str, object] = {"description": f"{self.about} ({self.source})"}
        if isinstance(self.bound, Choice):
            schema["enum"] = list(self.bound.values)
        else:
            low = "exclusiveMinimum" if self.bound.above else "minimum"
            schema["type"] = "integer" if self.bound.whole else "number"
            schema |= {low: self.bound.low, "maximum": self.bound.high}
        return schema if self.default is None else {**schema, "default": self.default}


_LEARNING = (
    Parameter(
        "lr",
        SHARE,
        None,
        "AdamW's learning rate; the default is the method's own in each direction",
        "HAT-VTR, App. B.3",
    ),
    Parameter(
        "temperature",
        Range(1e-4, 100),
        0.02,
        "tau, the divisor of similarities in softmax",
        "HAT-VTR, Eq. 3 and Fig. 7 (a)",
    ),
)
"""Parameters of every method whose weights change."""

RELIABLE = (
    Parameter("memory", whole(1, 65_536), 16, "reliable pairs that are kept", "HAT-VTR, App. C.1 and Fig. 7 (c)"),
    Parameter("share", SHARE, 0.3, "share of a batch that enters the reliable memory", "released code"),
    Parameter(
        "t",
        Range(1e-3, 1e6),
        10.0,
        "t of the uniformity losses, the divisor of distances",
        "HAT-VTR, Eq. 7 and 8 and Fig. 6",
    ),
)
"""Parameters of the methods that keep reliable pairs."""

HSM = (
    Parameter(
        "alpha",
        Range(0, 1e6),
        100.0,
        "factor in HSM's softmax of columns: how popular an item is",
        "HAT-VTR, Sec. 5.4 and Tab. 12",
    ),
    Parameter(
        "beta",
        Range(0, 1e6),
        10.0,
        "factor in HSM's softmax of rows: how sure a query is",
        "HAT-VTR, Sec. 5.4 and Tab. 12",
    ),
    Parameter("m", SHARE, 0.5, "weight of HSM's columns; rows have 1 - m", "HAT-VTR, Sec. 5.4 and Fig. 5 (b)"),
    Parameter(
        "k",
        whole(1, 1_000_000),
        None,
        "batches in HSM; the default is a tenth of the gallery's size, at least 1",
        "HAT-VTR, App. C.1 and Fig. 7 (b)",
        of_gallery=0.1,  # the released code; the paper's K is 100 of 1,000
    ),
)
"""Parameters of the methods with a hubness suppression memory."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One adaptation method: what each file beside this one declares as `METHOD`.

    Attributes:
        name: in config.yaml, manifests and `adapt`; the name of the file.
        title: its name on pages, in tables, figures and messages, as its paper spells it; `name` is for programs.
        paper: where the method comes from.
        place: methods are listed by ascending place.
        run: takes the task of one scenario and the batches of queries, and yields float32 similarities B x N_G per
            batch, in the order of the batches. Imports torch inside, so that planning does not load it.
        minimizes: for the documentation, what the method minimizes.
        gives: for the documentation, what the similarities are.
        rates: AdamW's learning rates by direction (HAT-VTR, App. B.3); None for a method that does not learn but keeps
            or re-ranks similarities.
        by_default: whether an evaluation runs it where config.yaml lists no methods.
        needs_bank: whether it needs a bank of training queries.
        takes_gallery_bank: whether it may have a bank of gallery items, too; without one it takes the gallery itself.
        needs_one_vector: whether each video must have a vector of its own, which X-Pool's pooling for each text denies.
        needs_all_queries: whether a query's scores depend on later queries, so that the method yields only after the
            last batch (transductive). Results of such a method and of an online one are not comparable.
        is_baseline: the model as it is, which every evaluation runs and others are compared with; exactly one method.
        own: the parameters that are this method's alone; `parameters` has those of every method that learns, too.
    """

    name: str
    title: str
    paper: str
    place: int
    run: Callable[[Task, Batches], BatchScores]
    minimizes: str
    gives: str
    rates: Mapping[str, float] | None = None
    by_default: bool = True
    needs_bank: bool = False
    takes_gallery_bank: bool = False
    needs_one_vector: bool = False
    needs_all_queries: bool = False
    is_baseline: bool = False
    own: tuple[Parameter, ...] = ()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every parameter of the method: `own`, after those of all methods that learn."""
        return (*_LEARNING, *self.own) if self.adapts else self.own

    @property
    def adapts(self) -> bool:
        """Whether weights change; otherwise the method keeps or re-ranks similarities."""
        return self.rates is not None


@plugins.cached
def methods() -> dict[str, Method]:
    """Every method by its name, in the order of tables."""
    known = plugins.load_all(_GROUP, _OWN, "METHOD", Method)
    return {entry.name: entry for entry in sorted(known.values(), key=lambda entry: (entry.place, entry.name))}


def method(name: str) -> Method:
    """The method called `name`; raises `ConfigError` with the known and the nearest names when there is none."""
    known = methods()
    if name not in known:
        allowed = ", ".join(known)
        raise ConfigError(f"method {short(name)} is unknown; allowed: {allowed}{did_you_mean(name, known)}")
    return known[name]


def code(name: str) -> str | None:
    """The SHA-256 of the file that declares a method from outside, which its results have; None of this package's."""
    return plugins.code_of(_GROUP, name, _OWN, "METHOD")


def parameter_mistakes(name: str, given: Mapping[str, object]) -> dict[str, str]:
    """What is wrong with the given values for the method `name`, by the parameter's name; empty where nothing is.

    Raises `ConfigError` for an unknown method.
    """
    known = {parameter.name: parameter for parameter in method(name).parameters}
    allowed = f"allowed: {', '.join(known)}" if known else "it takes none"
    wrong = {}
    for given_name, value in given.items():
        if given_name not in known:
            wrong[str(given_name)] = (
                f"parameter {short(given_name)} is unknown; {allowed}{did_you_mean(str(given_name), known)}"
            )
        elif problem := problem_of(known[given_name].bound, value):
            wrong[given_name] = f"{given_name} {problem}"
    return wrong


def validated(name: str, given: Mapping[str, object]) -> dict[str, MethodValue]:
    """The given values of the method `name` in their types, sorted by name, without those that are the defaults.

    Settings that mean the same are thus the same. Raises `ConfigError` with every mistake.
    """
    if wrong := parameter_mistakes(name, given):
        raise ConfigError(f"{name}: {'; '.join(wrong.values())}")
    values = {}
    for parameter in sorted(method(name).parameters, key=lambda parameter: parameter.name):
        if parameter.name in given:
            value = given[parameter.name]
            assert isinstance(value, MethodValue)
            is_float = isinstance(parameter.bound, Range) and not parameter.bound.whole
            values[parameter.name] = float(value) if is_float else value
            if values[parameter.name] == parameter.default:
                del values[parameter.name]
    return values


def effective(
    name: str, given: Mapping[str, MethodValue], direction: str, items: int | None = None
) -> dict[str, MethodValue | None]:
    """Every parameter of the method `name` in a direction; `given` comes from `validated`.

    `items` is the gallery's size; without it, what depends on it is None.
    """
    declared = method(name)
    values = {**{parameter.name: parameter.default for parameter in declared.parameters}, **given}
    if declared.rates is not None and values["lr"] is None:
        values["lr"] = declared.rates["v2t" if direction == "v2t" else "t2v"]
    for parameter in declared.parameters:
        if items is not None and parameter.of_gallery is not None and values[parameter.name] is None:
            values[parameter.name] = max(1, int(parameter.of_gallery * items))
    return values


def baseline() -> Method:
    """The model as it is, which every evaluation runs."""
    return next(entry for entry in methods().values() if entry.is_baseline)


def defaults() -> tuple[str, ...]:
    """Names of the methods that an evaluation runs where config.yaml lists none; the baseline is always run."""
    return tuple(name for name, entry in methods().items() if entry.by_default and not entry.is_baseline)


def title_of(name: str) -> str:
    """A method's title; for results of a method that is no longer listed, its name."""
    return methods()[name].title if name in methods() else name


def place_of(name: str) -> int:
    """A method's place in tables, from 0; results of a method that is no longer listed come last."""
    names = list(methods())
    return names.index(name) if name in names else len(names)
