"""The page of perturbed captions: per perturbation a description, its statistics and example pairs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from perturbations.base import shown
from perturbations.captions.caption_rows import CaptionSummary
from perturbations.manifest import layout
from perturbations.manifest.kinds import TextRow, TextStatisticsRow
from perturbations.manifest.sets import Listed
from perturbations.manifest.skipped import Skipped, sentences
from perturbations.models import registry as models
from perturbations.plan.listed import RejectedItem
from perturbations.suites import published, registry

_MOST_REJECTED = 20


def of_corpus(
    scenarios: Sequence[CaptionSummary],
    listed: Listed,
    rejected: Sequence[RejectedItem] = (),
    left_out: Sequence[Skipped] = (),
    adapter: str = "",
) -> str:
    """The page of one corpus of perturbed captions.

    It is written from summaries of its scenarios, the captions that cannot be used, and the perturbations that are
    skipped; `adapter`, the dataset's, says which published distances stand beside ours.
    """
    notes = [f"- {listed.sentence('captions')}", *(f"- {shown.markdown(line)}" for line in sentences(left_out))]
    if rejected:
        notes += ["", "| item | why its caption is quarantined |", "|---|---|"]
        notes += [
            f"| {shown.markdown(row.item_id)} | {shown.markdown(row.error)} |" for row in rejected[:_MOST_REJECTED]
        ]
    if len(rejected) > _MOST_REJECTED:
        name = layout.name("captions_quarantine")
        notes += ["", f"and {len(rejected) - _MOST_REJECTED:,} more: all are in `{name}`."]
    if not scenarios:
        return "\n".join(["# Captions", "", "No caption is perturbed.", "", *notes]) + "\n"
    first = scenarios[0].first
    lines = [f"# Captions of {shown.name(first.dataset)} under {shown.name(first.suite)}", ""]
    counted = [part.statistics for part in scenarios]
    rows = sum(row.captions for row in counted)
    lines += [f"{rows:,} rows; variant {shown.name(first.variant)}, seed {first.seed}."]
    lines += ["", *notes]
    return "\n".join([*lines, *_distances(counted, first.suite, adapter), *_entries(scenarios)]) + "\n"


_DISTANCES = {"bleu4": "BLEU-4", "meteor": "METEOR", "rouge1": "ROUGE-1 F1"}
_PRINTED = {"rouge_f1": "rouge1"}


def _distances(counted: Sequence[TextStatisticsRow], suite: str, adapter: str) -> list[str]:
    """Means over the perturbations of each category, beside the published ones of the dataset."""
    papers = {
        (cell.perturbation, _PRINTED.get(cell.metric, cell.metric)): cell
        for cell in published.cells()
        if (cell.suite, cell.dataset) == (suite, adapter) and _PRINTED.get(cell.metric, cell.metric) in _DISTANCES
    }
    by_level: dict[str, list[TextStatisticsRow]] = defaultdict(list)
    for row in counted:
        by_level[row.level].append(row)
    lines = []
    for level, members in by_level.items():
        texts = [level]
        for name in _DISTANCES:
            values = [value for row in members if (value := getattr(row, name)) is not None]
            texts += [f"{sum(values) / len(values):.2f}" if values else ""]
            texts += [papers[level, name].printed if (level, name) in papers else ""] if papers else []
        lines.append(f"| {' | '.join(texts)} |")
    heads = ["category", *(head for name in _DISTANCES.values() for head in ((name, "paper") if papers else (name,)))]
    table = ["", "## Distance from the originals", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines]
    if papers:
        tables = sorted({f"{published.PAPERS[cell.paper]}, Table {cell.table}" for cell in papers.values()})
        note = "Its ROUGE-1 is of another measure: less than the captions that stay as they are give alone."
        table += ["", f"paper: {', '.join(tables)}. {note}"]
    return table if lines else []


_BySeverity = dict[int, CaptionSummary]


def grouped(scenarios: Iterable[CaptionSummary]) -> list[tuple[registry.Perturbation, _BySeverity]]:
    """The summaries by perturbation, and by ascending severity."""
    groups: dict[str, _BySeverity] = defaultdict(dict)
    for part in scenarios:
        groups[f"{part.first.suite}/{part.first.perturbation}"][part.first.severity] = part
    return [(registry.get(key), dict(sorted(by_severity.items()))) for key, by_severity in groups.items()]


def middle(by_severity: _BySeverity) -> CaptionSummary:
    """The summary of the middle severity, of the higher one where two are in the middle."""
    return by_severity[list(by_severity)[len(by_severity) // 2]]


def _entries(scenarios: Iterable[CaptionSummary]) -> list[str]:
    lines = []
    for entry, by_severity in grouped(scenarios):
        lines += ["", f"## {entry.name}", "", f"{sentence(entry.summary)} {entry.category}. {entry.source}.", ""]
        lines += about(entry)
        lines += [
            "",
            "| severity | parameters | changed | accepted | similarity | tries |",
            "|---|---|---|---|---|---|",
            *(_counted(entry, severity, part) for severity, part in by_severity.items()),
        ]
        lines += ["", *_pairs(middle(by_severity).examples)]
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


def _counted(entry: registry.Perturbation, severity: int, part: CaptionSummary) -> str:
    values = json.loads(part.first.params).items()
    parameters = ", ".join(shown.name(f"{name} {_number(value)}") for name, value in values) or "none"
    counted = part.statistics
    changed, accepted = (f"{count / counted.captions:.1%}" for count in (counted.changed, counted.accepted))
    similarity = f"{counted.similarity_mean:.2f}" if counted.similarity_mean is not None else ""
    gate = [accepted, similarity, f"{counted.attempts_mean:.1f}"] if entry.gated else ["", similarity, ""]
    return f"| {severity} | {parameters} | {changed} | {' | '.join(gate)} |"


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _pairs(changed: Sequence[TextRow]) -> list[str]:
    """A table of changed captions."""
    if not changed:
        return ["No caption changed."]
    lines = ["| before | after |", "|---|---|"]
    return lines + [f"| {shown.markdown(row.source_text)} | {shown.markdown(row.text)} |" for row in changed]
