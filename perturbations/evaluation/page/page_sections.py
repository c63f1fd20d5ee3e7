"""The report's other sections: cost, contact sheets, the captions' gate, quarantine, provenance."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perturbations.base.errors import ManifestError
from perturbations.evaluation.page.intervals import marks
from perturbations.evaluation.page.page_tables import PageTable
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    Figure,
    Group,
    PagePart,
    Section,
    groups,
    label,
    method_label,
    named,
    of_models,
    plain,
    plural,
    titled,
)
from perturbations.evaluation.page.views import Views
from perturbations.manifest import files, sets
from perturbations.manifest.kinds import TEXT_STATISTICS, QuarantineRow
from perturbations.manifest.skipped import of_manifest, sentences
from perturbations.tta.methods import registry as methods

_SHEET_FORMS = ((1600, 80), (1200, 75), (900, 70), (700, 60), (500, 50))
"""Pixels and quality of a contact sheet, the best first; a wider sheet shows no more detail on the page."""
_SHEETS_BYTES = 70_000  # of all sheets together: a page is passed on by mail
_MOST_LISTED = 200  # quarantined rows


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
            medians = group.groupby("method", sort=False)[[*forms, *counts]].median()
            adapted = medians.index != methods.baseline().name
            marked = {
                _heading(name): marks(
                    medians[name].where(adapted).tolist(), [None] * len(medians), form.strip(","), lower=True
                )
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
    return Section("cost", "Cost", [text, *parts] if parts else ["Not measured."])


def _heading(name: str) -> str:
    return name.replace("_", " ")


def sheets(paths: Sequence[Path]) -> Section:
    """The contact sheets of the corpora."""
    parts: list[PagePart] = []
    for path in paths:
        image = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if image is None:
            raise ManifestError(f"{path} is not a readable image")
        source = "data:image/webp;base64," + base64.b64encode(_small(image, _SHEETS_BYTES // len(paths))).decode()
        suite, dataset = path.parent.name, path.parent.parent.name
        parts.append(Figure(source, f"Contact sheet of {suite} on {dataset}", f"{suite} on {dataset}."))
    return Section("sheets", "Perturbed clips", parts or ["No corpus of videos yet."])


def _small(image: NDArray[np.integer | np.floating], most: int) -> bytes:
    """An image as WebP of at most `most` bytes, in the best form that allows; the least one may be larger."""
    data = b""
    for width, quality in _SHEET_FORMS:
        smaller = image
        if image.shape[1] > width:
            size = width, max(1, round(image.shape[0] * width / image.shape[1]))
            smaller = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        _, encoded = cv2.imencode(".webp", smaller, [cv2.IMWRITE_WEBP_QUALITY, quality])
        data = encoded.tobytes()
        if len(data) <= most:
            break
    return data


_GATE = {
    **{"severity": "d", "backend": "", "captions": ",d"},
    **dict.fromkeys(("changed", "effectively_changed", "accepted"), ".1f"),
    **{
        "similarity_mean": ".3f",
        "fluency_change_mean": "+.2f",
        "attempts_mean": ".2f",
        "bleu4": ".3f",
        "meteor": ".3f",
    },
}
"""The columns of the statistics of captions, and how their numbers are written."""


def gate(paths: Sequence[Path], results: Sequence[Path] = ()) -> Section:
    """Perturbed captions, the share that the fidelity gate accepted, and what is left out of them and of `results`."""
    parts: list[PagePart] = []
    left_out = [
        f"{' on '.join(reversed(path.parts[-3:-1]))}: {line}."
        for path in (*paths, *results)
        for line in sentences(of_manifest(files.read_metadata(path)))
    ]
    for rows in (files.read_rows(path, TEXT_STATISTICS) for path in paths):
        if rows:
            statistics = pd.DataFrame([{name: getattr(row, name) for name in _GATE} for row in rows])
            for name in ("changed", "effectively_changed", "accepted"):
                statistics[name] *= 100 / statistics["captions"]
            names = [label(row.suite, row.perturbation, row.backend) for row in rows]
            forms = {_heading(name): form for name, form in _GATE.items()}
            title = f"{rows[0].suite} on {rows[0].dataset}; changed and accepted in percent"
            parts.append(PageTable(title, plain(statistics.rename(columns=_heading), names, "perturbation"), forms))
    text = (
        "Perturbed captions, and the share that the fidelity gate accepted, which asks for the same topic, not for the "
        "same meaning. Effectively changed: after lower-casing and stripping punctuation. Fluency: change of the mean "
        "log10 probability per word by a bigram model. Similarity is empty where it is not measured, attempts where "
        "there is no gate. References are the originals for BLEU-4, and the perturbed captions for METEOR, as in the "
        "paper's figures."
    )
    texts = [text] if parts else ["No caption was perturbed yet."]
    return Section("captions", "Captions and the gate", [*texts, *left_out, *parts])


def corpus_sentence(path: Path) -> str | None:
    """How many of a corpus's listed clips are complete, quarantined and missing, from its quarantine manifest.

    A manifest of captions that cannot be used lies in its dataset's folder.
    """
    listed = sets.read_listed(path)
    if listed is not None and path.stem == "captions_quarantine":
        return f"captions of {path.parent.name}: {listed.sentence('captions')}."
    return None if listed is None else f"{path.parent.name} on {path.parent.parent.name}: {listed.sentence('clips')}."


def quarantined(rows: Sequence[QuarantineRow], corpora: Sequence[str]) -> Section:
    """The quarantined items, below one sentence per corpus."""
    if not rows:
        return Section("quarantine", "Quarantine", [*corpora, "Nothing is quarantined."])
    unique = list({(row.item_id, row.stage, row.error): row for row in rows}.values())
    items = plural(len({row.item_id for row in rows}), "item")
    texts = [*corpora, f"{plural(len(rows), 'row')} of {items} could not be made."]
    if len(unique) > _MOST_LISTED:
        texts.append(f"The first {_MOST_LISTED} are listed; all are in the quarantine manifests.")
    columns = {name: [getattr(row, name) for row in unique[:_MOST_LISTED]] for name in ("status", "stage", "error")}
    data = plain(pd.DataFrame(columns, dtype=object), (row.item_id for row in unique[:_MOST_LISTED]), "item")
    return Section("quarantine", "Quarantine", [*texts, PageTable("quarantined items", data)])


def provenance(frame: pd.DataFrame, paths: Sequence[Path]) -> Section:
    """What the results depend on: a column per model, a line per fact and setting."""
    if frame.empty:
        return Section("provenance", "How it was made", ["Nothing was evaluated yet."])
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
