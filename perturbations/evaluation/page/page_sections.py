"""The report's other sections: cost, what corpora hold, provenance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from perturbations.evaluation.page.intervals import marks
from perturbations.evaluation.page.page_tables import PageTable
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    Group,
    PagePart,
    Section,
    groups,
    method_label,
    named,
    of_models,
    plain,
    titled,
)
from perturbations.evaluation.page.views import Views
from perturbations.manifest import files, sets
from perturbations.manifest.skipped import of_manifest, sentences
from perturbations.tta.methods import registry as methods


def costs(frame: pd.DataFrame, views: Views) -> Section:
    """Milliseconds, memory and steps of each method."""
    times = [*(f"{part}_ms_p50" for part in ("encode", "adapt", "rerank", "total")), "total_ms_p95"]
    forms = {**dict.fromkeys(times, ".2f"), "peak_memory_mib": ",.0f"}
    counts = dict.fromkeys(("updates", "empty", "non_finite"), ".0f")
    parts: list[PagePart] = []
    # The queries of a perturbed gallery were encoded before, so that their time is not known; so are given features.
    known = frame[(frame["side"] != "gallery") & frame["total_ms_p50"].notna()]
    for (dataset, direction), of_dataset in groups(known, "dataset", "direction"):
        for model, group in of_models(of_dataset):
            medians = group.groupby("applied", sort=False)[[*forms, *counts]].median()
            adapted = medians.drop(methods.baseline().name, errors="ignore").reindex(medians.index)
            marked = {
                _heading(name): marks(adapted[name].to_numpy()[:, None], form.strip(","), lower=True)
                for name, form in forms.items()
            }
            data = plain(medians.rename(columns=_heading), map(method_label, medians.index), "method", marked)
            title = f"{titled(dataset, model, DIRECTIONS[direction])}: milliseconds per query, medians over scenarios"
            table = PageTable(title, data, {_heading(name): form for name, form in (forms | counts).items()})
            parts.append(Group([table], views=views.of(dataset, direction)))
    text = (
        "Encode: forward passes of the query encoder; adapt: losses, backward passes, optimizer; rerank: similarities. "
        "Steps: done (updates), skipped because no query passed the method's filter (empty), "
        "skipped because of NaN or infinite values (non finite). Marked is the least cost of a method that is not "
        f"{methods.baseline().title}."
    )
    return Section("cost", "Cost", parts and [text, *parts])


def _heading(name: str) -> str:
    return name.replace("_", " ")


def corpora(statistics: Sequence[Path], quarantine: Sequence[Path], results: Sequence[Path]) -> Section:
    """What the corpora hold, and what is left out of their captions and of results: a sentence each."""
    left_out = [
        f"{' on '.join(reversed(path.parts[-3:-1]))}: {line}."
        for path in (*statistics, *results)
        for line in sentences(of_manifest(files.read_metadata(path)))
    ]
    complete = [text for path in quarantine if (text := corpus_sentence(path))]
    return Section("corpora", "Corpora", [*complete, *left_out])


def corpus_sentence(path: Path) -> str | None:
    """How many of a corpus's listed clips are complete, quarantined and missing, from its quarantine manifest.

    A manifest of captions that cannot be used lies in its dataset's folder.
    """
    listed = sets.read_listed(path)
    if listed is not None and path.stem == "captions_quarantine":
        return f"captions of {path.parent.name}: {listed.sentence('captions')}."
    return None if listed is None else f"{path.parent.name} on {path.parent.parent.name}: {listed.sentence('clips')}."


def provenance(frame: pd.DataFrame, paths: Sequence[Path]) -> Section:
    """What the results depend on: a column per model, a line per fact and setting."""
    if frame.empty:
        return Section("provenance", "How it was made")
    facts = {str(name): _facts(rows) for name, rows in frame.groupby("model_name", sort=True)}
    names = list(dict.fromkeys(name for own in facts.values() for name in own))
    columns = [
        (("", model if len(facts) > 1 else "value"), {"value": ["; ".join(own.get(name, ())) for name in names]})
        for model, own in facts.items()
    ]
    packages = sorted(
        {str(about["package_version"]) for about in map(files.read_metadata, paths) if "package_version" in about}
    )
    texts = [f"Made by version {', '.join(packages)} of this package."] if packages else []
    table = PageTable("what the results depend on", named(columns, names, "name"), left=True)
    return Section("provenance", "How it was made", [*texts, table])


def _facts(rows: pd.DataFrame) -> dict[str, list[str]]:
    """The distinct values of each fact of one model's results; JSON becomes one fact per key."""
    facts: dict[str, list[str]] = {}
    columns = {"model": "model_key", "setting": "setting", "seeds": "seed", "checkpoint (sha256)": "checkpoint_sha256"}
    for name, column in columns.items():
        facts[name] = sorted(set(rows[column].dropna().astype(str)))
    for column in ("settings", "tools", "backend"):
        for text in sorted(set(rows[column].dropna())):
            for name, value in _flat(column, text):
                values = facts.setdefault(name, [])
                values += [] if value in values else [value]
    return facts


def _flat(name: str, text: str) -> Iterator[tuple[str, str]]:
    """The values of a JSON object by name, also of objects in it; other text as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    (values,) = pd.json_normalize({name: value}, sep=": ").to_dict("records")
    for key, own in sorted(values.items()):
        is_plain = isinstance(own, list) and not any(isinstance(entry, dict | list) for entry in own)
        yield str(key), ", ".join(map(_text, own)) if is_plain else _text(own)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
