"""List the perturbations, or print the parameters of one."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from perturbations.base.errors import ConfigError, UnknownPerturbationError, did_you_mean, short
from perturbations.cli.arguments import Parser, add_json

if TYPE_CHECKING:
    from perturbations.suites.suite_registry import Perturbation

_Entry = tuple[str, dict[str, object]]
"""The line of a thing in its menu, and what is known of it, as JSON has it."""


def _methods() -> list[_Entry]:
    """The line of each adaptation method, and the same as JSON."""
    from perturbations.tta.methods import method_registry

    return [
        (
            f"{entry.paper}; minimizes {entry.minimizes}",
            {
                **{name: getattr(entry, name) for name in ("name", "title", "paper", "minimizes", "gives")},
                "rates": entry.rates,
                "needs_bank": entry.needs_bank,
                "needs_all_queries": entry.needs_all_queries,
            },
        )
        for entry in method_registry.methods().values()
    ]


def _backbones() -> list[_Entry]:
    """The line of each architecture of dual encoders, and the same as JSON."""
    from perturbations.evaluation import backbones

    return [(f"{entry.source}; for example {entry.example}", asdict(entry)) for entry in backbones.backbones().values()]


def _protocols() -> list[_Entry]:
    """The line of each published protocol, with the keys that the user must set, and the same as JSON."""
    from perturbations.evaluation.published import protocols

    return [
        (
            f"{entry.summary}; needs {', '.join(entry.needs) or 'nothing'}",
            {**asdict(entry), "title": protocols.papers()[entry.paper]["title"]},
        )
        for entry in protocols.protocols().values()
    ]


_MENUS = {"methods": _methods, "backbones": _backbones, "protocols": _protocols}

_WITH_CELLS = "protocols"
"""The menu whose entries have published cells."""


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    other = ", ".join(("a suite", *_MENUS))
    text = f"one perturbation, for its parameters, source and kernel; or {other}"
    parser.add_argument("name", nargs="?", metavar="SUITE/NAME", help=text)
    parser.add_argument("thing", nargs="?", metavar="NAME", help="one method, backbone or protocol")
    text = f"{_WITH_CELLS}: the published numbers, and what shows them"
    parser.add_argument("--cells", action="store_true", help=text)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    lines, facts = _wanted(options.name, options.thing, cells=options.cells)
    if options.json:
        print(json.dumps(facts, indent=2))
        return 0
    # Without a terminal, as in `perturb list | grep fog`, a line is one line.
    width = max(shutil.get_terminal_size((10_000, 24)).columns, 40)
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        print(textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False))
    return 0


def _wanted(name: str | None, thing: str | None, *, cells: bool) -> tuple[Iterable[str], Any]:
    """What is listed: lines, and the same for JSON. Raises `ConfigError` and `UnknownPerturbationError`."""
    from perturbations.suites import suite_registry

    suites = suite_registry.suites()
    if cells:
        if name != _WITH_CELLS:
            raise ConfigError(f"--cells is of {_WITH_CELLS}: perturb list {_WITH_CELLS} --cells")
        from perturbations.evaluation.published.cell_status import cell_lines  # loads pandas

        described = cell_lines(thing)
        return [text for text, _ in described], [facts for _, facts in described if facts]
    if name in _MENUS:
        described = [own for own in _MENUS[name]() if thing in (None, own[1]["name"])]
        if not described:
            near = did_you_mean(str(thing), [str(facts["name"]) for _, facts in _MENUS[name]()])
            raise ConfigError(f"no {short(thing)} among {name}{near}")
        return _menu_lines(described), [facts for _, facts in described]
    if thing is not None:
        name = f"{name}/{thing}"
    if name is None or name in suites:
        entries = suite_registry.perturbations(name)
        return _suite_lines(entries), [_line_facts(entry) for entry in entries]
    if "/" not in name:
        entries_of_menus = [own for of_menu in _MENUS.values() for own in of_menu()]
        if own := [described for described in entries_of_menus if described[1]["name"] == name]:
            return _menu_lines(own), [facts for _, facts in own]
        if meant := did_you_mean(name, [*suites, *_MENUS, *(str(facts["name"]) for _, facts in entries_of_menus)]):
            raise UnknownPerturbationError(f"nothing to list: {short(name)}{meant}")
    entry = suite_registry.get(name)
    facts = _facts(entry)
    return _fact_lines(entry.key, facts), facts


def _menu_lines(described: Sequence[_Entry]) -> Iterator[str]:
    """The things of a menu, each as its line, or one with all its facts."""
    if len(described) == 1:
        ((_, facts),) = described
        yield from _fact_lines(f"{facts['name']}: {facts['title']}", facts)
        return
    names = max(len(str(facts["name"])) for _, facts in described)
    titles = [str(facts["title"]) for _, facts in described]
    grouped = len(set(titles)) < len(titles)  # such as the protocols of a paper
    for place, (text, facts) in enumerate(described):
        title = titles[place]
        if grouped and title not in titles[:place]:
            yield title
        line = f"{facts['name']:{names}}  {text if grouped else f'{title}: {text}'}"
        yield f"  {line}" if grouped else line


def _fact_lines(head: str, facts: Mapping[str, object]) -> Iterator[str]:
    """All facts of one thing, as YAML below a line."""
    import yaml

    yield head
    held = {name: fact for name, fact in facts.items() if name not in ("key", "name", "title") and fact not in ({}, [])}
    text = yaml.safe_dump(held, sort_keys=False, default_flow_style=None, width=10_000, allow_unicode=True)
    yield from (f"  {line}" for line in text.splitlines())


def _suite_lines(entries: Sequence[Perturbation]) -> Iterator[str]:
    keys = max(len(entry.key) for entry in entries)
    categories = max(len(entry.category) for entry in entries)
    for entry in entries:
        severities = f"1-{len(entry.severities)}" if len(entry.severities) > 1 else "1"
        yield f"{entry.key:{keys}}  {entry.kind:5}  {entry.category:{categories}}  {severities:3}  {entry.summary}"


def _line_facts(entry: Perturbation) -> dict[str, object]:
    """A perturbation's line of `perturb list`, as JSON."""
    return {
        "key": entry.key,
        "kind": entry.kind,
        "category": entry.category,
        "severities": list(entry.severities),
        "paper_severities": list(entry.paper_severities),
        "summary": entry.summary,
    }


def _facts(entry: Perturbation) -> dict[str, object]:
    """What a perturbation is, its parameters at every severity, and what these may be."""
    from perturbations.base.kernel import name_of
    from perturbations.models import role_registry as models

    drawn = "drawn by the kernel" if entry.realization is None else name_of(entry.realization)
    facts: dict[str, object] = {
        **_line_facts(entry),
        "source": entry.source,
        "realization": "none: nothing is random" if entry.draw == "none" else f"{drawn}, one per {entry.draw}",
    }
    if entry.kind == "text":
        facts["languages"] = entry.languages
        facts["gate"] = "draws again until the caption keeps its topic" if entry.gated else "none"
        facts["models"] = {backend: models.names(entry.makers, backend) for backend in models.BACKENDS}
    if entry.not_comparable:
        facts["offline"] = f"not comparable with published results: {entry.not_comparable}"
    if not entry.monotonic:
        facts["distortion"] = "does not grow with every severity"
    facts["bounds"] = {name: str(bound) for name, bound in entry.bounds.items()}
    facts["variants"] = {
        form.variant: {
            "kernel": name_of(form.kernel),
            "version": form.version,
            "draw": form.draw,
            **({"differences": form.differences} if form.differences else {}),
            "parameters": {severity: dict(form.parameters(severity)) for severity in form.severities},
        }
        for form in entry.forms()
    }
    return facts
