"""The commands that print declarations: list, show, schema."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from perturbations.cli.arguments import Commands, add_command, add_json
from perturbations.errors import UnknownPerturbationError, did_you_mean, short

if TYPE_CHECKING:
    from perturbations.suites.registry import Perturbation

_SHELVES = ("methods", "backbones", "protocols")
"""What `perturb list` prints beside perturbations: other shelves that config.yaml names things of."""


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(
        commands,
        "list",
        _list,
        "list the perturbations, the methods, the backbones or the published protocols, one per line",
    )
    parser.add_argument("suite", nargs="?", help=f"only this suite; or {', '.join(_SHELVES)}, of evaluations")
    add_json(parser)

    parser = add_command(commands, "show", _show, "show one perturbation: its parameters, its source, its kernel")
    parser.add_argument("perturbation", metavar="SUITE/NAME")
    add_json(parser)

    add_command(commands, "schema", _schema, "print the JSON schema of config.yaml")


def _list(options: argparse.Namespace) -> int:
    from perturbations.suites import registry

    known = [*registry.suites(), *_SHELVES]
    if options.suite is not None and options.suite not in known:
        meant = did_you_mean(options.suite, known)
        raise UnknownPerturbationError(f"nothing to list: {short(options.suite)}; known: {', '.join(known)}{meant}")
    if options.suite in _SHELVES:
        return _list_shelf(options.suite, as_json=options.json)
    entries = registry.perturbations(options.suite)
    if options.json:
        print(json.dumps([_described(entry) for entry in entries], indent=2))
        return 0
    keys = max(len(entry.key) for entry in entries)
    levels = max(len(entry.level) for entry in entries)
    for entry in entries:
        severities = f"1-{len(entry.severities)}" if len(entry.severities) > 1 else "1"
        print(f"{entry.key:{keys}}  {entry.kind:5}  {entry.level:{levels}}  {severities:3}  {entry.summary}")
    return 0


def _list_shelf(name: str, *, as_json: bool) -> int:
    """Print a shelf of evaluations."""
    described = {"methods": _methods, "backbones": _backbones, "protocols": _protocols}[name]()
    if as_json:
        print(json.dumps([facts for _, facts in described], indent=2))
        return 0
    names, titles = (max(len(str(facts[key])) for _, facts in described) for key in ("name", "title"))
    for text, facts in described:
        print(f"{facts['name']:{names}}  {facts['title']:{titles}}  {text}")
    return 0


def _methods() -> list[tuple[str, dict[str, object]]]:
    """The line of each adaptation method, and the same as JSON."""
    from perturbations.tta.methods import registry

    return [
        (
            f"{entry.paper}; minimizes {entry.minimizes}",
            {
                "name": entry.name,
                "title": entry.title,
                "paper": entry.paper,
                "minimizes": entry.minimizes,
                "gives": entry.gives,
                "rates": None if entry.rates is None else entry.rates._asdict(),
                "needs_bank": entry.needs_bank,
                "needs_all_queries": entry.needs_all_queries,
            },
        )
        for entry in registry.methods().values()
    ]


def _backbones() -> list[tuple[str, dict[str, object]]]:
    """The line of each architecture of dual encoders, and the same as JSON."""
    from perturbations.backbones import registry

    return [(f"{entry.source}; for example {entry.example}", asdict(entry)) for entry in registry.backbones().values()]


def _protocols() -> list[tuple[str, dict[str, object]]]:
    """The line of each published protocol, with what the user must bring, and the same as JSON."""
    from perturbations.protocols import registry

    titles = {name: entry.title for name, entry in registry.papers().items()}
    return [
        (
            f"{entry.summary}; needs {', '.join(f'{key} ({what})' for key, what in entry.needs.items()) or 'nothing'}",
            {**asdict(entry), "title": titles[entry.paper]},
        )
        for entry in registry.protocols().values()
    ]


def _show(options: argparse.Namespace) -> int:
    from perturbations.models import registry as models
    from perturbations.suites import registry

    entry = registry.get(options.perturbation)
    if options.json:
        variants = {form.variant: _form(form) for form in entry.forms()}
        print(json.dumps({**_described(entry), "source": entry.source, "variants": variants}, indent=2))
        return 0
    rows = [
        ("what", entry.summary),
        ("level", entry.level),
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
        "level": entry.level,
        "severities": list(entry.severities),
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


def _schema(options: argparse.Namespace) -> int:
    from perturbations.plan import config

    print(config.json_schema(), end="")
    return 0
