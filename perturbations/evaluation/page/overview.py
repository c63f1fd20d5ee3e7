"""The report's leaderboard: a row per model and method, a column per perturbation; and, folded, each scenario."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from perturbations.evaluation.page.intervals import (
    CLEAN_MEAN,
    RECALLS,
    Estimate,
    IntervalSpan,
    ScenarioMean,
    Scores,
    marks,
    mean_of,
    place_in,
    spans_of,
)
from perturbations.evaluation.page.page_tables import FORMS, PageTable, number
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    SIDES,
    Group,
    PagePart,
    RetrievalChoice,
    Views,
    in_order,
    label,
    method_label,
    metrics_of,
    named,
    needs_all_queries,
    titled,
)
from perturbations.evaluation.page.ranks import run_of
from perturbations.evaluation.rows import CLEAN_SCENARIO, RANKS, ScenarioKey
from perturbations.manifest import layout
from perturbations.tta.methods import registry as methods

_FORMS = {"median_rank": ".1f", "hub_skewness": ".2f"}
_NAMES = {"median_rank": "median rank", "hub_skewness": "Hubness (skewness of the k-occurrence)"}
_LOWER = ("median_rank", "hub_skewness")
"""The metrics of which the lowest value is the best."""
NEAR_ZERO = ("hub_skewness", "hub_truncated_skewness")
"""The metrics of which the value nearest to 0 is the best."""

_WITH_INTERVALS = (
    "Small: change against {baseline}, and its 95 % interval (paired bootstrap over queries, the captions of a clip "
    "together); of {baseline}, the interval of the value. Bold: best, its difference to every other row is off zero "
    "(Holm, 5 % per column). ≈: best, and rows that are not separable from it. Underlined: second best."
)
_SMALL = (
    "Small or in brackets: 95 % interval over queries. Bold: best; ≈: not separable from the best (Holm, 5 % per "
    "column); underlined: second best."
)
_TRANSDUCTIVE = (
    "†: needs all queries at once, so it is neither marked nor compared with methods that answer each batch."
)
_OF_GALLERY = "Methods adapt the encoder of the queries; the perturbed gallery is encoded by the model as it is."
_WITHOUT_INTERVALS = "Small: change against {baseline}. Bold: best; underlined: second best; without intervals."


def collapsed(models: Sequence[Scores]) -> list[str]:
    """A sentence on the methods that are not marked because they lost their clean result; none without such."""
    lost = in_order(name for scores in models for name in scores.collapsed)
    names = ", ".join(map(method_label, lost))
    return [f"Not marked: {names}, whose clean R@1 lost more than its own interval."] if lost else []


def note_of(models: Sequence[Scores], scenarios: Iterable[ScenarioKey]) -> str:
    """How to read a further table of models: its intervals and marks, who is not marked, and how many were compared."""
    sampled = [_SMALL] if any(scores.sampled for scores in models) else []
    return " ".join(filter(None, [*sampled, *collapsed(models), counted(models, scenarios)]))


def span_of_numbers(values: Iterable[int]) -> str:
    """A number, or the least and the greatest of several."""
    known = sorted(set(values))
    return "" if not known else f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,}-{known[-1]:,}"


def counted(models: Sequence[Scores], scenarios: Iterable[ScenarioKey]) -> str:
    """How many queries were run and are missing, and the size of the gallery, over scenarios and models."""
    wanted = list(scenarios)
    known = [own for scores in models for own in scores.counts(wanted)]
    if not known:
        return ""
    queries, missing, gallery = (span_of_numbers(own[place] for own in known) for place in range(3))
    text = f"N {queries}, missing {missing}, gallery {gallery}."
    least = min(own[2] for own in known)
    means = any(scores.rows["gallery_mean"].notna().any() for scores in models)  # of galleries of several sizes
    if least <= max(RECALLS.values()) and not means:
        text += f" In a gallery of {least}, R@k is 100 for every model from k = {least} on."
    return text


def tables(models: Sequence[Scores], views: Views) -> list[PagePart]:
    """The leaderboard of each view of a dataset and direction, once per metric: a row per model and method."""
    first = models[0]
    parts: list[PagePart] = []
    for retrieval in views.retrievals:
        if retrieval.direction != first.direction:
            continue
        own_views = views.of(first.dataset, *retrieval)
        scenarios = [scores.scenarios(retrieval.suite, retrieval.side) for scores in models]
        columns = _columns(retrieval.suite, models, scenarios)
        parts += [
            Group([_table(models, retrieval, metric, columns, scenarios)], views=own_views, metric=metric)
            for metric in metrics_of(first.rows)
        ]
        notes = _notes(models, retrieval.suite, scenarios)
        parts += [Group(notes, views=own_views)] if notes else []
    return parts


_Column = tuple[tuple[str, str], list[ScenarioMean | None]]
"""The group and the name of a column, and of each model what it is the mean of: None where it was not run."""
_MEANS = ("clean", "mean")
"""The columns whose intervals the page shows."""


def _columns(
    suite: str, models: Sequence[Scores], scenarios: Sequence[Mapping[str, list[ScenarioKey]]]
) -> list[_Column]:
    """Clean queries, the mean over perturbations, and each perturbation's mean over its severities, by category."""
    named: list[dict[tuple[str, str], list[ScenarioKey]]] = []
    for scores, of_model in zip(models, scenarios, strict=True):
        own: dict[tuple[str, str], list[ScenarioKey]] = {}
        for category, members in of_model.items():
            for key in members:
                heading = label(suite, key.perturbation, scores.first_rows[key]["backend"])
                heading += f" + {key.text_perturbation}" if key.text_perturbation else ""
                own.setdefault((category, heading), []).append(key)
        named.append(own)
    categories = list(dict.fromkeys(category for own in named for category, _ in own))
    names = sorted(dict.fromkeys(name for own in named for name in own), key=lambda name: categories.index(name[0]))
    columns: list[_Column] = [(("", "clean"), [CLEAN_MEAN for _ in models])]
    if len(names) > 1:
        every = [[key for members in own.values() for key in members] for own in named]
        columns.append((("", "mean"), [mean_of(keys) if keys else None for keys in every]))
    return columns + [(name, [mean_of(own[name]) if name in own else None for own in named]) for name in names]


def _table(
    models: Sequence[Scores],
    retrieval: RetrievalChoice,
    metric: str,
    columns: Sequence[_Column],
    scenarios: Sequence[Mapping[str, list[ScenarioKey]]],
) -> PageTable:
    first, several = models[0], len(models) > 1
    sampled = any(scores.sampled for scores in models) and metric not in _LOWER
    is_compared = any(scores.reference == methods.baseline().name for scores in models)
    wording = (_WITH_INTERVALS if is_compared else _SMALL) if sampled else _WITHOUT_INTERVALS
    side = SIDES.get(retrieval.side, "")
    where = titled(first.dataset, DIRECTIONS[first.direction], side, retrieval.suite, _severities(scenarios))
    every = in_order(name for scores in models for name in scores.methods)
    names = [
        titled(scores.model if several else "", method_label(method)) for scores in models for method in scores.methods
    ]
    data = [(name, _compared(models, of_models, metric)) for name, of_models in columns]
    members = [entry for of_model in scenarios for own in of_model.values() for entry in own]
    note = [wording.format(baseline=methods.baseline().title)]
    note += [_OF_GALLERY] if retrieval.side in ("gallery", "both") else []
    note += [_TRANSDUCTIVE] if any(map(needs_all_queries, every)) else []
    note += _without_effect(models, metric, columns)
    return PageTable(
        f"{_NAMES.get(metric) or metrics_of(first.rows)[metric]}: {where}",
        named(data, names, "model, method" if several else "method"),
        form_of(metric),
        " ".join([*note, *collapsed(models), counted(models, members or [CLEAN_SCENARIO])]),
        stacked=True,
        brief=_MEANS,
        forms=tuple(FORMS) if metric == "recall_at_1" else (),
    )


def _without_effect(models: Sequence[Scores], metric: str, columns: Sequence[_Column]) -> list[str]:
    """A sentence on the methods that change no column of any model, but for the baseline; none without such."""
    baseline = methods.baseline().name
    names = in_order(name for scores in models for name in scores.methods if baseline in scores.methods)
    same = [
        name
        for name in names
        if name != baseline
        and all(
            column is None
            or name not in scores.methods
            or np.array_equal(
                scores.estimate(metric, name, column), scores.estimate(metric, baseline, column), equal_nan=True
            )
            for _, of_models in columns
            for scores, column in zip(models, of_models, strict=True)
        )
    ]
    labels = ", ".join(map(method_label, same))
    return [f"As {methods.baseline().title} in every column: {labels}."] if same else []


def _compared(
    models: Sequence[Scores], columns: Sequence[ScenarioMean | None], metric: str
) -> dict[str, Sequence[object]]:
    """The parts of a column: of each model's methods the value, its change against the baseline, and the interval.

    The best of all models and methods is marked: their resamples are the same. What changes nothing has no change.
    """
    baseline = methods.baseline().name
    values: list[float | None] = []
    changed: list[float | None] = []
    spans: list[IntervalSpan | None] = []
    competing: list[Estimate] = []
    for scores, column in zip(models, columns, strict=True):
        if column is None:
            nothing = np.full((len(scores.methods), 1), np.nan)
            values, changed, spans = ([*own, *[None] * len(nothing)] for own in (values, changed, spans))
            competing.append(nothing)
            continue
        estimates = np.stack([scores.estimate(metric, method, column) for method in scores.methods])
        changes = estimates - scores.estimate(metric, baseline, column)
        for method, own, change, span in zip(scores.methods, estimates, changes, spans_of(changes), strict=True):
            is_changed = scores.reference == baseline and method != baseline
            values.append(float(own[0]))
            changed.append(float(change[0]) if is_changed and np.any(change) else None)
            of_value = None if is_changed else scores.own_span(metric, column, own)
            spans.append(span if is_changed and np.any(change) else of_value)
        competing.append(scores.competing(estimates, scores.methods))
    drawn = min(own.shape[1] for own in competing)
    drawn = drawn if all(own.shape[1] == drawn for own in competing) else 1
    return {
        "value": values,
        "change": changed,
        **ends(spans),
        "mark": _marks_of(metric, np.concatenate([own[:, :drawn] for own in competing])),
    }


def _marks_of(metric: str, competing: Estimate) -> list[str]:
    return marks(np.abs(competing) if metric in NEAR_ZERO else competing, form_of(metric), lower=metric in _LOWER)


def marked_methods(scores: Scores, metric: str, estimates: Estimate, names: Sequence[str]) -> list[str]:
    """The marks of methods by a metric, among those that compete."""
    return _marks_of(metric, scores.competing(estimates, names))


def form_of(metric: str) -> str:
    """How a metric's values are written."""
    return _FORMS.get(metric, ".1f")


def ends(spans: Sequence[IntervalSpan | None]) -> dict[str, list[float | None]]:
    """The parts of a column with the ends of intervals."""
    return {part: [span and span[place] for span in spans] for place, part in enumerate(("low", "high"))}


def _severities(scenarios: Sequence[Mapping[str, list[ScenarioKey]]]) -> str:
    """The severities of the columns: of all of them, or of each category where they differ."""
    by_category: dict[str, set[int]] = {}
    for of_model in scenarios:
        for category, members in of_model.items():
            by_category.setdefault(category, set()).update(entry.severity for entry in members if entry.severity)
    known = {category: listed(sorted(own)) for category, own in by_category.items() if own}
    if not known:
        return "unperturbed queries"
    if len(set(known.values())) == 1:
        (severities, *_) = known.values()
        return f"severity {severities}" if severities.isdecimal() else f"mean over severities {severities}"
    return "severities: " + ", ".join(f"{category} {own}" for category, own in known.items())


def listed(severities: Sequence[int]) -> str:
    """Severities in ascending order as words: "5", "1 to 5", "1, 3, 5"."""
    if len(severities) > 2 and list(severities) == list(range(severities[0], severities[-1] + 1)):
        return f"{severities[0]} to {severities[-1]}"
    return ", ".join(map(str, severities))


def _notes(models: Sequence[Scores], suite: str, scenarios: Sequence[Mapping[str, list[ScenarioKey]]]) -> list[str]:
    """What a reader must know before comparing models, or without intervals."""
    notes = []
    entries = [{entry for members in of_model.values() for entry in members} for of_model in scenarios]
    if any(other != entries[0] for other in entries):
        counts = "; ".join(f"{scores.model}: {len(own)}" for scores, own in zip(models, entries, strict=True))
        notes.append(
            f"The models were not run in the same scenarios of {suite} ({counts}): their means do not compare."
        )
    missing = [scores.model for scores in models if not scores.sampled]
    if missing:
        notes.append(
            f"No intervals for {', '.join(missing)}: no {layout.name(RANKS.name)} was given beside its results. "
            "Run its evaluation again for one."
        )
    return notes


# --- in each scenario, as the papers print it -------------------------------------------------------------------------


def recall(models: Sequence[Scores], views: Views) -> list[PagePart]:
    """R@1 of each method at each of several severities, as in the papers' tables, and of mixed videos; folded."""
    first = models[0]
    rows = pd.concat([scores.rows for scores in models])
    parts: list[PagePart] = []
    for (group, suite), of_suite in rows[rows["suite"] != "clean"].groupby(["side", "suite"], sort=True):
        side, suite = str(group), str(suite)
        folded: list[PagePart] = []
        where = titled(first.dataset, DIRECTIONS[first.direction], SIDES.get(side, ""), suite)
        unmixed = of_suite[of_suite["mix"].isna()]
        by_severity = unmixed.groupby(unmixed["severity"].astype(int), sort=True)
        # Of one severity the leaderboard is the table, unless queries differ between its columns.
        for severity, own in by_severity if by_severity.ngroups > 1 or rows["queries"].nunique() > 1 else ():
            table = _of_scenarios(f"R@1: {where} at severity {severity}", models, _perturbations(suite, own))
            folded.append(Group([table], f"{suite} at severity {severity}: R@1"))
        for mix, own in of_suite[of_suite["mix"].notna()].groupby("mix", sort=True):
            name = str(mix).replace("_", " ")
            table = _of_scenarios(f"R@1: {where}, {name}", models, {name: _mixed(own)})
            folded.append(Group([table], f"{suite}, {name}: R@1"))
        parts.append(Group(folded, views=views.of(first.dataset, first.direction, side, suite)))
    return parts


_NamedMean = tuple[str, ScenarioMean]
"""The heading of a column, and what it is the mean of."""


def _perturbations(suite: str, rows: pd.DataFrame) -> dict[str, list[_NamedMean]]:
    """The perturbations at one severity by category, in the paper's order."""
    place = place_in(suite)
    scenarios = {run_of(row)[0]: row for row in reversed(rows.to_dict("records"))}
    categories: dict[str, list[_NamedMean]] = {}
    for scenario in sorted(scenarios, key=lambda key: (*place(key), key.text_severity or 0)):
        row = scenarios[scenario]
        heading = label(suite, scenario.perturbation, row["backend"])
        heading += f" + {scenario.text_perturbation} {scenario.text_severity}" if scenario.text_perturbation else ""
        categories.setdefault(row["category"], []).append((heading, ((scenario, 1.0),)))
    return categories


def _mixed(rows: pd.DataFrame) -> list[_NamedMean]:
    scenarios = dict.fromkeys(run_of(row)[0] for row in rows.to_dict("records"))
    return [
        (key.perturbation if key.share is None else f"{key.share:.0%} perturbed", ((key, 1.0),)) for key in scenarios
    ]


def _average(columns: Sequence[_NamedMean]) -> _NamedMean:
    return "average", tuple((mean[0][0], 1 / len(columns)) for _, mean in columns)


def _of_scenarios(title: str, models: Sequence[Scores], categories: Mapping[str, Sequence[_NamedMean]]) -> PageTable:
    """Methods x perturbations, grouped by category, with averages; several models one below the other."""
    columns = [("", "clean", CLEAN_MEAN)]
    for category, members in categories.items():
        columns += [(category, *own) for own in [*members, *([_average(members)] if len(members) > 1 else [])]]
    if len(categories) > 1:
        columns.append(("all", *_average([own for members in categories.values() for own in members])))
    of_models = {scores.model if len(models) > 1 else "": _of_model(scores, columns) for scores in models}
    data = pd.concat(of_models, names=["", "", "method"]).droplevel(1)
    note = note_of(models, (scenario for *_, mean in columns[1:] for scenario, _ in mean))
    return PageTable(title, data, ".1f", note)


def _of_model(scores: Scores, columns: Sequence[tuple[str, str, ScenarioMean]]) -> pd.DataFrame:
    """A model's methods, then where they differ the numbers of queries, of missing ones and of gallery items.

    And where queries differ, the clean result over the queries of each column.
    """
    counts = [scores.counts([mean[0][0]]) if len(mean) == 1 else [] for *_, mean in columns]
    counted = {
        name: [f"{own[0][place]:,}" if own else "" for own in counts]
        for place, name in enumerate(("queries (N)", "missing queries", "gallery"))
        if len({own[0][place] for own in counts if own}) > 1
    }
    if "queries (N)" in counted:  # a loss is against these, not against all clean queries
        own_clean = [scores.value("clean_recall_at_1", scores.reference, mean) for *_, mean in columns]
        of_reference = "clean R@1 of these queries" + f", {method_label(scores.reference)}" * (len(scores.methods) > 1)
        counted[of_reference] = ["" if value != value else number(value, ".1f") for value in own_clean]
    data = [
        ((category, name), _marked(scores, mean, [own[place] for own in counted.values()]))
        for place, (category, name, mean) in enumerate(columns)
    ]
    return named(data, [*map(method_label, scores.methods), *counted], "method")


def _marked(scores: Scores, column: ScenarioMean, below: Sequence[str]) -> dict[str, Sequence[object]]:
    """The parts of a column, and what stands below its methods; with several seeds, the deviation over them."""
    metric, names = "recall_at_1", scores.methods
    estimates = np.stack([scores.estimate(metric, method, column) for method in names])
    seeds = [scores.of_seeds(metric, method, column)[:, 0] for method in names]
    spreads = [float(np.std(own, ddof=1)) if len(own) > 1 else None for own in seeds]
    spans = [scores.own_span(metric, column, own) for own in estimates]
    marked = marked_methods(scores, metric, estimates, names)
    empty = [""] * len(below)
    parts: dict[str, Sequence[object]] = {"std": spreads, **ends(spans), "mark": marked}
    return {"value": [*estimates[:, 0].tolist(), *below], **{name: [*own, *empty] for name, own in parts.items()}}
