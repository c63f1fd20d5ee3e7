"""What is wrong with a manifest, and whether its rows are the set that it describes: findings of `perturb verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perturbations.base.errors import ManifestError
from perturbations.manifest import sets
from perturbations.manifest.columns import columns_of
from perturbations.manifest.companions import companion
from perturbations.manifest.rows import (
    CAPTIONS,
    COMPLETE,
    SOURCES,
    TEXTS,
    VIDEOS,
    AnalysisRow,
    RowKind,
    SourceRow,
    TextRow,
    VideoRow,
)

_SHOWN = 5  # missing rows of a manifest

StoredRow = SourceRow | VideoRow | AnalysisRow
"""A row that names a file."""

MadeRow = VideoRow | AnalysisRow | TextRow
"""A row of what a job made."""


Finding = dict[str, str]
"""A `problem` in words, the `file` or manifest with the problem, and the `row`; "" where it concerns the whole file."""


def finding_of(place: Path, problem: str, row: str = "") -> Finding:
    """A finding as a record."""
    return {"file": str(place), "row": row, "problem": problem}


def line_of(finding: Finding) -> str:
    """A finding in a line."""
    return ": ".join(filter(None, (finding["file"], finding["row"], finding["problem"])))


@dataclass
class Checked:
    """The result of one manifest, or of a folder of clips or parts.

    Attributes:
        path: the manifest, or the folder.
        root: the root of its tree; its own folder where it lies in no tree.
        kind, fields: its place in the tree, as `manifest_paths` names it, and the fields of the path; empty without a
            place.
        rows, incomplete: the number of its rows, and of those that are quarantined or missing.
        findings: what is wrong.
        notes: what could not be compared, and what the run left out.
        is_edited: whether the manifest itself was changed after it was written, or has rows of other clips.
        wrong: the rows of clips, analyses and captions that must be made again, and of sources that changed.
        left: useless files of jobs: of interrupted writes, of earlier configurations, and damaged files.
    """

    path: Path
    root: Path
    kind: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    incomplete: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_edited: bool = False
    wrong: list[MadeRow | SourceRow] = field(default_factory=list)
    left: list[Path] = field(default_factory=list)

    def add(self, problem: str, subject: str = "", place: Path | None = None) -> None:
        """Add a finding about the manifest, or about another `place`."""
        self.findings.append(finding_of(place or self.path, problem, subject))


def name_of(row: object, key: Sequence[str]) -> str:
    """A row's key in readable form: `video7 fog 3`."""
    return " ".join(_plain(value) for value in values(row, key))


def _plain(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and " " not in text else repr(text)


def values(row: object, names: Sequence[str]) -> tuple[object, ...]:
    """The values of some columns of a row."""
    return tuple(getattr(row, name) for name in names)


def check_rows(checked: Checked, kind: RowKind[Any], rows: Sequence[Any], about: Mapping[str, Any]) -> None:
    """Check that keys occur once and in order, that rows = listed x scenarios, and the numbers in the metadata."""
    problems: list[tuple[str, str]] = []
    owner = {name: value.partition("/")[0] for name, value in checked.fields.items() if name in ("dataset", "suite")}
    own = {name: value for name, value in owner.items() if name in {column.name for column in columns_of(kind.row)}}
    others = {f"it is of the {name} {about[name]!r}" for name in own if str(about.get(name, own[name])) != own[name]}
    items, scenarios, complete = set(), set(), Counter[str]()
    item_column = "caption_id" if kind == TEXTS else "item_id"
    before: tuple[Any, ...] = ()
    for row in rows:
        key = tuple((value is not None, value) for value in values(row, kind.key))
        if before and key <= before:
            problem = "the row is there twice" if key == before else "the row is not in its place"
            problems.append((name_of(row, kind.key), problem))
        before = key
        for name, value in own.items():
            if getattr(row, name) not in (value, None):
                others.add(f"it has rows of the {name} {getattr(row, name)!r}")
        is_complete = getattr(row, "status", COMPLETE) == COMPLETE
        checked.incomplete += not is_complete
        if kind in (VIDEOS, TEXTS):
            items.add(getattr(row, item_column))
            scenarios.add((row.perturbation, row.severity))
            complete[row.item_id] += is_complete
    try:
        if kind == SOURCES:
            problems += _other_counts(about, sets.of_sources(rows))
        elif kind == VIDEOS and (sources := companion(checked.path, SOURCES)):
            listed = {row.item_id for row in sources if row.status == COMPLETE}
            problems += _missing(rows, item_column, listed, items, scenarios)
            described = about.get(sets.SET)
            count = described.get("scenarios", 0) if isinstance(described, dict) else 0
            problems += _other_counts(about, sets.of_sources(sources, complete, count))
        elif kind == TEXTS and (captions := companion(checked.path, CAPTIONS)):
            problems += _missing(rows, item_column, {row.caption_id for row in captions}, items, scenarios)
        problems += [("", problem) for problem in sets.contradictions(checked.path, kind, rows, about)]
    except ManifestError as error:  # which is a finding of that manifest
        checked.notes.append(f"its rows are not compared with the listed ones: {error}")
    problems += [("", f"{problem}, and lies where those of {own} do") for problem in sorted(others)[:_SHOWN]]
    for subject, problem in problems:
        checked.is_edited = True
        checked.add(problem, subject)


def _other_counts(about: Mapping[str, Any], counted: sets.Listed) -> Iterator[tuple[str, str]]:
    if about.get(sets.SET) != counted.columns():
        yield "", f"its metadata says {about.get(sets.SET)}, and its rows give {counted.columns()}"


def _missing(
    rows: Sequence[Any], name: str, listed: set[str], items: set[str], scenarios: set[tuple[str, int]]
) -> Iterator[tuple[str, str]]:
    """How rows differ from one row per listed clip (or caption) and scenario; each key is known to occur once."""
    for item in sorted(items - listed):
        yield item, "its rows are unexpected: it is not listed as complete"
    if len(rows) < len(listed) * len(scenarios):
        there = {(getattr(row, name), row.perturbation, row.severity) for row in rows}
        missing = sorted({(item, *scenario) for item in listed for scenario in scenarios} - there)
        for item, perturbation, severity in missing[:_SHOWN]:
            yield f"{item} {perturbation} {severity}", "the row is missing"
        if len(missing) > _SHOWN:
            yield "", f"{len(missing) - _SHOWN} more rows are missing"
