"""Brings everything in the documentation that follows from the code up to date: `python docs/generate.py`.

What stands in a page between the lines `<!-- name -->` and `<!-- /name -->` is the block of that name; the rest of the
page is written by hand. `--check` writes nothing, and fails where something is not up to date, such as a measured table
of another version of a kernel than today's. `--measured NAME`, after measuring again, records today's versions.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from graphlib import CycleError
from itertools import groupby
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import caption_examples
import catalogue_pages
import coverage_table
import measured_tables
import rooms
from measured_tables import measured, outdated, table

from perturbations import retrieval
from perturbations.base import storage
from perturbations.base.errors import BackendError
from perturbations.config import sections as config
from perturbations.datasets import registry as datasets
from perturbations.evaluation.backbones import registry as backbones
from perturbations.models import registry as models
from perturbations.suites import registry as suites
from perturbations.suites.registry import Suite
from perturbations.tta.methods import registry as methods

PROJECT = Path(__file__).parents[1]
CATALOGUE = PROJECT / "docs" / "catalogue"
_BLOCK = re.compile(r"^<!-- (?P<name>[a-z ]+) -->\n.*?^<!-- /(?P=name) -->$", re.MULTILINE | re.DOTALL)


# --- suites and datasets ---------------------------------------------------------------------------------------------


def of_suites() -> str:
    """A line per suite."""
    head = ["suite", "paper", "perturbations of videos, by category", "of captions", "severities"]
    return table(head, (_suite(suite) for suite in suites.suites().values()))


def _suite(suite: Suite) -> list[str]:
    video, text = ([entry for entry in suite.perturbations if entry.kind == kind] for kind in ("video", "text"))
    categories = groupby(video, key=lambda entry: entry.category)
    named = "; ".join(f"*{category}*: {', '.join(entry.name for entry in entries)}" for category, entries in categories)
    most = [max((len(entry.severities) for entry in entries), default=0) for entries in (video, text)]
    severities = f"1-{most[0]}" + (f"; captions 1-{most[1]}" if most[1] > 1 else "; captions 1" if most[1] else "")
    link = f"[`{suite.name}`](docs/catalogue/{suite.name}.md)"
    return [link, suite.reference, f"{len(video)}. {named}" if video else "", str(len(text) or ""), severities]


def of_datasets() -> str:
    """A line per adapter."""
    head = ["adapter", "dataset", "annotation file", "the published split"]
    rows = (
        [
            f"`{adapter.name}`",
            f"{adapter.title} ({adapter.reference})" if adapter.reference else adapter.title,
            adapter.annotations,
            adapter.published,
        ]
        for adapter in datasets.adapters().values()
    )
    return table(head, rows)


# --- config.yaml -----------------------------------------------------------------------------------------------------

_KEY_COLUMNS = ["key", "values", "default", "meaning"]
_MOST_VALUES = 20


def keys_of(definition: str) -> Callable[[], str]:
    """The block of the keys of one part of config.yaml."""

    def block() -> str:
        schema = config.Config.model_json_schema()
        part = schema if definition == "Config" else schema["$defs"][definition]
        required = part.get("required", [])
        rows = (
            [f"`{name}`", _values(key), _default(key, required=name in required), _meaning(key, schema)]
            for name, key in part["properties"].items()
        )
        return table(_KEY_COLUMNS, rows)

    return block


def of_adapter_keys() -> str:
    """The keys of a dataset that only one adapter has."""
    schema = config.Config.model_json_schema()
    common = schema["$defs"]["Dataset"]["properties"]
    rows = [
        [f"`{name}`", _values(key), _default(key, required=False), _meaning(key, schema)]
        for part in schema["$defs"].values()
        if common.keys() <= part.get("properties", {}).keys()
        for name, key in part["properties"].items()
        if name not in common
    ]
    return table(_KEY_COLUMNS, rows)


def undocumented_keys() -> list[str]:
    """The keys of config.yaml that are in no table of the reference."""
    page = (PROJECT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    parts = config.Config.model_json_schema()
    names = {name for part in (parts, *parts["$defs"].values()) for name in part.get("properties", {})}
    return sorted(name for name in names if f"| `{name}` |" not in page)


def _values(key: Mapping[str, Any]) -> str:
    """What a key may hold, in a few words."""
    if "enum" in key or "const" in key:
        if len(key.get("enum", [])) > _MOST_VALUES:
            return f"one of {len(key['enum'])}"
        return ", ".join(f"`{value}`" for value in key.get("enum", [key.get("const")]))
    if alternatives := key.get("anyOf") or key.get("oneOf"):
        return " or ".join(dict.fromkeys(filter(None, map(_values, alternatives))))
    if "$ref" in key:
        return "keys of its own"
    if key.get("type") == "array":
        return f"list of {_values(key.get('items', {})) or 'values'}"
    bounds = [f"{word} {key[name]:,}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in key]
    words = {
        "integer": "whole number",
        "boolean": "`true`, `false`",
        "string": "path" if key.get("format") == "path" else "text",
        "null": "",
    }
    return " ".join([words.get(key.get("type", ""), "keys of its own"), *bounds]).strip()


def _meaning(key: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """A key's description, or that of what it holds."""
    held = schema["$defs"].get(key.get("$ref", "").rpartition("/")[2], {})
    text: str = key.get("description") or held.get("description", "")
    return f"{text[:1].lower()}{text[1:].rstrip('.')}"


def _default(key: Mapping[str, Any], *, required: bool) -> str:
    if required:
        return "required"
    default = key.get("default")
    return "" if default is None else f"`{json.dumps(default).strip(chr(34))}`"


# --- the command -----------------------------------------------------------------------------------------------------


def of_commands() -> str:
    """The commands that people type; the others are called by the workflow's rules."""
    return "\n".join(_command(name, parser) for name, parser in _commands() if not name.startswith("rule "))


def _commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    installed = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"]["perturb"]
    for name, parser in _choices(resolve_name(installed.replace(":main", ":parser"))()):
        inner = list(_choices(parser))
        yield from ((f"{name} {inner_name}", inner_parser) for inner_name, inner_parser in inner)
        if not inner:
            yield name, parser


def _choices(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The subcommands of a command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    text = parser.description or ""
    rows = [_argument(action) for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    heading = f"### perturb {name}\n\n{text[:1].upper()}{text[1:]}.\n"
    notes = f"\n{' '.join(parser.epilog.split())}\n" if parser.epilog else ""
    return f"{heading}\n{table(['argument', 'default', 'meaning'], rows)}{notes}" if rows else f"{heading}{notes}"


def _argument(action: argparse.Action) -> list[str]:
    choices = ",".join(map(str, action.choices or ()))
    values = action.metavar or (f"{{{choices}}}" if choices else action.dest.upper())
    takes_value = action.nargs != 0
    if not action.option_strings:
        shown = f"{values}{'...' if action.nargs in ('*', '+') else ''}"
    else:
        shown = ", ".join(action.option_strings) + (f" {values}" if takes_value else "")
        shown += " ..." if action.nargs in ("*", "+") else ""
    defaults = action.default if isinstance(action.default, list) else [action.default]
    default = " ".join(str(value) for value in defaults if value is not None and value is not False and value != "")
    is_required = action.required and action.nargs not in ("*", "?")
    return [f"`{shown}`", "required" if is_required else f"`{default}`" if default else "", action.help or ""]


# --- methods ---------------------------------------------------------------------------------------------------------


def of_methods() -> str:
    """A line per adaptation method."""
    rows = []
    for name, entry in methods.methods().items():
        rates = " / ".join(f"{rate:.0e}".replace("e-0", "e-") for rate in entry.rates or ())
        needs = ["a bank"] * entry.needs_bank + ["all queries"] * entry.needs_all_queries
        rows.append([entry.title, f"`{name}`", entry.paper, entry.minimizes, rates, entry.gives, ", ".join(needs)])
    return table(["method", "in config.yaml", "paper", "minimizes", "lr v2t / t2v", "output", "needs"], rows)


def of_method_parameters() -> str:
    """A line per method that has parameters."""
    lines = []
    for name in methods.methods():
        values = ", ".join(
            f"{parameter.name} {_shown(parameter.default)}".rstrip() for parameter in methods.parameters(name)
        )
        lines += [f"- `{name}`: {values}"] if values else []
    return "\n".join(lines) + "\n"


def _shown(default: object) -> str:
    if default is None:
        return ""
    return f"{default:.4g}" if isinstance(default, float) else json.dumps(default).strip('"')


def of_backbones() -> str:
    """A line per architecture of dual encoders."""
    rows = []
    for name, entry in backbones.backbones().items():
        cells = [entry.title, f"`{name}`", entry.source, f"`{entry.model_class}`", f"`{entry.example}`"]
        length = "the longest of the batch, masked" if entry.masks_padding else "the full length, not masked"
        also = {
            "a faster pass of frames": entry.own_pass,
            "whole videos": entry.whole_videos,
            "checkpoints in OpenAI's names": entry.openai_checkpoints,
        }
        abilities = " and ".join(ability for ability, is_there in also.items() if is_there)
        rows.append([*cells, f"{_READ[entry.reads]}; padded to {length}", abilities])
    return table(["backbone", "model type", "source", "class", "for example", "text pooling token", "also"], rows)


_READ = {"end": "its end", "first": "its first token", "last": "its last token"}


def of_models() -> str:
    """A line per model."""
    rows = [
        [f"`{model.role}`", " and ".join(model.backends), model.name, model.weights, model.licence]
        for model in sorted(models.models(), key=lambda model: (model.of, model.role, model.backends))
    ]
    return table(["role", "backend", "model", "weights", "licence"], rows)


def of_names(package: Any) -> Callable[[], str]:
    """The block with a line for mkdocstrings per public name of a package."""

    def block() -> str:
        lines = []
        for name in package.__all__:
            home = getattr(getattr(package, name), "__module__", "")  # constants have none, and stand in the package
            lines.append(f"::: {home if home.startswith(package.__name__) else package.__name__}.{name}\n")
        return "\n".join(lines)

    return block


# --- files -----------------------------------------------------------------------------------------------------------

BLOCKS: dict[str, Callable[[], str]] = {
    "suites": of_suites,
    "datasets": of_datasets,
    "commands": of_commands,
    "methods": of_methods,
    "method parameters": of_method_parameters,
    "backbones": of_backbones,
    "models": of_models,
    "adapter keys": of_adapter_keys,
    "names retrieval": of_names(retrieval),
    "coverage": coverage_table.block,
    "caption categories": measured_tables.of_caption_categories,
    "caption perturbations": measured_tables.of_caption_perturbations,
    **{f"measured {name}": measured_tables.of_measured(name) for name in measured()},
    **{
        f"keys {name}": keys_of(definition)
        for name, definition in (
            ("top", "Config"),
            ("dataset", "Dataset"),
            ("columns", "ColumnsSection"),
            ("suite", "SuiteSection"),
            ("captions", "Captions"),
            ("caption backend", "CaptionBackend"),
            ("frost", "Frost"),
            ("composed", "Composed"),
            ("language model", "Writer"),
            ("backends", "Backends"),
            ("main object", "PretrainedMainObject"),
            ("style", "PretrainedStyle"),
            ("embedding", "PretrainedEmbedding"),
            ("storage", "StorageSettings"),
            ("evaluation", "Evaluation"),
            ("models", "EvaluatedModel"),
            ("method entries", "MethodEntry"),
            ("limits", "LimitsSection"),
        )
    },
}


def files() -> Iterator[tuple[Path, str]]:
    """Every file that this program writes, with what should be in it."""
    for page in [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        if _BLOCK.search(text):
            yield page, _BLOCK.sub(_filled, text)
    with suppress(CycleError):  # which lint-imports reports
        yield PROJECT / "docs" / "rooms.svg", rooms.picture()
    yield PROJECT / "workflow" / "schemas" / "config.schema.json", config.json_schema()


def _filled(block: re.Match[str]) -> str:
    """A block with its text; as it is, where no registry has a text for it yet."""
    name = block["name"]
    text = BLOCKS[name]()
    return f"<!-- {name} -->\n\n{text}\n<!-- /{name} -->" if text else block[0]


def stale() -> list[Path]:
    """The files that are not up to date."""
    return [path for path, text in files() if not path.exists() or path.read_text(encoding="utf-8") != text]


def _catalogues() -> None:
    """Bring the catalogues up to date, which draw clips and perturb captions."""
    try:
        page = caption_examples.page()
    except BackendError as error:  # no WordNet: the page stays as it is
        print(f"docs/catalogue_text.md: kept, because {error}", file=sys.stderr)
    else:
        storage.write_text_if_changed(PROJECT / "docs" / "catalogue_text.md", page)
    for name in catalogue_pages.write(CATALOGUE):  # with the first examples of that page
        print(f"{(CATALOGUE / name).relative_to(PROJECT)}: written")


def main() -> int:
    """Write, or check, every generated file; 1 where `--check` finds one that is not up to date."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; catalogues are checked by tests")
    parser.add_argument("--measured", action="append", choices=measured(), metavar="NAME", help="measured again today")
    options = parser.parse_args()
    for name in options.measured or ():
        measured_tables.record(name)
    old = outdated(measured())
    print(*old, sep="\n", end="\n" if old else "")
    wrong = stale()
    for path in wrong:
        print(f"{path.relative_to(PROJECT)}: {'not up to date' if options.check else 'written'}")
    if options.check:
        return 1 if wrong or old else 0
    for path, text in list(files()):
        path.write_text(text, encoding="utf-8")
    _catalogues()
    return 0


if __name__ == "__main__":
    sys.exit(main())
