"""The report's other sections: cost, contact sheets, the captions' gate, quarantine, provenance."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import cv2
import pandas as pd

from perturbations.errors import ManifestError
from perturbations.manifest import files, sets
from perturbations.manifest.columns import columns_of
from perturbations.manifest.kinds import TEXT_STATISTICS, QuarantineRow, TextStatisticsRow
from perturbations.manifest.skipped import of_manifest, sentences
from perturbations.report.parts import (
    DIRECTIONS,
    Cell,
    Figure,
    Line,
    Section,
    Table,
    groups,
    label,
    of_models,
    plain_table,
    plural,
    titled,
)
from perturbations.tta.methods import registry as methods

_SHEET_WIDTH = 1600  # pixels; a wider sheet shows no more detail on the page
_MOST_LISTED = 200  # quarantined rows


def costs(frame: pd.DataFrame) -> Section:
    """Milliseconds, memory and steps of each method."""
    formats = {
        **{f"{part}_ms_p50": ".2f" for part in ("encode", "adapt", "rerank", "total")},
        "total_ms_p95": ".2f",
        "peak_memory_mib": ",.0f",
        "updates": ".0f",
        "empty": ".0f",
        "non_finite": ".0f",
    }
    parts = []
    for (dataset, direction), of_dataset in groups(frame, "dataset", "direction"):
        for model, group in of_models(of_dataset):
            medians = group.groupby("method", sort=False)[list(formats)].median()
            where = titled(dataset, model, DIRECTIONS[direction])
            title = f"{where}: milliseconds per query, medians over scenarios"
            parts.append(plain_table(title, medians, formats, map(methods.title_of, medians.index)))
    text = (
        "Encode: forward passes of the query encoder; adapt: losses, backward passes, optimizer; rerank: similarities. "
        "Steps: done (updates), skipped because no query passed the method's filter (empty), "
        "skipped because of NaN or infinite values (non finite)."
    )
    return Section("cost", "Cost", [text] if parts else ["No evaluation yet."], parts)


def sheets(paths: Sequence[Path]) -> Section:
    """The contact sheets of the corpora."""
    parts = []
    for path in paths:
        image = cv2.imread(str(path), cv2.IMREAD_COLOR)
        if image is None:
            raise ManifestError(f"{path} is not a readable image")
        if image.shape[1] > _SHEET_WIDTH:
            size = _SHEET_WIDTH, round(image.shape[0] * _SHEET_WIDTH / image.shape[1])
            image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        _, data = cv2.imencode(".webp", image, [cv2.IMWRITE_WEBP_QUALITY, 85])
        source = "data:image/webp;base64," + base64.b64encode(data.tobytes()).decode()
        suite, dataset = path.parent.name, path.parent.parent.name
        parts.append(Figure(source, f"Contact sheet of {suite} on {dataset}", f"{suite} on {dataset}."))
    return Section("sheets", "Perturbed clips", [] if parts else ["No corpus of videos yet."], parts)


_SHARES = ("changed", "effectively_changed", "accepted")


def gate(paths: Sequence[Path], results: Sequence[Path] = ()) -> Section:
    """Perturbed captions, the share that the fidelity gate accepted, and what is left out of them and of `results`."""
    parts = []
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
        parts.append(plain_table(f"{corpus}; changed and accepted in percent", shown, formats, names))
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
        Line(row.item_id, [Cell(row.status), Cell(row.stage or ""), Cell(row.error or "")])
        for row in unique[:_MOST_LISTED]
    ]
    return Section(
        "quarantine",
        "Quarantine",
        texts,
        [Table("quarantined items", [[Cell("item"), Cell("status"), Cell("stage"), Cell("error")]], body)],
    )


def provenance(frame: pd.DataFrame, paths: Sequence[Path]) -> Section:
    """What the results depend on."""
    if frame.empty:
        return Section("provenance", "How it was made", ["Nothing was evaluated yet."])
    facts = {
        "model": frame["model_key"],
        "setting": frame["setting"],
        "seeds": frame["seed"].astype(str),
        "checkpoint (sha256)": frame["checkpoint_sha256"],
        "settings": frame["settings"],
        "tools": frame["tools"],
    }
    values_of = {name: sorted(set(values.dropna())) for name, values in facts.items()}
    about = [files.read_metadata(path) for path in paths]
    values_of["package"] = sorted(
        {str(metadata["package_version"]) for metadata in about if "package_version" in metadata}
    )
    body = [Line(name, [Cell("; ".join(map(str, values)))]) for name, values in values_of.items() if values]
    return Section(
        "provenance",
        "How it was made",
        [],
        [Table("what the results depend on", [[Cell("name"), Cell("value")]], body)],
    )
