"""The command that prints declarations: list."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from typing import TYPE_CHECKING

from perturbations.base import features
from perturbations.base.errors import ConfigError, UnknownPerturbationError, did_you_mean, short
from perturbations.cli.arguments import Commands, add_command, add_json

if TYPE_CHECKING:
    from perturbations.suites.registry import Perturbation

_UNLIMITED = 10_000


def _menus() -> dict[str, features.MenuLines]:
    """What `perturb list` prints beside perturbations: other menus, whose things config.yaml names."""
    return {name: described for feature in features.features().values() for name, described in feature.menus.items()}


def add(commands: Commands) -> None:
    """Declare the command of this file."""
    parser = add_command(commands, "list", _list, "list the perturbations, or print the parameters of one")
    other = ", ".join(("a suite", *_menus()))
    text = f"one perturbation, for its parameters, source and kernel; or {other}"
    parser.add_argument("name", nargs="?", metavar="SUITE/NAME", help=text)
    parser.add_argument("thing", nargs="?", metavar="NAME", help="one thing of a menu")
    if detailed := ", ".join(_cells()):
        text = f"{detailed}: the published numbers, and what shows them"
        parser.add_argument("--cells", action="store_true", help=text)
    add_json(parser)


def _cells() -> dict[str, features.MenuDetails]:
    """The menus whose things have published cells."""
    return {name: described for feature in features.features().values() for name, described in feature.cells.items()}


def _list(options: argparse.Namespace) -> int:
    from perturbations.suites import registry

    name, menus, suites = options.name, _menus(), registry.suites()
    if vars(options).get("cells"):
        if name not in _cells():
            raise ConfigError(f"--cells is of {', '.join(_cells())}: perturb list {next(iter(_cells()))} --cells")
        return _list_cells(_cells()[name](options.thing), as_json=options.json)
    if name in menus:
        described = [own for own in menus[name]() if options.thing in (None, own[1]["name"])]
        if not described:
            near = did_you_mean(options.thing, [str(facts["name"]) for _, facts in menus[name]()])
            raise ConfigError(f"no {short(options.thing)} among {name}{near}")
        return _list_menu(described, as_json=options.json)
    if options.thing is not None:
        name = f"{name}/{options.thing}"
    if name is not None and name not in suites:
        things = [own for of_menu in menus.values() for own in of_menu()] if "/" not in name else []
        if own := [described for described in things if described[1]["name"] == name]:
            return _list_menu(own, as_json=options.json)
        meant = did_you_mean(name, [*suites, *menus, *(str(facts["name"]) for _, facts in things)])
        if meant and "/" not in name:
            raise UnknownPerturbationError(f"nothing to list: {short(name)}{meant}")
        return _print_declaration(registry.get(name), as_json=options.json)
    entries = registry.perturbations(name)
    if options.json:
        print(json.dumps([_described(entry) for entry in entries], indent=2))
        return 0
    keys = max(len(entry.key) for entry in entries)
    categories = max(len(entry.category) for entry in entries)
    for entry in entries:
        severities = f"1-{len(entry.severities)}" if len(entry.severities) > 1 else "1"
        line = f"{entry.key:{keys}}  {entry.kind:5}  {entry.category:{categories}}  {severities:3}  {entry.summary}"
        print(_filled(line, len(line) - len(entry.summary)))
    return 0


def _list_menu(described: list[tuple[str, dict[str, object]]], *, as_json: bool) -> int:
    """Print the things of a menu, each as its line, or one with all its facts; or as JSON."""
    if as_json:
        print(json.dumps([facts for _, facts in described], indent=2))
        return 0
    if len(described) == 1:
        import yaml

        ((_, facts),) = described
        print(f"{facts['name']}: {facts['title']}")
        held = {key: value for key, value in facts.items() if key not in ("name", "title") and value not in ({}, [])}
        text = yaml.safe_dump(held, sort_keys=False, default_flow_style=None, width=_width() - 2)
        print(textwrap.indent(text, "  "), end="")
        return 0
    names = max(len(str(facts["name"])) for _, facts in described)
    titles = [str(facts["title"]) for _, facts in described]
    grouped = len(set(titles)) < len(titles)  # such as the protocols of a paper
    for place, (text, facts) in enumerate(described):
        title = titles[place]
        if grouped and title not in titles[:place]:
            print(title)
        line = f"{facts['name']:{names}}  {text if grouped else f'{title}: {text}'}"
        print(_filled(f"  {line}" if grouped else line, names + 2 + 2 * grouped))
    return 0


def _width() -> int:
    """The terminal's columns; without a terminal, as in `perturb list | grep fog`, a line is one line."""
    return max(shutil.get_terminal_size((_UNLIMITED, 24)).columns, 40)


def _filled(text: str, indent: int) -> str:
    """A line in lines as wide as the terminal, the further ones indented."""
    if len(text) <= (width := _width()):
        return text
    indent = min(indent, width // 2)
    return textwrap.fill(text, width, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False)


def _list_cells(described: list[tuple[str, dict[str, object]]], *, as_json: bool) -> int:
    """Print lines as wide as the terminal, or what they are of as JSON."""
    if as_json:
        print(json.dumps([facts for _, facts in described if facts], indent=2))
        return 0
    for text, _ in described:
        print(_filled(text, len(text) - len(text.lstrip()) + 4))
    return 0


def _print_declaration(entry: Perturbation, *, as_json: bool) -> int:
    """Print what one perturbation is, and its parameters at every severity."""
    from perturbations.models import registry as models
    from perturbations.video.kernel import name_of

    if as_json:
        variants = {form.variant: _form(form) for form in entry.forms()}
        print(json.dumps({**_described(entry), "source": entry.source, "variants": variants}, indent=2))
        return 0
    rows = [
        ("what", entry.summary),
        ("category", entry.category),
        ("kernel", f"{name_of(entry.kernel)} (version {entry.version})"),
        ("realization", _realization(entry)),
        ("source", entry.source),
    ]
    if entry.kind == "text":
        rows.append(("languages", entry.languages))
        rows.append(("gate", "draws again until the caption keeps its topic" if entry.gated else "none"))
        for backend in models.BACKENDS:
            rows.append((backend, models.names(entry.makers, backend)))
    if entry.not_comparable:
        rows.append(("offline", f"not comparable with published results: {entry.not_comparable}"))
    if entry.levels_of_paper:
        rows.append(("severity", entry.levels_of_paper))
    if not entry.monotonic:
        rows.append(("severity", "published table; distortion does not grow with every step"))
    print(entry.key)
    for name, text in rows:
        print(f"  {name:12} {text}")
    for form in entry.forms():
        if len(entry.forms()) > 1:
            print(f"  variant {form.variant}")
            for name, text in (
                ("kernel", f"{name_of(form.kernel)} (version {form.version})"),
                ("differs", form.differences),
            ):
                if text:
                    print(f"    {name:10} {text}")
        for severity in form.severities:
            numbers = ", ".join(f"{name} {value}" for name, value in form.parameters(severity).items())
            print(f"  {form.variant} {severity:<3} {numbers}")
    return 0


def _described(entry: Perturbation) -> dict[str, object]:
    """A perturbation's line of `perturb list`, as JSON."""
    return {
        "key": entry.key,
        "kind": entry.kind,
        "category": entry.category,
        "severities": list(entry.severities),
        "paper_severities": list(entry.paper_severities),
        "summary": entry.summary,
    }


def _form(form: Perturbation) -> dict[str, object]:
    """What a variant does, as JSON."""
    from perturbations.video.kernel import name_of

    return {
        "kernel": name_of(form.kernel),
        "version": form.version,
        "draw": form.draw,
        "differences": form.differences,
        "parameters": {str(severity): dict(form.parameters(severity)) for severity in form.severities},
    }


def _realization(entry: Perturbation) -> str:
    if entry.draw == "none":
        return "none: nothing is random"
    from perturbations.video.kernel import name_of

    drawn = "drawn by the kernel" if entry.realization is None else name_of(entry.realization)
    return f"{drawn}, one per {entry.draw}"
