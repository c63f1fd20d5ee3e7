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
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    Cell,
    Figure,
    PagePart,
    PageTable,
    Panel,
    PlotLine,
    Section,
    groups,
    label,
    method_label,
    of_models,
    plain_table,
    plural,
    titled,
)
from perturbations.evaluation.page.views import Views
from perturbations.manifest import files, sets
from perturbations.manifest.columns import columns_of
from perturbations.manifest.kinds import TEXT_STATISTICS, QuarantineRow, TextStatisticsRow
from perturbations.manifest.skipped import of_manifest, sentences
from perturbations.tta.methods import registry as methods

_SHEET_FORMS = ((1600, 80), (1200, 75), (900, 70), (700, 60), (500, 50))
"""Pixels and quality of a contact sheet, the best first; a wider sheet shows no more detail on the page."""
_SHEETS_BYTES = 70_000  # of all sheets together: a page is passed on by mail
_MOST_LISTED = 200  # quarantined rows


def costs(frame: pd.DataFrame, views: Views) -> Section:
    """Milliseconds, memory and steps of each method."""
    formats = {
        **{f"{part}_ms_p50": ".2f" for part in ("encode", "adapt", "rerank", "total")},
        "total_ms_p95": ".2f",
        "peak_memory_mib": ",.0f",
        "updates": ".0f",
        "empty": ".0f",
        "non_finite": ".0f",
    }
    measured = [name for name in formats if "_ms_" in name or name == "peak_memory_mib"]
    parts: list[PagePart] = []
    # What a perturbed gallery is asked with was encoded before, so that its time is not known, and given features too.
    known = frame[(frame["side"] != "gallery") & frame["total_ms_p50"].notna()]
    for (dataset, direction), of_dataset in groups(known, "dataset", "direction"):
        for model, group in of_models(of_dataset):
            medians = group.groupby("method", sort=False)[list(formats)].median()
            adapted = [name != methods.baseline().name for name in medians.index]
            marked = {name: _least(medians[name].tolist(), adapted, formats[name]) for name in measured}
            where = titled(dataset, model, DIRECTIONS[direction])
            title = f"{where}: milliseconds per query, medians over scenarios"
            table = plain_table(title, medians, formats, map(method_label, medians.index), marked)
            parts.append(Panel(views.of(dataset, direction), [table]))
    text = (
        "Encode: forward passes of the query encoder; adapt: losses, backward passes, optimizer; rerank: similarities. "
        "Steps: done (updates), skipped because no query passed the method's filter (empty), "
        "skipped because of NaN or infinite values (non finite). Marked is the least cost of a method that is not "
        f"{methods.baseline().title}."
    )
    return Section("cost", "Cost", [text] if parts else ["Not measured."], parts)


def _least(values: Sequence[float], counted: Sequence[bool], form: str) -> list[str]:
    """The marks of a column of costs, without the methods that do not count."""
    kept = [value if own else float("nan") for value, own in zip(values, counted, strict=True)]
    return marks(kept, [None] * len(kept), form.replace(",", ""), lower=True)


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
    return Section("sheets", "Perturbed clips", [] if parts else ["No corpus of videos yet."], parts)


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


_SHARES = ("changed", "effectively_changed", "accepted")


def gate(paths: Sequence[Path], results: Sequence[Path] = ()) -> Section:
    """Perturbed captions, the share that the fidelity gate accepted, and what is left out of them and of `results`."""
    parts: list[PagePart] = []
    left_out = [
        f"{' on '.join(reversed(path.parts[-3:-1]))}: {line}."
        for path in (*paths, *results)
        for line in sentences(of_manifest(files.read_metadata(path)))
    ]
    for path in paths:
        columns = [column.name for column in columns_of(TextStatisticsRow)]
        rows = files.read_rows(path, TEXT_STATISTICS)
        statistics = pd.DataFrame([[getattr(row, name) for name in columns] for row in rows], columns=columns)
        if statistics.empty:
            continue
        share = {name: 100 * statistics[name] / statistics["captions"] for name in _SHARES}
        shown = statistics.assign(**share)
        formats = {
            "severity": "d",
            "backend": "",
            "captions": ",d",
            "changed": ".1f",
            "effectively_changed": ".1f",
            "accepted": ".1f",
            "similarity_mean": ".3f",
            "fluency_change_mean": "+.2f",
            "attempts_mean": ".2f",
            "bleu4": ".3f",
            "meteor": ".3f",
        }
        corpus = f"{statistics['suite'].iloc[0]} on {statistics['dataset'].iloc[0]}"
        of_rows = zip(statistics["suite"], statistics["perturbation"], statistics["backend"], strict=True)
        names = [label(*row) for row in of_rows]
        parts.append(plain_table(f"{corpus}; changed and accepted in percent", shown, formats, names, {}))
    text = (
        "Perturbed captions, and the share that the fidelity gate accepted, which asks for the same topic, not for the "
        "same meaning. Effectively changed: after lower-casing and stripping punctuation. Fluency: change of the mean "
        "log10 probability per word by a bigram model. Similarity is empty where it is not measured, attempts where "
        "there is no gate. References are the originals for BLEU-4, and the perturbed captions for METEOR, as in the "
        "paper's figures."
    )
    texts = [text] if parts else ["No caption was perturbed yet."]
    return Section("captions", "Captions and the gate", [*texts, *left_out], parts)


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
    body = [
        PlotLine(row.item_id, [Cell(row.status), Cell(row.stage or ""), Cell(row.error or "")])
        for row in unique[:_MOST_LISTED]
    ]
    return Section(
        "quarantine",
        "Quarantine",
        texts,
        [PageTable("quarantined items", [[Cell("item"), Cell("status"), Cell("stage"), Cell("error")]], body)],
    )


def provenance(frame: pd.DataFrame, paths: Sequence[Path]) -> Section:
    """What the results depend on: a column per model, a line per fact and setting."""
    if frame.empty:
        return Section("provenance", "How it was made", ["Nothing was evaluated yet."])
    models = [(str(name), rows) for name, rows in frame.groupby("model_name", sort=True)]
    facts = [_facts(rows) for _, rows in models]
    names = list(dict.fromkeys(name for own in facts for name in own))
    body = [PlotLine(name, [Cell("; ".join(own.get(name, ()))) for own in facts]) for name in names]
    packages = sorted(
        {str(about["package_version"]) for about in map(files.read_metadata, paths) if "package_version" in about}
    )
    texts = [f"Made by version {', '.join(packages)} of this package."] if packages else []
    head = [Cell("name"), *(Cell(name if len(models) > 1 else "value") for name, _ in models)]
    table = PageTable("what the results depend on", [head], body, left=True)
    return Section("provenance", "How it was made", texts, [table])


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
        yield str(key), ", ".join(map(_spoken, own)) if is_plain else _spoken(own)


def _spoken(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
