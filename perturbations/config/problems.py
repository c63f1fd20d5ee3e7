"""What is wrong with a configuration, one line per mistake, each with its place, its key and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perturbations.base.errors import ConfigError, cut, short
from perturbations.config import advice
from perturbations.config.line_numbers import COMMAND_LINE, NOWHERE, Key, LineOfKey, LinesOfKeys
from perturbations.datasets import registry as datasets
from perturbations.datasets.registry import Dataset
from perturbations.guides import registry as guides
from perturbations.manifest import layout
from perturbations.suites import registry
from perturbations.suites.strengths import ParameterValue

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from perturbations.config.sections import Config, SuiteSection

MOST_PROBLEMS = 100


@dataclass(frozen=True)
class Problem:
    """A mistake: the path of its key from the top of the configuration, and what is wrong there."""

    key: Key
    text: str
    inner: Key = ()  # the rest of the path, of a member of the key's value that is wrong: where the line is looked for

    def __str__(self) -> str:
        return f"{'.'.join(cut(part, 80) for part in self.key) or '(top level)'}: {self.text}"


def problem(key: str, text: str) -> Problem:
    """A mistake at a key without unusual names in its path: `suites.mlvp.draw`."""
    return Problem(tuple(key.split(".")), text)


def raise_all(problems: Iterable[Problem], what: str = "", places: LinesOfKeys = NOWHERE) -> None:
    """Raise `ConfigError` with one line per problem, each once, in the order of the files' lines; nothing without any.

    What is written nowhere, as a missing key at the top, comes first.
    """
    placed = [(places.of(problem.key + problem.inner), problem) for problem in problems]
    placed.sort(key=lambda pair: pair[0] or LineOfKey(-1, 0, ""))
    lines = list(dict.fromkeys(f"{place}: {problem}" if place else str(problem) for place, problem in placed))
    if len(lines) > MOST_PROBLEMS:
        lines[MOST_PROBLEMS:] = [f"and {len(lines) - MOST_PROBLEMS} more"]
    if lines:
        raise ConfigError(
            f"{what or f'{places.title} is not valid'}:\n" + "\n".join(f"  {line}" for line in lines)
        ) from None


def unknown(value: str, known: Iterable[str], what: str = "unknown") -> str:
    """The message about a name that is not among the known ones, with the nearest of them."""
    names = list(known)
    hint = "; `all` stands without brackets" if value == "all" else advice.did_you_mean(value, names)
    return f"{what} {short(value)}; known: {', '.join(names) or 'none'}{hint}"


def of_datasets(config: Config) -> list[Problem]:
    """Names that are taken, and paths that an adapter needs or does not take."""
    problems = []
    for name, dataset in config.datasets.items():
        if name in layout.reserved():
            text = "the name is taken by a folder of the workflow; choose another"
            problems.append(Problem(("datasets", name), text))
        adapter = datasets.get(dataset.adapter)
        for key in adapter.needs:
            if getattr(dataset, key) is None:
                problems.append(Problem(("datasets", name, key), f"the adapter '{dataset.adapter}' needs it"))
        for key in _OF_SOME_ADAPTERS:
            given = key in dataset.model_fields_set and getattr(dataset, key) is not None
            if given and key not in adapter.takes:
                having = ", ".join(other.name for other in datasets.adapters().values() if key in other.takes)
                problems.append(Problem(("datasets", name, key), f"for the adapters {having}, not '{dataset.adapter}'"))
    return problems


_OF_SOME_ADAPTERS = ("ids", "columns", "captions", "clips")
"""Keys that only the adapters read which take them."""


def of_suites(suites: Mapping[str, SuiteSection]) -> list[Problem]:
    """Suites, perturbations, severities and parameters that there are not, and numbers out of their bounds."""
    problems: list[Problem] = []
    for name, wanted in suites.items():
        key = ("suites", name)
        if name not in registry.suites():
            known = list(registry.suites())
            text = f"unknown suite; known: {', '.join(known)}{advice.did_you_mean(name, known)}"
            problems.append(Problem(key, text))
            continue
        suite = registry.suite(name)
        if wanted.draw is not None and not suite.draws_by_choice:
            choosing = ", ".join(name for name, other in registry.suites().items() if other.draws_by_choice)
            problems.append(Problem((*key, "draw"), f"the paper says what is drawn; a choice for: {choosing}"))
        variant = wanted.variant or suite.variants[0]
        if variant not in suite.variants:
            allowed = " or ".join(f"'{name}'" for name in suite.variants)
            text = f"must be {allowed}, not {short(wanted.variant)}{advice.did_you_mean(variant, suite.variants)}"
            problems.append(Problem((*key, "variant"), text))
            continue
        problems += _of_suite(key, wanted, [entry.in_variant(variant) for entry in suite.perturbations], variant)
    return problems


def _of_suite(key: Key, wanted: SuiteSection, entries: Sequence[registry.Perturbation], variant: str) -> list[Problem]:
    known = {entry.name: entry for entry in entries if entry.kind == "video"}
    problems = _unknown_names((*key, "perturbations"), wanted.perturbations, known)
    names = known if wanted.perturbations == "all" else wanted.perturbations
    resized = [name for name in names if name in known and known[name].shape is not None]
    if wanted.severity == "calibrated" and resized:
        text = (
            "`calibrated` compares frames with clean ones, and those of "
            f"{', '.join(resized)} ({variant}) have another size: list `perturbations` without, or "
            "take another variant"
        )
        problems.append(Problem((*key, "severity"), text))
    problems += _of_parameters((*key, "parameters"), wanted.parameters, known, wanted.perturbations)
    texts = {entry.name: entry for entry in entries if entry.kind == "text"}
    captions, key = wanted.captions, (*key, "captions")
    problems += _unknown_names((*key, "perturbations"), captions.perturbations, texts)
    return problems + _of_parameters((*key, "parameters"), captions.parameters, texts, captions.perturbations)


def _unknown_names(key: Key, wanted: str | Sequence[str], known: Iterable[str]) -> list[Problem]:
    names = [] if isinstance(wanted, str) else list(wanted)
    known = list(known)
    return [Problem(key, unknown(name, known), (str(index),)) for index, name in enumerate(names) if name not in known]


def _of_parameters(
    key: Key,
    replaced: Mapping[str, Mapping[int, Mapping[str, ParameterValue]]],
    known: Mapping[str, registry.Perturbation],
    selected: str | Sequence[str],
) -> list[Problem]:
    problems = []
    for name, by_severity in replaced.items():
        own = (*key, name)
        if name not in known:
            problems.append(Problem(key, unknown(name, known), (name,)))
            continue
        if selected != "all" and name not in selected and known.keys() >= set(selected):
            text = f"not made: `perturbations` lists {cut(', '.join(selected)) or 'nothing'}; add it, or leave this out"
            problems.append(Problem(own, text))
        for severity, values in by_severity.items():
            if severity not in known[name].severities:
                has = list(known[name].severities)
                problems.append(Problem(own, f"no severity {severity}; it has {has}", (str(severity),)))
                continue
            complete = {**known[name].parameters(severity), **values}
            for line in registry.parameter_problems(known[name], complete):
                parameter, _, text = line.partition(": ")
                known_parameter = parameter in known[name].bounds
                hint = "" if known_parameter else advice.did_you_mean(parameter, known[name].bounds)
                if known_parameter and isinstance(text_value := values.get(parameter), str):
                    hint = advice.number_of(text_value)
                problems.append(Problem((*own, str(severity), parameter), text + hint))
    return problems


def is_known(suite: str, config: Config) -> bool:
    """Whether a suite is configured, and there."""
    return suite in config.suites and suite in registry.suites()


def not_configured(
    section: str, suites: Mapping[str, Sequence[str] | None], configured: Iterable[str]
) -> list[Problem]:
    """The names that a section's keys list and that are not among the configured suites."""
    known = list(configured)
    return [
        Problem((section, key), not_among(name, "suites", known), (str(index),))
        for key, names in suites.items()
        for index, name in enumerate(names or ())
        if name not in known
    ]


def not_among(name: str, what: str, known: Iterable[str]) -> str:
    """That a name is not among the known ones, and which of them may have been meant."""
    names = list(known)
    return f"{short(name)} is not among `{what}`: {', '.join(names)}{advice.did_you_mean(name, names)}"


def of_storage(config: Config) -> list[Problem]:
    """A number of frames for a tier that stores whole clips, or none."""
    wanted = config.storage
    if wanted.tier != "frames" and "num_frames" in wanted.model_fields_set:
        return [problem("storage.num_frames", f"for the tier 'frames', not '{wanted.tier}'")]
    return []


def of_backends(config: Config) -> list[Problem]:
    """Datasets of donors that there are not, and what a guide says that its backends lack."""
    problems = []
    for name, dataset in config.datasets.items():
        if dataset.donors is not None and dataset.donors not in config.datasets:
            text = unknown(dataset.donors, config.datasets, "unknown dataset")
            problems.append(Problem(("datasets", name, "donors"), text))
    for suite, wanted in config.suites.items():
        if suite not in registry.suites() or wanted.variant not in registry.suite(suite).variants:
            continue
        entries = (entry.in_variant(wanted.variant) for entry in registry.perturbations(suite, "video"))
        chosen = wanted.perturbations
        named = (entry.guide for entry in entries if chosen == "all" or entry.name in chosen)
        for kind in filter(None, dict.fromkeys(named)):
            lines = guides.get(kind).problems(config.backends.guide_settings(variant=wanted.variant))
            problems += [problem(key, text) for key, _, text in (line.partition(": ") for line in lines)]
    return problems


_ROLES_BY_BACKEND = {role.name for role in guides.roles() if len(role.backends) > 1}


_SETTINGS = {adapter.settings.__name__ for adapter in datasets.adapters().values()} | {Dataset.__name__}


_TEXTS_ONLY = "; within braces, --config gives texts: write it into a file, and name that with --configfile"


def of_types(error: ValidationError, schema: Callable[[], Mapping[str, Any]], places: LinesOfKeys) -> list[Problem]:
    """What pydantic finds wrong, one problem per key; `schema` is that of the configuration."""
    # A list whose items are wrong is also reported as too short.
    errors = [item for item in error.errors(include_url=False) if item["type"] != "too_short" or not item["input"]]
    known: Mapping[str, Any] = schema() if any(item["type"] == "extra_forbidden" for item in errors) else {}
    texts: dict[Key, list[str]] = {}
    hints: dict[Key, str] = {}
    explained: set[Key] = set()
    for item in errors:
        key = _key_of(item)
        texts.setdefault(key, []).append(_explained(item))
        source = getattr(places.of(key), "source", None)
        if len(key) > 1 and isinstance(item["input"], str) and source == COMMAND_LINE:
            hints[key] = _TEXTS_ONLY
        hints[key] = hints.get(key) or _hint(item, known, first=key[:-1] not in explained)
        if item["type"] == "extra_forbidden":
            explained.add(key[:-1])  # the known keys are listed once per object
    return [Problem(key, _joined(list(dict.fromkeys(lines))) + hints.get(key, "")) for key, lines in texts.items()]


def _joined(lines: list[str]) -> str:
    """The messages of a union's alternatives as one, in which the value is said once."""
    heads, tails = zip(*(line.rpartition(", not ")[::2] for line in lines), strict=True)
    if len(lines) == 1 or len(set(tails)) > 1 or not all(heads):
        return "; ".join(lines)
    return f"{', or '.join(heads)}, not {tails[0]}"


def _key_of(item: ErrorDetails) -> Key:
    """The key of a pydantic error, as the file has it."""
    # pydantic puts the discriminator's value and the literal's alternatives into the path; the file has no such keys
    location = list(item["loc"])
    unknown_tag = item["type"].startswith("union_tag")
    if location[:1] == ["datasets"] and len(location) > 2 and location[2] in _SETTINGS:
        del location[2]
    if location[:1] == ["backends"] and len(location) > 1 and location[1] in _ROLES_BY_BACKEND:
        location[2:3] = ["backend"] if unknown_tag else []
    return tuple(str(part) for part in location if part != "[key]" and not str(part).startswith(("tuple[", "literal[")))


_DEVICES = ("cpu", "cuda", "mps")


def _explained(item: ErrorDetails) -> str:
    """What a pydantic error means, in words."""
    kind = item["type"]
    if kind == "extra_forbidden":
        return "unknown key"
    if kind in ("missing", "union_tag_not_found"):
        return "is missing"
    if kind == "union_tag_invalid":
        return f"Input should be {item['ctx']['expected_tags']}, not {short(item['ctx']['tag'])}"
    if kind == "value_error":
        return str(item["ctx"]["error"])
    if kind == "too_short":
        return f"Input should have at least {item['ctx']['min_length']} member, not {short(item['input'])}"
    expected = f"Input should be {_IN_YAML[kind]}" if kind in _IN_YAML else cut(item["msg"])
    return f"{expected}, not {short(item['input'])}"


_IN_YAML = {
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "a mapping of keys to values"),
    "tuple_type": "a list",
    "path_type": "a path, which is a text",
}
"""What pydantic names by its Python types."""

_SHAPES = {
    f"^{layout.NAME}$": "a name has lower-case letters, digits and `_`, a letter first",
    r"^[0-9a-f]{64}$": "a SHA-256 has 64 digits from 0 to f",
}
"""What a pattern says, in words."""


def _hint(item: ErrorDetails, schema: Mapping[str, Any], *, first: bool) -> str:
    """What is allowed in place of what is wrong, and which of it may have been meant; `first`: of its object."""
    kind, value = item["type"], item["input"]
    if kind == "extra_forbidden":
        keys = advice.known_keys(schema, item["loc"][:-1])
        listed = advice.listed(keys) if first else ""
        return listed + advice.did_you_mean(str(item["loc"][-1]), keys)
    if kind == "union_tag_invalid":
        return advice.did_you_mean(item["ctx"]["tag"], advice.quoted(item["ctx"]["expected_tags"]))
    if kind == "literal_error":
        return advice.did_you_mean(value, advice.quoted(item["ctx"]["expected"]))
    if kind == "string_pattern_mismatch" and item["loc"][-1] == "device":
        return f"; allowed: {', '.join(_DEVICES)}, cuda:1{advice.did_you_mean(value, _DEVICES)}"
    if kind == "string_pattern_mismatch" and (shape := _SHAPES.get(item["ctx"]["pattern"])):
        return f"; {shape}"
    if kind == "tuple_type" and isinstance(value, str | int):
        return advice.as_list(value)
    if kind in ("int_type", "string_type") and (hint := advice.as_type(kind, value)):
        return hint
    last = item["loc"][-1] if item["loc"] else "[key]"
    if value is None and isinstance(last, str) and last != "[key]":
        return "; the key has no value"
    if isinstance(value, bool) and kind in ("string_type", "literal_error"):
        return "; YAML reads yes, no, on and off as true and false: a text of these letters has quotes"
    if kind == "value_error":
        return advice.did_you_mean(value, set(advice.quoted(str(item["ctx"]["error"]))) - {str(value)})
    return ""
