"""Parameters of methods: declared as data, checked before a run. Standard library only: planning reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perturbations.base.bounds import Choice, Range, problem_of
from perturbations.base.errors import ConfigError, did_you_mean, short

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
    """

    name: str
    bound: Range | Choice
    default: MethodValue | None
    about: str
    source: str

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


def mistakes(declared: Iterable[Parameter], given: Mapping[str, object]) -> dict[str, str]:
    """What is wrong with the given values, by the parameter's name; empty where nothing is."""
    known = {parameter.name: parameter for parameter in declared}
    wrong = {}
    for name, value in given.items():
        if name not in known:
            allowed = f"allowed: {', '.join(known)}{did_you_mean(str(name), known)}" if known else "it takes none"
            wrong[str(name)] = f"parameter {short(name)} is unknown; {allowed}"
        elif problem := problem_of(known[name].bound, value):
            wrong[name] = f"{name} {problem}"
    return wrong


def checked(declared: Iterable[Parameter], given: Mapping[str, object], method: str) -> dict[str, MethodValue]:
    """The given values in their types, sorted by name, less those that are the defaults.

    Settings that mean the same are thus the same. Raises `ConfigError` with every mistake.
    """
    known = {parameter.name: parameter for parameter in declared}
    if wrong := mistakes(known.values(), given):
        raise ConfigError(f"{method}: {'; '.join(wrong.values())}")
    typed = {name: _typed(known[name].bound, given[name]) for name in sorted(given)}
    return {name: value for name, value in typed.items() if value != known[name].default}


def _typed(bound: Range | Choice, value: object) -> MethodValue:
    assert isinstance(value, MethodValue)
    return float(value) if isinstance(bound, Range) and not bound.whole else value
