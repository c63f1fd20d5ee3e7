"""The leaderboard of a retrieval: a row per model and method, a column per perturbation; and further tables so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from perturbations.evaluation.page.intervals import (
    CLEAN_MEAN,
    RECALLS,
    Estimate,
    IntervalSpan,
    ScenarioMean,
    Scores,
    marks,
    mean_of,
    spans_of,
)
from perturbations.evaluation.page.names import (
    RetrievalChoice,
    in_order,
    label,
    listed,
    method_label,
    needs_all_queries,
    span_of_numbers,
    titled,
)
from perturbations.evaluation.page.tables import Cell, Column, PagePart, PageTable, Section, cell_of, number
from perturbations.evaluation.rows import CLEAN_SCENARIO, RANKS, ScenarioKey
from perturbations.manifest import layout
from perturbations.tta.methods import registry as methods

METRICS = {
    "recall_at_1": "R@1",
    "recall_at_2": "R@2",
    "recall_at_3": "R@3",
    "recall_at_5": "R@5",
    "recall_at_10": "R@10",
    "rsum": "RSUM",
    "median_rank": "median rank",
    "hub_skewness": "Hubness (skewness of the k-occurrence)",
}
"""The metrics of leaderboards; R@2 and R@3 are of composed retrieval, whose galleries are small."""
_FORMS = {"median_rank": ".1f", "hub_skewness": ".2f"}
_LOWER = ("median_rank", "hub_skewness")
"""The metrics of which the lowest value is the best."""
NEAR_ZERO = ("hub_skewness", "hub_truncated_skewness")
"""The metrics of which the value nearest to 0 is the best."""
_WITH_LOSS = (*RECALLS, "rsum")
"""The metrics of which the clean result over the same queries is known."""
LOSS = "loss"
_BRIEF = ("clean", "mean", LOSS)
"""The columns whose changes, intervals and deviations the page shows; the CSV has those of all."""

_WITH_INTERVALS = (
    "Small: change against {baseline}, and its 95 % interval (paired bootstrap over queries, the captions of a clip "
    "together); of {baseline}, the interval of the value. Bold: best, its difference to every other row is off zero "
    "(Holm, 5 % per column). ≈: best, and rows that are not separable from it; no mark where none is. Underlined: "
    "second best."
)
_SMALL = (
    "Small: 95 % interval over queries. Bold: best; ≈: not separable from the best (Holm, 5 % per column), no mark "
    "where none is; underlined: second best."
)
_WITHOUT_INTERVALS = "Small: change against {baseline}. Bold: best; underlined: second best; without intervals."
_OF_SOME = "Some models have no intervals: bold is then the best value."
_OF_LOSS = "Loss: mean difference to the same method's clean result over the same queries and an equal gallery."
_OF_SEEDS = "±: sample deviation over seeds."
_OF_GALLERY = "Methods adapt the encoder of the queries; the perturbed gallery is encoded by the model as it is."
_TRANSDUCTIVE = (
    "†: needs all queries at once, so it is neither marked nor compared with methods that answer each batch."
)

_Column = tuple[tuple[str, str], Sequence[ScenarioMean | None]]
"""The group and the name of a column, and of each model what it is the mean of: None where it was not run."""


def of_retrieval(models: Sequence[Scores], retrieval: RetrievalChoice) -> Iterator[PagePart]:
    """The leaderboard of R@1 and notes; folded, those of other metrics and of mixed videos; for the CSV, scenarios."""
    suite, side = retrieval.suite, retrieval.side
    keys = [scores.every(suite, side) for scores in models]
    where = retrieval.title(models[0].dataset)
    at = titled(where, severities_of(models, keys))
    clean: _Column = ("", "clean"), [CLEAN_MEAN for _ in models]
    columns = _columns(models, keys, lambda scores, key: (_category(scores, key), _heading(scores, key)))
    if len(columns) > 1:
        every = [mean_of(own) if own else None for own in keys]
        columns = [(("", "mean"), every), (("", LOSS), every), *columns]
    columns = [clean, *columns]
    known = [metric for metric in METRICS if any(scores.rows[metric].notna().any() for scores in models)]
    yield _table(models, retrieval, "recall_at_1", columns, at)
    yield from _notes(models, suite, keys)
    folded = [_table(models, retrieval, metric, columns, at) for metric in known if metric != "recall_at_1"]
    mixed = [[key for key in own.first_rows if key.mix and (key.suite, key.side) == (suite, side)] for own in models]
    for mix in dict.fromkeys(key.mix for own in mixed for key in own):
        shares = _columns(models, [[key for key in own if key.mix == mix] for own in mixed], lambda _, key: _share(key))
        folded.append(_table(models, retrieval, "recall_at_1", [clean, *shares], titled(where, _plain(mix))))
    yield Section("Other metrics" + (" and mixed videos" if any(mixed) else ""), folded)
    if len({key.severity for own in keys for key in own}) > 1:
        each = _columns(models, keys, lambda scores, key: (_category(scores, key), _heading(scores, key, full=True)))
        yield _table(models, retrieval, "recall_at_1", each, titled(where, "each scenario"), on_page=False)


def _columns(
    models: Sequence[Scores],
    keys: Sequence[Sequence[ScenarioKey]],
    heading: Callable[[Scores, ScenarioKey], tuple[str, str]],
) -> list[_Column]:
    """A column per heading, the mean over its scenarios; those of a category stand together."""
    members: dict[tuple[str, str], list[list[ScenarioKey]]] = {}
    for place, (scores, own) in enumerate(zip(models, keys, strict=True)):
        for key in own:
            members.setdefault(heading(scores, key), [[] for _ in models])[place].append(key)
    categories = list(dict.fromkeys(category for category, _ in members))
    names = sorted(members, key=lambda name: categories.index(name[0]))
    return [(name, [mean_of(own) if own else None for own in members[name]]) for name in names]


def _category(scores: Scores, key: ScenarioKey) -> str:
    return str(scores.first_rows[key]["category"])


def _heading(scores: Scores, key: ScenarioKey, *, full: bool = False) -> str:
    """What perturbs, marked where stand-ins made it; in full with its severities."""
    parts = [(label(key.suite, key.perturbation, scores.first_rows[key]["backend"]), key.severity)]
    parts += [(key.text_perturbation, key.text_severity)] if key.text_perturbation else []
    return " + ".join(f"{name} {severity}" if full else name for name, severity in parts)


def _plain(mix: str | None) -> str:
    return str(mix).replace("_", " ")


def _share(key: ScenarioKey) -> tuple[str, str]:
    return _plain(key.mix), key.perturbation if key.share is None else f"{key.share:.0%} perturbed"


def _table(
    models: Sequence[Scores],
    retrieval: RetrievalChoice,
    metric: str,
    columns: Sequence[_Column],
    where: str,
    *,
    on_page: bool = True,
) -> PageTable:
    several = len(models) > 1
    names = [titled(own.model if several else "", method_label(method)) for own in models for method in own.methods]
    page_columns = []
    for (group, name), of_models in columns:
        if name == LOSS and metric not in _WITH_LOSS:
            continue
        cells = (_lost if name == LOSS else _compared)(models, of_models, metric)
        if name != LOSS or any(cell.value for cell in cells):
            page_columns.append(Column(group, name, cells))
    scenarios = [key for _, of_models in columns[1:] for mean in of_models for key, _ in mean or ()]
    return PageTable(
        f"{METRICS[metric]}: {where}",
        "model, method" if several else "method",
        names,
        page_columns,
        " ".join(_note(models, retrieval, metric, columns, [*dict.fromkeys(scenarios)] or [CLEAN_SCENARIO])),
        style="board",
        brief=_BRIEF,
        has_files=on_page and metric == "recall_at_1",
        on_page=on_page,
    )


def _note(
    models: Sequence[Scores],
    retrieval: RetrievalChoice,
    metric: str,
    columns: Sequence[_Column],
    scenarios: Sequence[ScenarioKey],
) -> Iterator[str]:
    """How to read a table: its marks, its columns, who is not marked, and how many queries and items there are."""
    baseline = methods.baseline()
    sampled = any(scores.sampled for scores in models) and metric not in _LOWER
    is_compared = any(scores.reference == baseline.name for scores in models)
    wording = (_WITH_INTERVALS if is_compared else _SMALL) if sampled else _WITHOUT_INTERVALS
    yield wording.format(baseline=baseline.title)
    if sampled and not all(scores.sampled for scores in models):
        yield _OF_SOME
    if metric in _WITH_LOSS and any(name == LOSS for (_, name), _ in columns):
        yield _OF_LOSS
    if any(len(own) > 1 for scores in models for own in scores.seeds.values()):
        yield _OF_SEEDS
    if retrieval.side in ("gallery", "both"):
        yield _OF_GALLERY
    if any(needs_all_queries(name) for scores in models for name in scores.methods):
        yield _TRANSDUCTIVE
    if same := _without_effect(models, metric, columns):
        yield f"As {baseline.title} in every column: {', '.join(map(method_label, same))}."
    if lost := in_order(name for scores in models for name in scores.collapsed):
        yield f"Not marked: {', '.join(map(method_label, lost))}, whose clean R@1 lost more than its own interval."
    yield from counted(models, scenarios)
    if metric == "recall_at_1":
        yield from _of_other_queries(models, columns)


def _without_effect(models: Sequence[Scores], metric: str, columns: Sequence[_Column]) -> list[str]:
    """The methods that change no column of any model that has them and the baseline."""
    baseline = methods.baseline().name
    compared = [(scores, place) for place, scores in enumerate(models) if baseline in scores.methods]
    names = in_order(name for scores, _ in compared for name in scores.methods if name != baseline)
    return [
        name
        for name in names
        if not any(
            _differ(scores, metric, (name, baseline), of_models[place])
            for _, of_models in columns
            for scores, place in compared
            if name in scores.methods
        )
    ]


def _differ(scores: Scores, metric: str, names: tuple[str, str], column: ScenarioMean | None) -> bool:
    """Whether two methods differ in a column, in any resample."""
    one, other = (scores.estimate(metric, name, column) if column else np.zeros(1) for name in names)
    return not np.array_equal(one, other, equal_nan=True)


def _of_other_queries(models: Sequence[Scores], columns: Sequence[_Column]) -> Iterator[str]:
    """The clean result over the queries of a column, where these are not all: a loss is against it."""
    scores, reference = models[0], models[0].reference
    clean = [own[0] for own in scores.counts([CLEAN_SCENARIO])]
    for (_, name), (column, *_) in columns:
        counts = {own[0] for own in scores.counts(key for key, _ in column or ())}
        if name in _BRIEF or column is None or not clean or counts <= set(clean):
            continue
        of_clean = scores.value("clean_recall_at_1", reference, column)
        if of_clean == of_clean:
            what = titled(scores.model if len(models) > 1 else "", method_label(reference))
            yield f"{name}: clean R@1 of its {span_of_numbers(counts)} queries by {what}: {number(of_clean, '.1f')}."


def _compared(models: Sequence[Scores], columns: Sequence[ScenarioMean | None], metric: str) -> list[Cell]:
    """The cells of a column: of each model's methods the value, its change against the baseline, and the interval.

    The best of all models and methods is marked: their resamples are the same. What changes nothing has no change.
    """
    baseline, form = methods.baseline().name, form_of(metric)
    cells: list[dict[str, float | None]] = []
    competing: list[Estimate] = []
    for scores, column in zip(models, columns, strict=True):
        if column is None:
            cells += [{} for _ in scores.methods]
            competing.append(np.full((len(scores.methods), 1), np.nan))
            continue
        estimates = np.stack([scores.estimate(metric, method, column) for method in scores.methods])
        changes = estimates - scores.estimate(metric, baseline, column)
        for method, own, change, span in zip(scores.methods, estimates, changes, spans_of(changes), strict=True):
            cell = {"value": float(own[0]), "std": _spread(scores, metric, method, column)}
            if scores.reference != baseline or method == baseline:
                span = scores.own_span(metric, column, own)
            elif _is_seen((float(change[0]), *(span or ())), form):
                cell["change"] = float(change[0])
            else:
                span = None
            cells.append({**cell, **_ends(span)})
        competing.append(scores.competing(estimates, scores.methods))
    drawn = sorted({own.shape[1] for own in competing})
    compared = np.concatenate([own[:, : drawn[0] if len(drawn) == 1 else 1] for own in competing])
    compared = np.abs(compared) if metric in NEAR_ZERO else compared
    best = marks(compared, form, lower=metric in _LOWER)
    return [cell_of(form, mark, **cell) for cell, mark in zip(cells, best, strict=True)]


def _is_seen(values: Iterable[float], form: str) -> bool:
    """Whether any of several numbers is not 0 where it is written in a form."""
    return any(value == value and float(format(value, form)) != 0 for value in values)


def _spread(scores: Scores, metric: str, method: str, column: ScenarioMean) -> float | None:
    """The sample deviation over seeds, where there are several."""
    own = scores.of_seeds(metric, method, column)[:, 0]
    return float(np.std(own, ddof=1)) if len(own) > 1 else None


def _lost(models: Sequence[Scores], columns: Sequence[ScenarioMean | None], metric: str) -> list[Cell]:
    """The cells of the column of the loss. No loss is marked: who is worse when clean loses less."""
    cells = []
    for scores, column in zip(models, columns, strict=True):
        reference = loss_of(scores, scores.reference, column, metric) if column else np.full(1, np.nan)
        for method in scores.methods:
            own = loss_of(scores, method, column, metric) if column else reference
            has_own = method == scores.reference or not np.array_equal(own, reference)
            ends = _ends(spans_of([own])[0] if has_own else None)
            cells.append(cell_of(form_of(metric), value=float(own[0]), **ends))
    return cells


def _ends(span: IntervalSpan | None) -> dict[str, float]:
    """The parts of a cell that are the ends of its interval."""
    return dict(zip(("low", "high"), span or (), strict=False))


def loss_of(scores: Scores, method: str, column: ScenarioMean, metric: str = "recall_at_1") -> Estimate:
    """The clean result of a method over each scenario's own queries less the perturbed one, the mean of a column."""
    return scores.estimate(f"clean_{metric}", method, column) - scores.estimate(metric, method, column)


def form_of(metric: str) -> str:
    """How a metric's values are written."""
    return _FORMS.get(metric, ".1f")


def counted(models: Sequence[Scores], scenarios: Sequence[ScenarioKey]) -> Iterator[str]:
    """How many queries were run and are missing, and the size of the gallery, over scenarios and models."""
    known = [own for scores in models for own in scores.counts(scenarios)]
    if known:
        queries, missing, gallery = (span_of_numbers(own[place] for own in known) for place in range(3))
        yield f"N {queries}, missing {missing}, gallery {gallery}."
        least = min(own[2] for own in known)
        means = any(scores.rows["gallery_mean"].notna().any() for scores in models)  # of galleries of several sizes
        if least <= max(RECALLS.values()) and not means:
            yield f"In a gallery of {least}, R@k is 100 for every model from k = {least} on."


def severities_of(models: Sequence[Scores], keys: Sequence[Sequence[ScenarioKey]]) -> str:
    """The severities of scenarios: of all of them, or of each category where they differ."""
    by_category: dict[str, set[int]] = {}
    for scores, own in zip(models, keys, strict=True):
        for key in own:
            if key.severity:
                by_category.setdefault(_category(scores, key), set()).add(key.severity)
    known = {category: listed(sorted(own)) for category, own in by_category.items()}
    if not known:
        return "unperturbed queries"
    if len(set(known.values())) == 1:
        (severities, *_) = known.values()
        return f"severity {severities}" if severities.isdecimal() else f"mean over severities {severities}"
    return "severities: " + ", ".join(f"{category} {own}" for category, own in known.items())


def _notes(models: Sequence[Scores], suite: str, keys: Sequence[Sequence[ScenarioKey]]) -> Iterator[str]:
    """What a reader must know before comparing models, or without intervals."""
    if any(set(own) != set(keys[0]) for own in keys):
        counts = "; ".join(f"{scores.model}: {len(own)}" for scores, own in zip(models, keys, strict=True))
        yield f"The models were not run in the same scenarios of {suite} ({counts}): their means do not compare."
    if missing := [scores.model for scores in models if not scores.sampled]:
        yield (
            f"No intervals for {', '.join(missing)}: no {layout.name(RANKS.name)} was given beside its results. "
            "Run its evaluation again for one; mteb writes none."
        )
