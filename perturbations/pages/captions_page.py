"""The page of perturbed captions in a browser: texts before and after, by perturbation and severity.

It holds a sample of the captions, loads nothing, and is identical for identical manifests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import Any

from perturbations.base import storage
from perturbations.manifest import files, locations, manifest_paths, sets, skipped
from perturbations.manifest.rows import TEXT_STATISTICS, TEXTS, TextRow
from perturbations.pages import category_distances, common, templates
from perturbations.suites import suite_registry

_CAPTIONS = 6


def captions_page(captions: Path, page: Path) -> None:
    """Write the page of a manifest of perturbed `captions`. Raises `ManifestError`.

    The distances from the originals are those of the statistics beside it, where these were made.
    """
    about, rows = files.read_metadata(captions), files.read_rows(captions, TEXTS)
    frame = files.read_columns(captions, "caption_id", "suite", "perturbation", "severity", "changed").to_pandas()
    ids, suite = sorted(set(frame["caption_id"])), str(about.get("suite") or next(iter(frame["suite"]), ""))
    chosen = {ids[place * len(ids) // _CAPTIONS] for place in range(_CAPTIONS) if ids}
    changed = frame.groupby(["perturbation", "severity"])["changed"].mean().to_dict()
    cards = list(_cards([row for row in rows if row.caption_id in chosen], changed, suite))
    statistics = captions.with_name(manifest_paths.name("text_statistics"))
    distances = list(files.read_rows(statistics, TEXT_STATISTICS)) if statistics.is_file() else []
    listed = sets.read_listed(captions)
    others = {
        "all corpora and results": locations.root_of(captions, about) / manifest_paths.at("index"),
        "rows (Parquet)": captions,
    }
    text = templates.rendered(
        "perturbations.pages",
        "captions.html.j2",
        title=f"Captions of {about.get('dataset', '')} under {suite}",
        links=[(name, common.href(target, page)) for name, target in others.items()],
        totals=[
            ("caption" if len(ids) == 1 else "captions", f"{len(ids):,}"),
            ("perturbation" if len(cards) == 1 else "perturbations", f"{len(cards):,}"),
            ("perturbed caption" if len(rows) == 1 else "perturbed captions", f"{len(rows):,}"),
        ],
        notes=[*([listed.sentence("captions")] if listed else []), *skipped.sentences(skipped.of_manifest(about))],
        distances=category_distances.table(distances, str(about.get("adapter", ""))),
        cards=cards,
        categories=common.categories((card["name"], card["category"]) for card in cards),
        severities=sorted(set(frame["severity"].tolist())),
    )
    storage.write_text(page, text)


def _cards(sample: Sequence[TextRow], changed: Mapping[tuple[str, int], float], suite: str) -> Iterator[dict[str, Any]]:
    """Each perturbation in its suite's order, then those that are not installed here: its pairs by severity."""
    summaries = {entry.name: entry.summary for entry in suite_registry.perturbations() if entry.suite == suite}
    for name in common.in_order([suite], {row.perturbation for row in sample}):
        rows = sorted(
            (row for row in sample if row.perturbation == name), key=lambda row: (row.severity, row.caption_id)
        )
        severities = [
            (severity, f"{changed[name, severity]:.0%}", [compared(row.source_text, row.text) for row in own])
            for severity, own in groupby(rows, lambda row: row.severity)
        ]
        about = {"name": name, "category": rows[0].level, "summary": summaries.get(name, "")}
        yield {**about, "severities": severities}


_Words = list[tuple[str, bool]]


def compared(before: str, after: str) -> tuple[_Words, _Words]:
    """Two texts as runs of words, each with whether the other text lacks it."""
    texts = before.split(), after.split()
    sides: tuple[_Words, _Words] = [], []
    for kind, *places in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        for side, words, start, end in zip(sides, texts, places[::2], places[1::2], strict=True):
            if end > start:
                side.append((" ".join(words[start:end]), kind != "equal"))
    return sides
