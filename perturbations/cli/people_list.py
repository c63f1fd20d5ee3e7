"""The command that prints declarations: list."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from perturbations.base import wings
from perturbations.base.errors import UnknownPerturbationError, did_you_mean, short
from perturbations.cli.arguments import Commands, add_command, add_json

if TYPE_CHECKING:
    from perturbations.suites.registry import Perturbation


def _shelves() -> dict[str, wings.ShelfLines]:
    """What `perturb list` prints beside perturbations: other shelves, whose things config.yaml names."""
    return {name: described for wing in wings.wings().values() for name, described in wing.shelves.items()}


def add(commands: Commands) -> None:
    """Declare the command of this file."""
    parser = add_command(commands, "list", _list, "list the perturbations, or print the parameters of one")
    other = ", ".join(("a suite", *_shelves()))
    text = f"one perturbation, for its parameters, source and kernel; or {other}"
    parser.add_argument("name", nargs="?", metavar="SUITE/NAME", help=text)
    add_json(parser)


def _list(options: argparse.Namespace) -> int:
    from perturbations.suites import registry

    name, shelves, suites = options.name, _shelves(), registry.suites()
    if name in shelves:
        return _list_shelf(shelves[name](), as_json=options.json)
    if name is not None and name not in suites:
        meant = did_you_mean(name, [*suites, *shelves])
        if meant and "/" not in name:
            raise UnknownPerturbationError(f"nothing to list: {short(name)}{meant}")
        return _print_declaration(registry.get(name), as_json=options.json)
    entries = registry.perturbations(name)
    if options.json:
        print(json.dumps([_described(entry) for entry in entries], indent=2))
        return 0
    keys = max(len(entry.key) for entry in entries)
    levels = max(len(entry.level) for entry in entries)
    for entry in entries:
        severities = f"1-{len(entry.severities)}" if len(entry.severities) > 1 else "1"
        print(f"{entry.key:{keys}}  {entry.kind:5}  {entry.level:{levels}}  {severities:3}  {entry.summary}")
    return 0


def _list_shelf(described: list[tuple[str, dict[str, object]]], *, as_json: bool) -> int:
    """Print the things of a shelf, each as its line and as JSON."""
    if as_json:
        print(json.dumps([facts for _, facts in described], indent=2))
        return 0
    names, titles = (max(len(str(facts[key])) for _, facts in described) for key in ("name", "title"))
    for text, facts in described:
        print(f"{facts['name']:{names}}  {facts['title']:{titles}}  {text}")
    return 0


def _print_declaration(entry: Perturbation, *, as_json: bool) -> int:
    """Print what one perturbation is, and its parameters at every severity."""
    from perturbations.models import registry as models

    if as_json:
        variants = {form.variant: _form(form) for form in entry.forms()}
        print(json.dumps({**_described(entry), "source": entry.source, "variants": variants}, indent=2))
        return 0
    rows = [
        ("what", entry.summary),
        ("category", entry.level),
        ("kernel", f"{entry.kernel} (version {entry.version})"),
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
            for name, text in (("kernel", f"{form.kernel} (version {form.version})"), ("differs", form.differences)):
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
        "category": entry.level,
        "severities": list(entry.severities),
        "paper_severities": list(entry.paper_severities),
        "summary": entry.summary,
    }


def _form(form: Perturbation) -> dict[str, object]:
    """What a variant does, as JSON."""
    return {
        "kernel": form.kernel,
        "version": form.version,
        "draw": form.draw,
        "differences": form.differences,
        "parameters": {str(severity): dict(form.parameters(severity)) for severity in form.severities},
    }


def _realization(entry: Perturbation) -> str:
    if entry.draw == "none":
        return "none: nothing is random"
    return f"{entry.realization or 'drawn by the kernel'}, one per {entry.draw}"
