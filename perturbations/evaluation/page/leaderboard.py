"""The leaderboard of a retrieval: a row per model and method, a column per perturbation; and what it shows in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from perturbations.evaluation.page.displayed_names import (
    RetrievalChoice,
    in_order,
    method_label,
    needs_all_queries,
    row_names,
    titled,
)
from perturbations.evaluation.page.page_tables import Cell, PagePart, PageTable, Section, cell_of, number
from perturbations.evaluation.page.scores import (
    RECALLS,
    Estimate,
    IntervalSpan,
    Scores,
    are_paired,
    marks,
    mean_of,
    span_of,
)
from perturbations.evaluation.result_rows import RANKS
from perturbations.evaluation.result_sets import RANDOM
from perturbations.manifest import manifest_paths
from perturbations.retrieval.bootstrap import separable
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
"""The metrics of leaderboards; R@2 and R@3 are of composed retrieval, whose galleries are small."""
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
"""The columns whose changes, intervals and deviations the page shows; the CSV has those of all."""
_R1 = "recall_at_1"

_CHANGES = (
    "Small: change against {baseline}, and its 95 % interval (paired bootstrap over queries, the captions of a clip "
    "together); of {baseline}, the interval of the value."
)
_VALUES = "Small: 95 % interval over queries."
_MARKS = (
    "Bold: significantly better than all other rows (bootstrap, Holm, 5 % per column).\n"
    "≈: the best row, and rows that do not differ significantly from it.\n"
    "Underlined: second best.\n"
    "No mark: all rows are alike."
)
_WITHOUT_INTERVALS = "Bold: best; underlined: second best; without intervals."
_OF_SOME = "A row without an interval cannot be told apart from other rows."
_OF_MODELS = "No mark where models differ in scenarios, queries or galleries."
_OF_LOSS = "Loss: mean difference to the same method's clean result over the same queries and an equal gallery."
_OF_SEEDS = "±: sample deviation over seeds."
_OF_GALLERY = "Methods adapt the encoder of the queries; the perturbed gallery is encoded by the model as it is."
_TRANSDUCTIVE = (
    "†: needs all queries at once, so it is neither marked nor compared with methods that answer each batch."
)

_Columns = Mapping[tuple[str, str], Sequence[pd.Series | None]]
"""By group and name of a column, of each model the weights of the scenarios that it is the mean of; None: not run."""


def of_retrieval(models: Sequence[Scores], choice: RetrievalChoice) -> Iterator[PagePart]:
    """The leaderboard of R@1 between sentences; folded, other metrics and mixed videos; for the CSV, scenarios."""
    boards = [scores.perturbed(choice.suite, choice.side) for scores in models]
    where = choice.title(models[0].dataset)
    at = titled(where, _severities(pd.concat(boards)))
    clean: _Columns = {("", "clean"): [scores.clean for scores in models]}
    columns = _columns(boards, ["category", "name"])
    if len(columns) > 1:
        every = [mean_of(own) if len(own) else None for own in boards]
        columns = {("", "mean"): every, ("", _LOSS): every, **columns}
    columns = {**clean, **columns}
    yield _table(models, choice, boards, _R1, columns, at)
    yield from (" ".join(_facts(scores, own, choice.suite)) for scores, own in zip(models, boards, strict=True))
    yield from _warnings(models, choice.suite, boards)
    hubs = max(scores.rows["gallery"].max() for scores in models) > HUB_K
    known = [metric for metric in METRICS if any(scores.rows[metric].notna().any() for scores in models)]
    known = [metric for metric in known if hubs or metric != "hub_skewness"]
    folded = [_table(models, choice, boards, metric, columns, at) for metric in known if metric != _R1]
    mixed = [_mixed(scores, choice) for scores in models]
    for mix in dict.fromkeys(pd.concat(mixed)["mix"]):
        own = [part[part["mix"] == mix] for part in mixed]
        folded.append(_table(models, choice, own, _R1, {**clean, **_columns(own, ["mix", "name"])}, f"{where}, {mix}"))
    yield Section("Other metrics" + (" and mixed videos" if any(map(len, mixed)) else ""), folded)
    if pd.concat(boards)["severity"].nunique(dropna=False) > 1:
        each = _columns(boards, ["category", "full"])
        yield _table(models, choice, boards, _R1, each, titled(where, "each scenario"), on_page=False)


def _columns(boards: Sequence[pd.DataFrame], by: list[str]) -> _Columns:
    """A column per group and name, the mean over its scenarios; those of a group are side by side."""
    members = [{key: mean_of(part) for key, part in own.groupby(by, sort=False)} for own in boards]
    names = list(dict.fromkeys((str(group), str(name)) for own in members for group, name in own))
    groups = [group for group, _ in names]
    return {name: [own.get(name) for own in members] for name in sorted(names, key=lambda own: groups.index(own[0]))}


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
    choice: RetrievalChoice,
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
        guide=_guide(models, choice, metric, ("", _LOSS) in table),
        style="board",
        brief=_BRIEF,
        has_files=on_page and metric == _R1,
        on_page=on_page,
    )


def _guide(models: Sequence[Scores], choice: RetrievalChoice, metric: str, has_loss: bool) -> str:
    """How to read a table, a line per mark and kind of column; one row has no marks and no changes."""
    title = methods.baseline().title
    sampled = any(scores.sampled for scores in models) and metric not in _LOWER
    several = sum(len(scores.methods) for scores in models) > 1
    adapted = any(scores.reference == methods.baseline().name and len(scores.methods) > 1 for scores in models)
    guide = [
        (sampled, _CHANGES.format(baseline=title) if adapted else _VALUES),
        (sampled and several, _MARKS),
        (not sampled and adapted, f"Small: change against {title}."),
        (not sampled and several, _WITHOUT_INTERVALS),
        (sampled and not all(scores.sampled for scores in models), _OF_SOME),
        (len(models) > 1, _OF_MODELS),
        (metric in _WITH_LOSS and has_loss, _OF_LOSS),
        (any(len(own) > 1 for scores in models for own in scores.seeds.values()), _OF_SEEDS),
        (choice.side in ("gallery", "both"), _OF_GALLERY),
        (any(needs_all_queries(name) for scores in models for name in scores.methods), _TRANSDUCTIVE),
    ]
    return "\n".join(text for holds, text in guide if holds)


def _note(
    models: Sequence[Scores], boards: Sequence[pd.DataFrame], rows: Sequence[tuple[Scores, str]], table: pd.DataFrame
) -> Iterator[str]:
    """What a table has of its own: who changes nothing, who is not marked, and how many queries and items there are."""
    if same := _without_effect(rows, table):
        yield f'{_labels(same)} {"equals" if len(same) == 1 else "equal"} "{methods.baseline().title}" in every column.'
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


def _labels(names: Iterable[str]) -> str:
    *others, last = ["", *map(method_label, names)]
    return " and ".join(filter(None, [", ".join(others[1:]), last]))


def _without_effect(rows: Sequence[tuple[Scores, str]], table: pd.DataFrame) -> list[str]:
    """The methods that, of every model that has them and the baseline, have no change in any column."""
    baseline = methods.baseline().name
    cells = zip(rows, table.itertuples(index=False, name=None), strict=True)
    known = [(method, line) for (scores, method), line in cells if scores.reference == baseline != method]
    changing = {method for method, line in known if any(own.change or own.low or not own.value for own in line)}
    return in_order({method for method, _ in known} - changing)


def _compared(models: Sequence[Scores], columns: Sequence[pd.Series | None], metric: str) -> list[Cell]:
    """The cells of a column: of each model's methods the value, its change against the baseline, and the interval.

    The best of all models and methods is marked where all of them are paired: their resamples are of the same queries.
    What changes nothing has no change.
    """
    baseline, form = methods.baseline().name, form_of(metric)
    cells: list[dict[str, float | None]] = []
    competing: list[Estimate] = []
    present: list[tuple[Scores, pd.Series]] = []
    for scores, column in zip(models, columns, strict=True):
        if column is None:
            cells += [{} for _ in scores.methods]
            competing.append(np.full((len(scores.methods), 1), np.nan))
            continue
        estimates = np.stack([scores.estimate(metric, method, column) for method in scores.methods])
        changes = estimates - scores.estimate(metric, baseline, column)
        for method, own, change in zip(scores.methods, estimates, changes, strict=True):
            of_seeds = scores.of_seeds(metric, method, column)[:, 0]
            cell = {"value": float(own[0]), "std": float(np.std(of_seeds, ddof=1)) if len(of_seeds) > 1 else None}
            span = span_of(change)
            if scores.reference != baseline or method == baseline:
                cell |= _ends(scores.own_span(metric, column, own), form)
            elif _is_seen(form, change[0], *(span or ())):
                cell |= {"change": float(change[0]), **_ends(span, form)}
            cells.append(cell)
        competing.append(scores.competing(estimates))
        present += [] if np.isnan(estimates[:, 0]).all() else [(scores, column)]
    if not present or not are_paired(*zip(*present, strict=True)):
        return [cell_of(form, **cell) for cell in cells]
    drawn = max(own.shape[1] for own in competing)
    padded = [np.pad(own, ((0, 0), (0, drawn - own.shape[1])), constant_values=np.nan) for own in competing]
    compared = np.concatenate(padded)
    best = marks(np.abs(compared) if metric in NEAR_ZERO else compared, form, lower=metric in _LOWER)
    return [cell_of(form, mark, **cell) for cell, mark in zip(cells, best, strict=True)]


def _lost(models: Sequence[Scores], columns: Sequence[pd.Series | None], metric: str) -> list[Cell]:
    """The cells of the column of the loss. No loss is marked: a model that is worse when clean has less to lose."""
    cells = []
    for scores, column in zip(models, columns, strict=True):
        losses = {
            name: np.full(1, np.nan) if column is None else scores.loss(name, column, metric) for name in scores.methods
        }
        reference = losses[scores.reference]
        for method, own in losses.items():
            has_own = method == scores.reference or not np.array_equal(own, reference)
            ends = _ends(span_of(own) if has_own else None, form_of(metric))
            cells.append(cell_of(form_of(metric), value=float(own[0]), **ends))
    return cells


def _is_seen(form: str, *values: float) -> bool:
    """Whether one of the values is not 0 as it is written."""
    return any(value == value and float(format(value, form)) for value in values)


def _ends(span: IntervalSpan | None, form: str) -> dict[str, float | None]:
    """The parts of a cell that are the ends of its interval; none where both are 0 as they are written."""
    return dict(zip(("low", "high"), span, strict=True)) if span and _is_seen(form, *span) else {}


def form_of(metric: str) -> str:
    """How a metric's values are written."""
    return ".2f" if metric == "hub_skewness" else ".1f"


# --- words ------------------------------------------------------------------------------------------------------------


def _severities(scenarios: pd.DataFrame) -> str:
    """The severities of scenarios: of all of them, or of each category where they differ."""
    rated = scenarios[scenarios["severity"].fillna(0) > 0]
    known = {
        str(category): _listed(sorted(set(own))) for category, own in rated.groupby("category", sort=False)["severity"]
    }
    if not known:
        return "unperturbed queries"
    if len(set(known.values())) > 1:
        return "severities: " + ", ".join(f"{category} {own}" for category, own in known.items())
    (severities,) = set(known.values())
    return f"severity {severities}" if severities.isdecimal() else f"mean over severities {severities}"


def _listed(severities: Sequence[int]) -> str:
    """Severities in ascending order as words: "5", "1 to 5", "1, 3, 5"."""
    if len(severities) > 2 and list(severities) == list(range(severities[0], severities[-1] + 1)):
        return f"{severities[0]} to {severities[-1]}"
    return ", ".join(map(str, severities))


def _counted(models: Sequence[Scores], boards: Sequence[pd.DataFrame]) -> list[str]:
    """The numbers of queries, missing queries and gallery items of scenarios, of all where there are none.

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


def _facts(scores: Scores, board: pd.DataFrame, suite: str) -> Iterator[str]:
    """What a model as it is loses, under what most and least, and which methods change it."""
    reference = scores.reference
    is_plain = reference == methods.baseline().name
    clean = scores.value(_R1, reference, scores.clean)
    says = [f"{clean:.1f} % clean"] if clean == clean else []
    if says and RANDOM in scores.methods:
        says[0] += f" ({scores.value(_R1, RANDOM, scores.clean):.1f} % in random order)"
    column = mean_of(board)
    perturbed = scores.estimate(_R1, reference, column)
    if len(board):
        says.append(_under(scores, board, suite, float(perturbed[0]), clean))
    yield f"{scores.model}{'' if is_plain else f' by {method_label(reference)}'}: R@1 {', '.join(says) or 'unknown'}."
    if is_plain and len(board):
        yield from _of_methods(scores, column, perturbed)


def _under(scores: Scores, board: pd.DataFrame, suite: str, perturbed: float, clean: float) -> str:
    """The mean under a suite, and its loss."""
    severities = sorted({own for own in board["severity"] if own is not None})
    at = f"severity {_listed(severities).replace(' to ', '-')}" if severities else "mixed"
    if perturbed != perturbed:
        return f"without a mean under {suite} ({at}), as it was not run in every scenario"
    text = f"{perturbed:.1f} % under {suite} ({at})"
    loss = scores.loss(scores.reference, mean_of(board))
    if np.isnan(loss[0]):
        return f"{text}; the clean result of the same queries and gallery is not known"
    same = float(loss[0] + perturbed)
    text += f", a loss of {_points(loss, '.1f')}"
    text += f" against {same:.1f} % of the same queries unperturbed" if abs(same - clean) > 1e-9 else ""
    names = board["perturbation"].str.cat(board["text_perturbation"].map(lambda name: f" + {name}" if name else ""))
    losses = {name: scores.loss(scores.reference, mean_of(own))[0] for name, own in board.groupby(names, sort=False)}
    most, least = max(losses, key=losses.__getitem__), min(losses, key=losses.__getitem__)
    high, low = number(losses[most], ".1f"), number(losses[least], ".1f")
    return text if high == low else f"{text} (most under {most}: {high}; least under {least}: {low})"


def _of_methods(scores: Scores, column: pd.Series, baseline: Estimate) -> Iterator[str]:
    """The best method, and which differ significantly from the model as it is."""
    plain = methods.baseline()
    names = [name for name in scores.methods if name != plain.name and not needs_all_queries(name)]
    changes = {name: scores.estimate(_R1, name, column) - baseline for name in names}
    changes = {name: change for name, change in changes.items() if not np.isnan(change[0])}
    if not changes:
        return
    best = max(changes, key=lambda name: changes[name][0])
    if changes[best][0] > 0:
        among = f" of {len(changes)} methods" if len(changes) > 1 else " method"
        yield f"The best{among} is {method_label(best)} ({_points(changes[best])})."
    else:
        yield "No method has a higher R@1."
    if scores.sampled:
        apart = separable(np.stack([change[1:] for change in changes.values()]))
        sure = [name for name, is_apart in zip(changes, apart, strict=True) if is_apart]
        better, worse = (_labels(name for name in sure if sign * changes[name][0] > 0) for sign in (1, -1))
        yield (
            f"Significantly better than {plain.title}: {better}."
            if better
            else f"No method is significantly better than {plain.title}."
        )
        if worse:
            yield f"Significantly worse than {plain.title}: {worse}."


def _points(change: Estimate, form: str = "+.1f") -> str:
    span = span_of(change)
    interval = f" [{number(span[0], form)}, {number(span[1], form)}]" if span and _is_seen(form, *span) else ""
    return f"{number(float(change[0]), form)} points{interval}"
