"""Brings what follows from the code up to date in the documentation: `python docs/generate.py`.

The text of a page between the lines `<!-- name -->` and `<!-- /name -->` is the block of that name; the rest of the
page is written by hand. `--check` writes nothing, and fails where something is not up to date. `--captions` perturbs
the catalogue's captions again, which takes a minute; `--pictures` draws its missing pictures, which are not committed.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from graphlib import CycleError
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import catalogue_pages
import coverage_table
import rooms

from perturbations import retrieval
from perturbations.cli.main import parser as command_line
from perturbations.config import sections as config
from perturbations.datasets import adapter_registry as datasets
from perturbations.evaluation import backbones
from perturbations.models import role_registry as models
from perturbations.suites import suite_registry as suites
from perturbations.suites.suite_registry import Suite
from perturbations.tta.methods import method_registry as methods

PROJECT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^<!-- (?P<name>[a-z ]+) -->\n.*?^<!-- /(?P=name) -->$", re.MULTILINE | re.DOTALL)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    first, *others = ["|".join(row) for row in (head, *rows)]
    return "".join(f"|{line}|\n" for line in (first, "|".join("---" for _ in first.split("|")), *others))


# --- suites and datasets ---------------------------------------------------------------------------------------------


def of_suites() -> str:
    """A line per suite."""
    head = ["suite", "paper", "perturbations of videos, by category", "of captions"]
    return table(head, map(_suite, suites.suites().values()))


def _suite(suite: Suite) -> list[str]:
    video, text = (suites.perturbations(suite.name, kind) for kind in ("video", "text"))
    categories = groupby(video, key=lambda entry: entry.category)
    named = "; ".join(f"*{category}*: {', '.join(entry.name for entry in entries)}" for category, entries in categories)
    return [f"`{suite.name}`", suite.reference, f"{len(video)}. {named}" if video else "", str(len(text) or "")]


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
_MOST_VALUES = 8


def keys_of(definition: str) -> Callable[[], str]:
    """The block of the keys of one part of config.yaml."""

    def block() -> str:
        schema = config.Config.model_json_schema()
        part = schema if definition == "Config" else schema["$defs"][definition]
        return _keys(part["properties"], schema, part.get("required", []))

    return block


def of_adapter_keys() -> str:
    """The keys of a dataset that only one adapter has."""
    schema = config.Config.model_json_schema()
    common = schema["$defs"]["Dataset"]["properties"]
    parts = [
        part["properties"] for part in schema["$defs"].values() if common.keys() <= part.get("properties", {}).keys()
    ]
    return _keys({name: key for part in parts for name, key in part.items() if name not in common}, schema, [])


def _keys(keys: Mapping[str, Any], schema: Mapping[str, Any], required: Iterable[str]) -> str:
    rows = [
        [f"`{name}`", _values(key), _default(key, required=name in required), _meaning(key, schema)]
        for name, key in keys.items()
    ]
    return table(_KEY_COLUMNS, rows)


def undocumented_keys() -> list[str]:
    """The keys of config.yaml that are in no table of the reference."""
    page = (PROJECT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    parts = config.Config.model_json_schema()
    names = {name for part in (parts, *parts["$defs"].values()) for name in part.get("properties", {})}
    return sorted(name for name in names if f"|`{name}`|" not in page)


def _values(key: Mapping[str, Any]) -> str:
    """What a key may hold, in a few words."""
    if "enum" in key or "const" in key:
        values = key.get("enum", [key.get("const")])
        return f"one of {len(values)}" if len(values) > _MOST_VALUES else ", ".join(f"`{value}`" for value in values)
    if alternatives := key.get("anyOf") or key.get("oneOf"):
        return " or ".join(dict.fromkeys(filter(None, map(_values, alternatives))))
    if key.get("type") == "array":
        return f"list of {_values(key.get('items', {})) or 'values'}"
    if key.get("type") in ("integer", "number"):
        least, most = key.get("minimum", 0), key.get("maximum", _UNLIMITED)
        return f"{least:,}-{most:,}" if most < _UNLIMITED else f"from {least:,}"
    words = {"boolean": "`true`, `false`", "string": "path" if key.get("format") == "path" else "text", "null": ""}
    return words.get(key.get("type", ""), "keys")


_UNLIMITED = 10**9
"""A bound that nobody meets."""


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
    """The commands that people type, each with its arguments."""
    (commands,) = (action for action in command_line()._actions if isinstance(action, argparse._SubParsersAction))
    return "\n".join(_command(name, parser) for name, parser in commands.choices.items())


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    text = parser.description or ""
    rows = [_argument(action) for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    heading = f"### perturb {name}\n\n{text[:1].upper()}{text[1:]}.\n"
    return f"{heading}\n{table(['argument', 'meaning'], rows)}" if rows else heading


def _argument(action: argparse.Action) -> list[str]:
    choices = ",".join(map(str, action.choices or ()))
    values = action.metavar or (f"{{{choices}}}" if choices else action.dest.upper())
    more = " ..." if action.nargs in ("*", "+") else ""
    if not action.option_strings:
        shown = f"{values}{more}"
    else:
        shown = ", ".join(action.option_strings) + (f" {values}" if action.nargs != 0 else "") + more
    defaults = action.default if isinstance(action.default, list | tuple) else [action.default]
    default = " ".join(str(value) for value in defaults if value is not None and value is not False and value != "")
    is_required = action.required and action.nargs not in ("*", "?")
    words = (action.help or "").replace("%%", "%")  # as argparse prints it
    if default and "default" not in words:
        words += f"{'; ' if words else ''}default: `{default}`"
    return [f"`{shown}`", f"{words}{' (required)' if is_required and action.option_strings else ''}"]


# --- methods ---------------------------------------------------------------------------------------------------------


def of_methods() -> str:
    """A line per adaptation method."""
    rows = []
    for name, entry in methods.methods().items():
        rates = " / ".join(f"{rate:.0e}".replace("e-0", "e-") for rate in (entry.rates or {}).values())
        needs = ["a bank"] * entry.needs_bank + ["all queries"] * entry.needs_all_queries
        rows.append([entry.title, f"`{name}`", entry.paper, entry.minimizes, rates, entry.gives, ", ".join(needs)])
    return table(["method", "in config.yaml", "paper", "minimizes", "lr v2t / t2v", "output", "needs"], rows)


def of_method_parameters() -> str:
    """A line per method that has parameters."""
    lines = []
    for name in methods.methods():
        values = ", ".join(
            f"{parameter.name} {_shown(parameter.default)}".rstrip() for parameter in methods.method(name).parameters
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
        also = "whole videos" if entry.whole_videos else entry.also
        rows.append([entry.title, f"`{name}`", entry.source, f"`{entry.example}`", also])
    return table(["backbone", "model type", "source", "for example", "also"], rows)


def of_models() -> str:
    """A line per model."""
    rows = [
        [f"`{model.role}`", " and ".join(model.backends), model.name, model.weights, model.licence]
        for model in sorted(models.models(), key=lambda model: (model.of, model.role, model.backends))
    ]
    return table(["role", "backend", "model", "weights", "licence"], rows)


def of_retrieval() -> str:
    """A line for mkdocstrings per public name of `perturbations.retrieval`."""
    package, lines = retrieval.__name__, []
    for name in retrieval.__all__:
        home = getattr(getattr(retrieval, name), "__module__", "")  # constants have none, and are in the package
        lines.append(f"::: {home if home.startswith(package) else package}.{name}\n")
    return "\n".join(lines)


def of_rooms() -> str:
    """A line per room of the package."""
    return table(["layer", "content"], ([f"`{room}`", rooms.summary(room)] for room in rooms.imports()))


# --- captions, measured ----------------------------------------------------------------------------------------------

_TABLE_6 = {
    "AddText": (0.57, 0.76),
    "Bias": (0.88, 0.94),
    "ChangeChar": (0.60, 0.79),
    "DropText": (0.29, 0.53),
    "Positional": (0.64, 0.78),
    "SwapText": (0.68, 0.87),
    "TextStyle": (0.56, 0.80),
}
"""BLEU-4 and METEOR of MSR-VTT's captions by category: Schiappa et al., Tab. 6."""


def _measured() -> list[dict[str, str]]:
    """What `benchmarks/text.py msrvtt FILE distance` measured: a row per perturbation of msrvtt_p's captions."""
    with catalogue_pages.MEASURED.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def of_caption_categories() -> str:
    """A line per category of msrvtt_p's captions, beside the paper's."""
    means = []
    for category, (bleu, meteor) in _TABLE_6.items():
        rows = [row for row in _measured() if row["category"] == category]
        ours = [f"{fmean(float(row[name]) for row in rows):.3f}" for name in ("bleu4", "meteor")]
        means.append([category, ours[0], f"{bleu:.2f}", ours[1], f"{meteor:.2f}"])
    return table(["category", "BLEU-4", "paper", "METEOR", "paper"], means)


def outdated() -> list[str]:
    """The perturbations of captions that have another version today than the measured one."""
    versions = {f"msrvtt_p/{row['perturbation']}": int(row["version"]) for row in _measured()}
    return [key for key, version in versions.items() if suites.get(key).version != version]


# --- files -----------------------------------------------------------------------------------------------------------

_KEYS = {
    "top": "Config",
    "dataset": "Dataset",
    "columns": "ColumnsSection",
    "query columns": "QueryColumns",
    "suite": "SuiteSection",
    "captions": "Captions",
    "composed": "Composed",
    "language model": "Writer",
    "backends": "Backends",
    "caption backend": "CaptionBackend",
    "frost": "Frost",
    "main object": "PretrainedMainObject",
    "style": "PretrainedStyle",
    "embedding": "PretrainedEmbedding",
    "storage": "StorageSettings",
    "evaluation": "Evaluation",
    "models": "EvaluatedModel",
    "method entries": "MethodEntry",
    "limits": "Limits",
}
BLOCKS: dict[str, Callable[[], str]] = {
    "suites": of_suites,
    "datasets": of_datasets,
    "commands": of_commands,
    "methods": of_methods,
    "method parameters": of_method_parameters,
    "backbones": of_backbones,
    "models": of_models,
    "adapter keys": of_adapter_keys,
    "rooms": of_rooms,
    "names retrieval": of_retrieval,
    "coverage": coverage_table.block,
    "caption categories": of_caption_categories,
    **{f"keys {name}": keys_of(definition) for name, definition in _KEYS.items()},
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
    return f"<!-- {block['name']} -->\n\n{BLOCKS[block['name']]()}\n<!-- /{block['name']} -->"


def stale() -> list[Path]:
    """The files that are not up to date."""
    return [path for path, text in files() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main() -> int:
    """Write, or check, every generated file; 1 where `--check` finds one that is not up to date."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--captions", action="store_true", help="perturb the catalogue's captions, and nothing else")
    parser.add_argument(
        "--pictures", action="store_true", help="draw the catalogue's missing pictures, and nothing else"
    )
    options = parser.parse_args()
    if options.captions:
        rows = catalogue_pages.examples()
        with catalogue_pages.EXAMPLES.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    if options.pictures:
        for picture in catalogue_pages.draw(suites.perturbations(kind="video")):
            print(f"{picture.relative_to(PROJECT)}: written")
    if options.captions or options.pictures:
        return 0
    wrong, old = stale(), outdated()
    for path in wrong:
        print(f"{path.relative_to(PROJECT)}: {'not up to date' if options.check else 'written'}")
    if old:
        print(
            f"docs/measurements/captions.csv: other versions of {', '.join(old)}; measure them with benchmarks/text.py"
        )
    if options.check:
        return 1 if wrong or old else 0
    for path, text in list(files()):
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
