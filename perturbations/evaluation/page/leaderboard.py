"""The leaderboard of a retrieval: a row per model and method, a column per perturbation; and what it shows in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from perturbations.evaluation.page.displayed_names import (
    RetrievalChoice,
    in_order,
    method_labels,
    row_names,
    severities_text,
    titled,
)
from perturbations.evaluation.page.findings import findings_of
from perturbations.evaluation.page.marks import Estimate, ends_of, is_seen, marks, span_of
from perturbations.evaluation.page.page_tables import Cell, PagePart, PageTable, Section, cell_of
from perturbations.evaluation.page.scores import RECALLS, Scores, are_paired, mean_of
from perturbations.evaluation.result_rows import RANKS
from perturbations.manifest import manifest_paths
from perturbations.tta.methods import method_registry as methods

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
"""The metrics of leaderboards; R@2 and R@3 are for composed retrieval, whose galleries are small."""
_LOWER = ("median_rank", "hub_skewness")
"""The metrics whose lowest value is the best."""
NEAR_ZERO = ("hub_skewness", "hub_truncated_skewness")
"""The metrics whose value nearest to 0 is the best."""
HUB_K = 15
"""The k of the k-occurrence: where the gallery is no larger, every query retrieves all of it, and no item is a hub."""
_WITH_LOSS = (*RECALLS, "rsum")
"""The metrics whose clean result over the same queries is known."""
_LOSS = "loss"
_BRIEF = ("clean", "mean", _LOSS)
"""The columns whose changes, intervals and deviations the page shows; the CSV shows them for all columns."""
_R1 = "recall_at_1"

_GUIDE = """\
Small: change against no adaptation, and its 95 % interval (paired bootstrap over queries, the captions of a clip \
together); of no adaptation, and where it was not run, the interval of the value.
Bold: significantly better than all other rows (bootstrap, Holm, 5 % per column); without intervals, the best.
Underlined: second best.
≈: the best row, and rows that do not differ significantly from it or have no interval.
No mark: all rows are alike, or models differ in scenarios, queries or galleries.
Loss: mean difference to the same method's clean result over the same queries and an equal gallery.
±: sample deviation over seeds.
†: needs all queries at once, so it is neither marked nor compared with methods that answer each batch.
Methods adapt the encoder of the queries; a perturbed gallery is encoded by the model as it is."""
"""How to read each leaderboard."""

_Columns = Mapping[tuple[str, str], Sequence[pd.Series]]
"""By group and name of a column: for each model, the weights of the scenarios in its mean."""


def of_retrieval(models: Sequence[Scores], choice: RetrievalChoice) -> Iterator[PagePart]:
    """The leaderboard of R@1 with sentences; other metrics and mixed videos, folded; for the CSV, single scenarios."""
    boards = [scores.perturbed(choice.suite, choice.side) for scores in models]
    where = choice.title(models[0].dataset)
    at = titled(where, _severities(pd.concat(boards)))
    clean: _Columns = {("", "clean"): [scores.clean for scores in models]}
    columns = _columns(models, boards, ["category", "name"])
    if len(columns) > 1:
        every = [mean_of(own) if len(own) else scores.unknown for scores, own in zip(models, boards, strict=True)]
        columns = {("", "mean"): every, ("", _LOSS): every, **columns}
    columns = {**clean, **columns}
    yield _table(models, boards, _R1, columns, at)
    yield from (" ".join(findings_of(scores, own, choice.suite)) for scores, own in zip(models, boards, strict=True))
    yield from _warnings(models, choice.suite, boards)
    hubs = max(scores.rows["gallery"].max() for scores in models) > HUB_K
    known = [metric for metric in METRICS if any(scores.rows[metric].notna().any() for scores in models)]
    known = [metric for metric in known if hubs or metric != "hub_skewness"]
    folded = [_table(models, boards, metric, columns, at) for metric in known if metric != _R1]
    mixed = [_mixed(scores, choice) for scores in models]
    for mix in dict.fromkeys(pd.concat(mixed)["mix"]):
        own = [part[part["mix"] == mix] for part in mixed]
        columns = {**clean, **_columns(models, own, ["mix", "name"])}
        folded.append(_table(models, own, _R1, columns, f"{where}, {mix}"))
    yield Section("Other metrics" + (" and mixed videos" if any(map(len, mixed)) else ""), folded)
    if pd.concat(boards)["severity"].nunique(dropna=False) > 1:
        each = _columns(models, boards, ["category", "full"])
        yield _table(models, boards, _R1, each, titled(where, "each scenario"), on_page=False)


def _columns(models: Sequence[Scores], boards: Sequence[pd.DataFrame], by: list[str]) -> _Columns:
    """A column per group and name, the mean over its scenarios; the columns of a group are side by side."""
    members = [{key: mean_of(part) for key, part in own.groupby(by, sort=False)} for own in boards]
    names = list(dict.fromkeys((str(group), str(name)) for own in members for group, name in own))
    groups = [group for group, _ in names]
    names.sort(key=lambda own: groups.index(own[0]))
    return {
        name: [own.get(name, scores.unknown) for scores, own in zip(models, members, strict=True)] for name in names
    }


def _mixed(scores: Scores, choice: RetrievalChoice) -> pd.DataFrame:
    """The scenarios of mixed videos, in words: what is mixed, and how much of it is perturbed."""
    known = scores.scenarios
    own = known[known["mix"].notna() & (known["suite"] == choice.suite) & (known["side"] == choice.side)]
    names = [
        name if share is None else f"{share:.0%} perturbed"
        for name, share in zip(own["perturbation"], own["share"], strict=True)
    ]
    return own.assign(mix=own["mix"].map(lambda mix: mix.replace("_", " ")), name=names)


def _table(
    models: Sequence[Scores],
    boards: Sequence[pd.DataFrame],
    metric: str,
    columns: _Columns,
    where: str,
    *,
    on_page: bool = True,
) -> PageTable:
    rows = [(scores, method) for scores in models for method in scores.methods]
    corner, names = row_names((scores.model, method) for scores, method in rows)
    cells = {
        name: (_lost if name == ("", _LOSS) else _compared)(models, of_models, metric)
        for name, of_models in columns.items()
        if name != ("", _LOSS) or metric in _WITH_LOSS
    }
    unknown = [head for head in (("", "clean"), ("", _LOSS)) if not any(cell.value for cell in cells.get(head, ()))]
    table = pd.DataFrame({head: own for head, own in cells.items() if head not in unknown}, pd.Index(names))
    return PageTable(
        f"{METRICS[metric]}: {where}",
        corner,
        table,
        " ".join(_note(models, boards, rows, table)),
        guide=_GUIDE,
        style="board",
        brief=_BRIEF,
        has_files=on_page and metric == _R1,
        on_page=on_page,
    )


def _note(
    models: Sequence[Scores], boards: Sequence[pd.DataFrame], rows: Sequence[tuple[Scores, str]], table: pd.DataFrame
) -> Iterator[str]:
    """The note of a table: the methods that change nothing or are not marked, and the numbers of queries and items."""
    if same := _without_effect(rows, table):
        equal = "equals" if len(same) == 1 else "equal"
        yield f'{method_labels(same)} {equal} "{methods.baseline().title}" in every column.'
    if lost := [str(name) for name, (own, method) in zip(table.index, rows, strict=True) if method in own.collapsed]:
        yield f"Not marked: {', '.join(lost)}, whose clean R@1 lost more than its own interval."
    if not table.map(lambda cell: cell.value).to_numpy().all():
        yield "Empty: not known, or not run in every scenario of the mean."
    queries, missing, gallery = _counted(models, boards)
    yield f"N = {queries} queries, {missing} missing; gallery of {gallery}."
    least = int(gallery.partition("-")[0].replace(",", ""))
    means = any(scores.rows["gallery_mean"].notna().any() for scores in models)  # of galleries of several sizes
    if least <= max(RECALLS.values()) and not means:
        yield f"In a gallery of {least}, R@k is 100 for every model from k = {least} on."


def _without_effect(rows: Sequence[tuple[Scores, str]], table: pd.DataFrame) -> list[str]:
    """The methods that change no column of any model that was run with them and with the baseline."""
    baseline = methods.baseline().name
    cells = zip(rows, table.itertuples(index=False, name=None), strict=True)
    known = [(method, line) for (scores, method), line in cells if scores.reference == baseline != method]
    changing = {method for method, line in known if any(own.change or own.low or not own.value for own in line)}
    return in_order({method for method, _ in known} - changing)


def _compared(models: Sequence[Scores], columns: Sequence[pd.Series], metric: str) -> list[Cell]:
    """The cells of a column: for each model and method the value, its change against the baseline, and the interval.

    The best of all models and methods is marked where all of them are paired: their resamples are of the same queries.
    A method that changes nothing has an empty change.
    """
    baseline, form = methods.baseline().name, _form_of(metric)
    cells: list[Cell] = []
    competing: list[Estimate] = []
    present: list[tuple[Scores, pd.Series]] = []
    for scores, column in zip(models, columns, strict=True):
        estimates = np.stack([scores.estimate(metric, method, column) for method in scores.methods])
        changes = estimates - scores.estimate(metric, baseline, column)
        for method, own, change in zip(scores.methods, estimates, changes, strict=True):
            of_seeds = scores.of_seeds(metric, method, column)[:, 0]
            numbers = {"value": own[0], "std": np.std(of_seeds, ddof=1) if len(of_seeds) > 1 else None}
            span = span_of(change)
            if scores.reference != baseline or method == baseline:
                numbers |= ends_of(scores.own_span(metric, column, own), form)
            elif is_seen(form, change[0], *(span or ())):
                numbers |= {"change": change[0], **ends_of(span, form)}
            cells.append(cell_of(form, **numbers))
        competing.append(scores.competing(estimates))
        present += [] if np.isnan(estimates[:, 0]).all() else [(scores, column)]
    if not present or not are_paired(*zip(*present, strict=True)):
        return cells
    drawn = max(own.shape[1] for own in competing)
    padded = [np.pad(own, ((0, 0), (0, drawn - own.shape[1])), constant_values=np.nan) for own in competing]
    compared = np.concatenate(padded)
    units = min(scores.units(column) for scores, column in present)
    best = marks(np.abs(compared) if metric in NEAR_ZERO else compared, form, lower=metric in _LOWER, units=units)
    return [cell._replace(mark=mark) for cell, mark in zip(cells, best, strict=True)]


def _lost(models: Sequence[Scores], columns: Sequence[pd.Series], metric: str) -> list[Cell]:
    """The cells of the column of the loss. No loss is marked: a model that is worse when clean has less to lose."""
    cells, form = [], _form_of(metric)
    for scores, column in zip(models, columns, strict=True):
        reference = scores.loss(scores.reference, column, metric)
        for method in scores.methods:
            own = scores.loss(method, column, metric)
            is_other = method == scores.reference or not np.array_equal(own, reference)
            cells.append(cell_of(form, value=own[0], **ends_of(span_of(own) if is_other else None, form)))
    return cells


def _form_of(metric: str) -> str:
    """How a metric's values are written."""
    return ".2f" if metric == "hub_skewness" else ".1f"


# --- words ------------------------------------------------------------------------------------------------------------


def _severities(scenarios: pd.DataFrame) -> str:
    """The severities of scenarios: of all of them, or of each category where they differ."""
    rated = scenarios[scenarios["severity"].fillna(0) > 0]
    known = {
        str(category): severities_text(sorted(set(own)))
        for category, own in rated.groupby("category", sort=False)["severity"]
    }
    if not known:
        return "unperturbed queries"
    if len(set(known.values())) > 1:
        return "severities: " + ", ".join(f"{category} {own}" for category, own in known.items())
    (severities,) = set(known.values())
    return f"severity {severities}" if severities.isdecimal() else f"mean over severities {severities}"


def _counted(models: Sequence[Scores], boards: Sequence[pd.DataFrame]) -> list[str]:
    """The numbers of queries, missing queries and gallery items of the given scenarios, or of all.

    Each is a number, or the least and the greatest of several.
    """
    known = pd.concat(boards if any(map(len, boards)) else [scores.scenarios for scores in models])
    ranges = known[["queries", "missing_queries", "gallery"]].agg(["min", "max"]).astype(int).items()
    return [f"{low:,}" if low == high else f"{low:,}-{high:,}" for _, (low, high) in ranges]


def _warnings(models: Sequence[Scores], suite: str, boards: Sequence[pd.DataFrame]) -> Iterator[str]:
    """What a reader must know before comparing models, or without intervals."""
    names = [set(own["full"]) for own in boards]
    if any(own != names[0] for own in names):
        counts = "; ".join(f"{scores.model}: {len(own)}" for scores, own in zip(models, boards, strict=True))
        yield f"The models were not run in the same scenarios of {suite} ({counts}): their means do not compare."
    elif len(names[0]) and not are_paired(models, boards):
        yield "The models were not asked the same queries in equal galleries: their numbers do not compare."
    if missing := [scores.model for scores in models if not scores.sampled]:
        yield (
            f"No intervals for {', '.join(missing)}: no {manifest_paths.name(RANKS.name)} was given beside its "
            "results. Run its evaluation again for one; mteb writes none."
        )
