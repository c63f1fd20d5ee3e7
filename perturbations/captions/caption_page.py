"""The page of perturbed captions: per perturbation a description, its statistics and example pairs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from perturbations.base import shown
from perturbations.base.records import digest
from perturbations.manifest.kinds import TextRow
from perturbations.manifest.sets import Listed
from perturbations.manifest.skipped import Skipped, sentences
from perturbations.models import registry as models
from perturbations.plan.listed import RejectedItem
from perturbations.suites import registry

_PAIRS = 10
_MOST_REJECTED = 20


def of_corpus(
    rows: Sequence[TextRow],
    listed: Listed,
    rejected: Sequence[RejectedItem] = (),
    left_out: Sequence[Skipped] = (),
) -> str:
    """The page of one corpus of perturbed captions.

    It is written from the rows of its `texts` manifest, the captions that cannot be used, and the perturbations that
    are skipped.
    """
    notes = [f"- {listed.sentence('captions')}", *(f"- {shown.markdown(line)}" for line in sentences(left_out))]
    if rejected:
        notes += ["", "| item | why its caption is quarantined |", "|---|---|"]
        notes += [
            f"| {shown.markdown(row.item_id)} | {shown.markdown(row.error)} |" for row in rejected[:_MOST_REJECTED]
        ]
    if len(rejected) > _MOST_REJECTED:
        notes += ["", f"and {len(rejected) - _MOST_REJECTED:,} more: all are in `captions_quarantine.parquet`."]
    if not rows:
        return "\n".join(["# Captions", "", "No caption is perturbed.", "", *notes]) + "\n"
    first = rows[0]
    lines = [f"# Captions of {shown.name(first.dataset)} under {shown.name(first.suite)}", ""]
    lines += [f"{len(rows):,} rows; variant {shown.name(first.variant)}, seed {first.seed}."]
    lines += ["", *notes]
    return "\n".join([*lines, *_entries(rows)]) + "\n"


_BySeverity = dict[int, list[TextRow]]


def grouped(rows: Iterable[TextRow]) -> list[tuple[registry.Perturbation, _BySeverity]]:
    """The rows by perturbation, and by ascending severity."""
    groups: dict[str, _BySeverity] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[f"{row.suite}/{row.perturbation}"][row.severity].append(row)
    return [(registry.get(key), dict(sorted(by_severity.items()))) for key, by_severity in groups.items()]


def middle(by_severity: _BySeverity) -> list[TextRow]:
    """The rows of the middle severity, of the higher one where two are in the middle."""
    return by_severity[list(by_severity)[len(by_severity) // 2]]


def _entries(rows: Iterable[TextRow]) -> list[str]:
    lines = []
    for entry, by_severity in grouped(rows):
        lines += ["", f"## {entry.name}", "", f"{sentence(entry.summary)} {entry.category}. {entry.source}.", ""]
        lines += about(entry)
        lines += [
            "",
            "| severity | parameters | changed | accepted | similarity | tries |",
            "|---|---|---|---|---|---|",
            *(_counted(entry, severity, members) for severity, members in by_severity.items()),
        ]
        lines += ["", *_pairs(middle(by_severity))]
    return lines


def sentence(text: str) -> str:
    """A summary as a sentence."""
    return text[:1].upper() + text[1:] + "."


def about(entry: registry.Perturbation) -> list[str]:
    """A list of what is made, by whom, and how it differs from the papers' results, in Markdown."""
    names = {backend: models.names(entry.makers, backend) for backend in models.BACKENDS}
    makers = [f"{backend}: {name}" for backend, name in names.items()]
    same = len(set(names.values())) == 1
    lines = [f"- made for {entry.languages}; {next(iter(names.values())) if same else '; '.join(makers)}"]
    if entry.levels_of_paper:
        lines.append(f"- {entry.levels_of_paper}")
    if entry.not_comparable:
        lines.append(f"- **not comparable** with published results, offline: {entry.not_comparable}")
    if entry.gated:
        lines.append("- gate: drawn again until the topic is kept, up to 100 times")
    lines += [f"- {form.variant}: {form.differences}" for form in entry.forms() if form.differences]
    return lines


def _counted(entry: registry.Perturbation, severity: int, rows: Sequence[TextRow]) -> str:
    parameters = (
        ", ".join(shown.name(f"{name} {_number(value)}") for name, value in json.loads(rows[0].params).items())
        or "none"
    )
    changed = sum(row.changed for row in rows) / len(rows)
    accepted = f"{sum(row.accepted for row in rows) / len(rows):.1%}" if entry.gated else ""
    similar = [row.similarity for row in rows if row.similarity is not None]
    similarity = f"{sum(similar) / len(similar):.2f}" if similar else ""
    tries = f"{sum(row.attempts for row in rows) / len(rows):.1f}" if entry.gated else ""
    return f"| {severity} | {parameters} | {changed:.1%} | {accepted} | {similarity} | {tries} |"


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def changed_rows(rows: Sequence[TextRow]) -> list[TextRow]:
    """The changed captions, in the order of a hash of their ids."""
    return sorted((row for row in rows if row.changed), key=lambda row: digest(row.caption_id))


def _pairs(rows: Sequence[TextRow]) -> list[str]:
    """Up to `_PAIRS` changed captions of rows of one severity."""
    changed = changed_rows(rows)[:_PAIRS]
    if not changed:
        return ["No caption changed."]
    lines = ["| before | after |", "|---|---|"]
    return lines + [f"| {shown.markdown(row.source_text)} | {shown.markdown(row.text)} |" for row in changed]
