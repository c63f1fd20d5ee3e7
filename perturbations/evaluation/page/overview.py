"""The report's first tables: R@k of each retrieval; every method on clean queries, each category, and all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perturbations.evaluation.page.intervals import (
    CLEAN,
    CLEAN_COLUMN,
    RECALLS,
    IntervalColumn,
    IntervalSpan,
    Scores,
    marks,
    mean_column,
    spans_of,
)
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    SIDES,
    Cell,
    PagePart,
    PageTable,
    Panel,
    PlotLine,
    Text,
    method_label,
    number,
    online,
    titled,
)
from perturbations.evaluation.page.ranks import ScenarioKey
from perturbations.evaluation.page.views import METRICS, Shown, Views
from perturbations.retrieval.bootstrap import Samples
from perturbations.tta.methods import registry as methods

_FORMS = {"median_rank": ".1f", "hub_skewness": ".2f"}
_NAMES = {"median_rank": "median rank", "hub_skewness": "Hubness (skewness of the k-occurrence)"}
_LOWER = ("median_rank", "hub_skewness")
"""The metrics of which the lowest value is the best."""
_ALL_FORMS = ("csv", "md", "tex")
NEAR_ZERO = ("hub_skewness", "hub_truncated_skewness")
"""The metrics of which the value nearest to 0 is the best."""

_WITH_INTERVALS = (
    "Small: change against {baseline}, and its 95 % interval (paired bootstrap over queries); of {baseline}, the "
    "interval of the value. Bold: best, its difference to every other method is off zero. ≈: best, and methods that "
    "are not separable from it. Underlined: second best."
)
_TRANSDUCTIVE = (
    "†: needs all queries at once, so it is neither marked nor compared with methods that answer each batch."
)
_OF_GALLERY = "Methods adapt the encoder of the queries; the perturbed gallery is encoded by the model as it is."
_WITHOUT_INTERVALS = "Small: change against {baseline}. Bold: best; underlined: second best; without intervals."


def summary(of_directions: Mapping[str, Sequence[Scores]], views: Views) -> list[PagePart]:
    """What the page opens on: R@k of the model as it is for each direction, side and suite, clean and perturbed."""
    models = [scores for of_direction in of_directions.values() for scores in of_direction]
    dataset, several = models[0].dataset, len({scores.model for scores in models}) > 1
    baseline = methods.baseline()
    lines: list[PlotLine] = []
    for shown in views.retrievals:
        for scores in of_directions.get(shown.direction, ()):
            levels = scores.scenarios(shown.suite, shown.side) if shown.suite else {}
            scenarios = [scenario for members in levels.values() for scenario in members]
            columns = [mean_column("all", scenarios) if scenarios else None, CLEAN_COLUMN]
            cells = [
                Cell("" if column is None else number(scores.value(metric, baseline.name, column), ".1f"))
                for column in columns
                for metric in RECALLS
            ]
            name = titled(shown.name, scores.model if several else "")
            lines.append(PlotLine(name, [*cells, *_count_cells(scores, scenarios or [CLEAN])], views.choice(shown)))
    heads = [Cell(METRICS[metric], first=place == 0) for place, metric in enumerate(RECALLS)]
    head = [
        [Cell("retrieval"), Cell("perturbed", span=3, first=True), Cell("clean", span=3, first=True), Cell("", span=2)],
        [Cell(""), *heads, *heads, Cell("N", first=True), Cell("gallery")],
    ]
    caption = f"{dataset}, {baseline.title} (the model as it is): R@k by direction and perturbed side"
    note = "The name of a row chooses it below. Perturbed: the mean over perturbations of each one's severities."
    return [Panel(views.of(dataset), [PageTable(caption, head, lines, stacked=True, note=note, forms=_ALL_FORMS)])]


def _count_cells(scores: Scores, scenarios: Sequence[ScenarioKey]) -> list[Cell]:
    counted = [own for scenario in scenarios if (own := scores.counts(scenario))]
    return [Cell(_range(own[place] for own in counted)) for place in (0, 2)]


def _range(values: Iterable[int]) -> str:
    known = sorted(set(values))
    return "" if not known else f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,}-{known[-1]:,}"


def counted(models: Sequence[Scores], scenarios: Iterable[ScenarioKey]) -> str:
    """How many queries were run and are missing, and the size of the gallery, over scenarios and models."""
    known = [own for scores in models for scenario in scenarios if (own := scores.counts(scenario))]
    if not known:
        return ""
    queries, missing, gallery = (_range(own[place] for own in known) for place in range(3))
    text = f"N {queries}, missing {missing}, gallery {gallery}."
    least = min(own[2] for own in known)
    if least <= max(RECALLS.values()):
        text += f" In a gallery of {least}, R@k is 100 for every model from k = {least} on."
    return text


def tables(models: Sequence[Scores], views: Views) -> list[PagePart]:
    """The table of methods of each view of a dataset and direction, once per metric; models stand side by side."""
    first = models[0]
    parts: list[PagePart] = []
    for retrieval in views.retrievals:
        if retrieval.direction != first.direction:
            continue
        shown = views.of(first.dataset, *retrieval)
        suite = retrieval.suite
        scenarios = [scores.scenarios(suite, retrieval.side) if suite else {} for scores in models]
        names, own = _columns(scenarios)
        for metric in METRICS:
            parts.append(Panel(shown, [_table(models, retrieval, metric, names, own, scenarios)], metric))
        notes = _notes(models, suite, scenarios)
        parts += [Panel(shown, [Text(note) for note in notes])] if notes else []
    return parts


def _columns(
    scenarios: Sequence[dict[str, list[ScenarioKey]]],
) -> tuple[list[str], list[list[IntervalColumn | None]]]:
    """The headings, and each model's columns: None where it was not asked a category."""
    levels = list(dict.fromkeys(level for of_model in scenarios for level in of_model))
    names = ["clean", *levels, *(["all"] if len(levels) > 1 else [])]
    own = []
    for of_model in scenarios:
        means = [mean_column(level, of_model[level]) if level in of_model else None for level in levels]
        every = [scenario for members in of_model.values() for scenario in members]
        total = [mean_column("all", every) if every else None] if len(levels) > 1 else []
        own.append([CLEAN_COLUMN, *means, *total])
    return names, own


def _table(
    models: Sequence[Scores],
    retrieval: Shown,
    metric: str,
    names: Sequence[str],
    own: Sequence[Sequence[IntervalColumn | None]],
    scenarios: Sequence[dict[str, list[ScenarioKey]]],
) -> PageTable:
    first = models[0]
    sampled = any(scores.sampled for scores in models) and metric not in _LOWER
    wording = _WITH_INTERVALS if sampled else _WITHOUT_INTERVALS
    side = SIDES.get(retrieval.side, "")
    where = titled(first.dataset, DIRECTIONS[first.direction], side, retrieval.suite, _severities(scenarios))
    several = len(models) > 1
    last = len(names) - 1 if names[-1] == "all" else -1
    titles = [
        Cell(name, first=place == 0 and several, average=place == last)
        for _ in models
        for place, name in enumerate(names)
    ]
    head = [[Cell("method"), *titles]]
    if several:
        head = [[Cell(""), *(Cell(scores.model, span=len(names), first=True) for scores in models)], *head]
    every = sorted(
        {name for scores in models for name in scores.methods}, key=lambda name: (methods.place_of(name), name)
    )
    of_models = zip(models, own, strict=True)
    columns = [_cells(scores, column, metric, every) for scores, members in of_models for column in members]
    labels = list(map(method_label, every))
    body = [PlotLine(label, [cells[place] for cells in columns]) for place, label in enumerate(labels)]
    asked = [entry for of_model in scenarios for members in of_model.values() for entry in members]
    note = [wording.format(baseline=methods.baseline().title)]
    note += [_OF_GALLERY] if retrieval.side in ("gallery", "both") else []
    note += [_TRANSDUCTIVE] if any("†" in label for label in labels) else []
    return PageTable(
        f"{_NAMES.get(metric, METRICS[metric])}: {where}",
        head,
        body,
        stacked=True,
        grouped="model" if several else "",
        note=" ".join([*note, counted(models, asked or [CLEAN])]),
        forms=_ALL_FORMS if metric == "recall_at_1" else ("csv",),
    )


def _cells(scores: Scores, column: IntervalColumn | None, metric: str, every: Sequence[str]) -> list[Cell]:
    """The cells of a column, one per method of `every`."""
    if column is None:
        return [Cell("") for _ in every]
    form = form_of(metric)
    values = [scores.value(metric, method, column) for method in every]
    samples = [scores.samples(metric, method, column) for method in every]
    marked = marked_methods(metric, values, samples, every)
    baseline = methods.baseline().name
    cells = []
    for method, value, own, mark in zip(every, values, samples, marked, strict=True):
        if method == baseline:
            span = scores.own_span(metric, column, own)
            cells.append(Cell(number(value, form), mark=mark, interval=ends(span, form)))
            continue
        change, of_change = scores.change(metric, method, column)
        (span,) = spans_of([own if of_change is None else of_change])
        cells.append(Cell(number(value, form), mark=mark, change=number(change, f"+{form}"), interval=ends(span, form)))
    return cells


def marked_methods(
    metric: str, values: Sequence[float], samples: Sequence[Samples | None], names: Sequence[str]
) -> list[str]:
    """The marks of methods by a metric, among those that need not know all queries at once."""
    compared = [abs(value) for value in values] if metric in NEAR_ZERO else values
    return marks(online(compared, names), samples, form_of(metric), lower=metric in _LOWER)


def form_of(metric: str) -> str:
    """How a metric's values are written."""
    return _FORMS.get(metric, ".1f")


def ends(span: IntervalSpan | None, form: str) -> tuple[str, str] | tuple[()]:
    """The ends of an interval as text."""
    return () if span is None else (number(span[0], form), number(span[1], form))


def _severities(scenarios: Sequence[dict[str, list[ScenarioKey]]]) -> str:
    """The severities of the columns: of all of them, or of each category where they differ."""
    by_level: dict[str, set[int]] = {}
    for of_model in scenarios:
        for level, members in of_model.items():
            by_level.setdefault(level, set()).update(entry.severity for entry in members if entry.severity)
    known = {level: sorted(own) for level, own in by_level.items() if own}
    if not known:
        return "unperturbed queries"
    if len(set(map(tuple, known.values()))) == 1:
        (severities, *_) = known.values()
        return f"severity {severities[0]}" if len(severities) == 1 else f"mean over severities {_listed(severities)}"
    return "severities: " + ", ".join(f"{level} {_listed(own)}" for level, own in known.items())


def _listed(severities: Sequence[int]) -> str:
    if len(severities) > 2 and list(severities) == list(range(severities[0], severities[-1] + 1)):
        return f"{severities[0]} to {severities[-1]}"
    return ", ".join(map(str, severities))


def _notes(models: Sequence[Scores], suite: str, scenarios: Sequence[dict[str, list[ScenarioKey]]]) -> list[str]:
    """What a reader must know before comparing models, or without intervals."""
    notes = []
    entries = [{entry for level in of_model.values() for entry in level} for of_model in scenarios]
    if any(other != entries[0] for other in entries):
        counts = "; ".join(f"{scores.model}: {len(own)}" for scores, own in zip(models, entries, strict=True))
        notes.append(f"The models were not asked the same scenarios of {suite} ({counts}): their means do not compare.")
    missing = [scores.model for scores in models if not scores.sampled]
    if missing:
        notes.append(
            f"No intervals for {', '.join(missing)}: no ranks.parquet was given beside its results. Run its evaluation "
            "again for one."
        )
    return notes
