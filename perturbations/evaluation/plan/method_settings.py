"""The methods of an evaluation. A method with parameters is a setting; a run may have several settings of a method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema
from pydantic.config import JsonDict

from perturbations.base.errors import ConfigError, short
from perturbations.base.records import canonical
from perturbations.base.settings import Strict
from perturbations.config.problems import Problem
from perturbations.tta.methods import method_registry

NEED_BANK = [name for name, method in method_registry.methods().items() if method.needs_bank]
TAKE_GALLERY_BANK = [name for name, method in method_registry.methods().items() if method.takes_gallery_bank]

AS_IT_IS = method_registry.baseline().name
"""The model without adaptation."""


def registered(look_up: Callable[[str], object]) -> AfterValidator:
    """Accepts a name that a registry's look-up function knows; otherwise pydantic shows the function's message."""

    def known(name: str) -> str:
        try:
            look_up(name)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return name

    return AfterValidator(known)


MethodName = Annotated[
    str,
    registered(method_registry.method),
    WithJsonSchema({"type": "string", "enum": list(method_registry.methods())}),
]


class MethodEntry(Strict):
    """A method with parameters of its own; several entries may have the same method."""

    name: MethodName = Field(description="the method")
    label: str | None = Field(
        None, min_length=1, max_length=64, description="its name in tables; the default is the method's title"
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="parameter -> value; the others are as in `evaluation.parameters`"
    )


def _form_of(value: Any) -> str:
    return _NAME if isinstance(value, str) else _ENTRY


_NAME, _ENTRY = "tuple[name]", "tuple[entry]"
"""Tags that messages leave out, like pydantic's own tags of tuples."""

NamedMethod = Annotated[
    Annotated[MethodName, Tag(_NAME)] | Annotated[MethodEntry, Tag(_ENTRY)], Discriminator(_form_of)
]


def with_parameters(schema: JsonDict) -> None:
    """Let the JSON schema list the parameters of each method."""
    of_methods: dict[str, Any] = {
        name: {
            "type": "object",
            "additionalProperties": False,
            "properties": {parameter.name: parameter.schema for parameter in method.parameters},
        }
        for name, method in method_registry.methods().items()
        if method.parameters
    }
    for key in ("propertyNames", "additionalProperties"):
        schema.pop(key, None)
    schema.update({"properties": of_methods, "additionalProperties": False})


def settings(
    listed: Sequence[str | MethodEntry], parameters: Mapping[str, Mapping[str, Any]]
) -> tuple[MethodEntry, ...]:
    """The listed methods with their labels, and with parameters that differ from the published values.

    The model without adaptation comes first. `parameters` are defaults, by method. Raises `ConfigError` for values that
    a method does not take.
    """
    entries = [MethodEntry(name=entry) if isinstance(entry, str) else entry for entry in listed]
    if all(entry.name != AS_IT_IS for entry in entries):
        entries.insert(0, MethodEntry(name=AS_IT_IS))
    complete = []
    for entry in entries:
        own = method_registry.validated(entry.name, {**parameters.get(entry.name, {}), **entry.parameters})
        label = entry.label or method_registry.title_of(entry.name)
        complete.append(entry.model_copy(update={"label": label, "parameters": own}))
    return tuple(complete)


def parameters_of(name: str, given: Mapping[str, method_registry.MethodValue], direction: str) -> str:
    """The canonical JSON of every parameter of a method in a direction; `given` replaces some of them."""
    return canonical(method_registry.effective(name, given, direction))


def problems(
    key: tuple[str, ...],
    listed: Sequence[str | MethodEntry],
    parameters: Mapping[str, Mapping[str, Any]],
    directions: Sequence[str],
) -> Iterator[Problem]:
    """What is wrong with the list of methods at `key`: values, and settings that cannot be told apart."""
    wrong = [
        ((*key, str(place), "parameters", name), text)
        for place, entry in enumerate(listed)
        if isinstance(entry, MethodEntry)
        for name, text in method_registry.parameter_mistakes(entry.name, entry.parameters).items()
    ]
    yield from wrong
    if wrong or any(method_registry.parameter_mistakes(name, values) for name, values in parameters.items()):
        return
    runs: set[tuple[str, ...]] = set()
    labels: set[str | None] = set()
    for own in settings(listed, parameters):
        same = {(own.name, direction, parameters_of(own.name, own.parameters, direction)) for direction in directions}
        if same & runs:
            yield key, f"lists a value twice: {short(own.name)} with the same parameters"
        elif own.label in labels:
            yield key, f"two settings are called {short(own.label)}: give each a `label` of its own"
        runs |= same
        labels.add(own.label)
