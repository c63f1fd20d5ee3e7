"""Intervals: the bootstrap over queries, the ranks that it is made of, and what the page takes from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from manifest_rows import stranger_s
from synthetic_results import B32, Page, page_of, result

from perturbations.base import rng
from perturbations.base.errors import ManifestError
from perturbations.evaluation.page.marks import marks, span_of
from perturbations.evaluation.page.query_ranks import read_ranks
from perturbations.evaluation.page.scores import RECALLS, Scores, mean_of, of_datasets
from perturbations.evaluation.result_rows import CLEAN_SCENARIO, RANKS, RESULTS, RankRow, ResultRow, ScenarioKey
from perturbations.evaluation.result_sets import with_clean
from perturbations.manifest import files, row_tables
from perturbations.retrieval import draws, interval, resampled_recall, summary_of_ranks
from perturbations.retrieval.bootstrap import samples_for, separable, share_interval


def generator(name: str = "a") -> np.random.Generator:
    return rng.generator(0, name, "v2t", "report/bootstrap")


# --- the kernel ------------------------------------------------------------------------------------------------------


def test_it_is_what_a_plain_loop_gives() -> None:
    known = np.array([[1, 6, 0], [2, 1, 0], [9, 5, 0], [1, 1, 0], [40, 3, 1]])
    queries, runs = known.shape
    again = generator()
    expected = np.full((2, runs, 50), np.nan)
    for sample in range(50):
        drawn = known[again.integers(0, queries, queries)]
        for run, place in product(range(runs), range(2)):
            ranks = [rank for rank in drawn[:, run] if rank > 0]
            if ranks:
                expected[place, run, sample] = 100 * sum(rank <= (1, 5)[place] for rank in ranks) / len(ranks)
    counts = draws(queries, generator(), 50)
    for place, k in enumerate((1, 5)):
        np.testing.assert_allclose(resampled_recall(counts, known, k), expected[place], rtol=1e-12)
    assert np.isnan(expected[0, 2]).any(), "a resample without any query of a run was tried"
    low, high = interval(expected[1, :2])
    assert (expected[1, :2].min(axis=1) <= low).all()
    assert (low < high).all()
    np.testing.assert_allclose(low, [np.percentile(row, 2.5) for row in expected[1, :2]])


def test_each_resample_draws_as_many_queries_as_there_are_and_equal_methods_differ_by_nothing() -> None:
    counts = draws(30, generator(), 200)
    assert counts.shape == (200, 30)
    assert (counts.sum(axis=1) == 30).all()
    assert (counts == draws(30, generator(), 200)).all()
    assert (counts != draws(30, generator("b"), 200)).any()
    known = np.random.default_rng(1).integers(1, 20, (997, 1)).repeat(3, axis=1)
    first, second, third = resampled_recall(draws(997, generator()), known, 5)
    assert interval(first - second) == interval(third - second) == (0.0, 0.0)


def test_parts_of_runs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    known = np.random.default_rng(0).integers(0, 30, (40, 23))
    counts = draws(40, generator(), 20)
    whole = resampled_recall(counts, known, 5)
    monkeypatch.setattr("perturbations.retrieval.bootstrap._BLOCK", 200)
    np.testing.assert_array_equal(resampled_recall(counts, known, 5), whole)


@pytest.mark.parametrize("known", [[1, 2], [[1.5], [1]], [[1], [-1]], [[1]]])
def test_ranks_that_do_not_fit_are_refused(known: Any) -> None:
    with pytest.raises(ValueError, match="rank"):
        resampled_recall(draws(2, generator(), 3), known, 1)
    with pytest.raises(ValueError, match="0 queries"):
        draws(0, generator())


# --- ranks -----------------------------------------------------------------------------------------------------------

FOG = {"suite": "mlvp", "perturbation": "fog", "severity": 5, "category": "mid"}


def of_ranks(method: str, known: Sequence[int], **more: Any) -> tuple[ResultRow, list[RankRow]]:
    """A row of results and its ranks; a rank of 0 is a query that was not asked."""
    ranks = {f"видео {place}": int(rank) for place, rank in enumerate(known) if rank > 0}
    row = result(method, **{**summary_of_ranks(list(ranks.values())), "queries": len(ranks), **more})
    names = [name for name in RankRow.__dataclass_fields__ if name not in ("query_id", "rank", "retrieved")]
    about = {name: getattr(row, name) for name in names}
    return row, [RankRow(**about, query_id=query, rank=rank) for query, rank in ranks.items()]


def many(seed: int = 0, *, seeds: Sequence[int] = (42, 7)) -> tuple[list[ResultRow], list[RankRow]]:
    """Two methods, two seeds, clean queries, two perturbations of a category, one of them at two severities."""
    data = np.random.default_rng(seed)
    rows, known = [], []
    scenarios: list[dict[str, Any]] = [{}, FOG, {**FOG, "severity": 1}, {**FOG, "perturbation": "rain"}]
    for method, own_seed, (place, scenario) in product(("none", "tcr"), seeds, enumerate(scenarios)):
        drawn = data.integers(1, 12 + 5 * place, 80)
        drawn[:place] = 0
        row, of_row = of_ranks(method, drawn.tolist(), seed=own_seed, **scenario)
        rows.append(row)
        known += of_row
    return rows, known


def read(folder: Path, known: Sequence[RankRow]) -> dict[Any, pd.DataFrame]:
    """The ranks as they are read from a file."""
    files.write(folder / "r.parquet", RANKS, known)
    return read_ranks([folder / "r.parquet"])


def scores_of(rows: Sequence[ResultRow], known: dict[Any, pd.DataFrame]) -> Scores:
    frame = pd.DataFrame([{name: getattr(row, name) for name in row.__dataclass_fields__} for row in rows])
    ((_, of_directions),) = of_datasets(frame.assign(model_name="m"), known)
    ((scores,),) = of_directions.values()
    return scores


def mean_change(scores: Scores, metric: str = "recall_at_1") -> Any:
    """The change by TCR of the mean over perturbed queries, and that in each resample."""
    column = mean_of(scores.perturbed("mlvp", "query"))
    return scores.estimate(metric, "tcr", column) - scores.estimate(metric, "none", column)


def test_ranks_are_those_of_the_file_whatever_the_order_of_its_rows(tmp_path: Path) -> None:
    _, known = of_ranks("none", [3, 0, 254, 100_000])
    (ranked,) = read(tmp_path, known).values()
    assert ranked.index.tolist() == ["видео 0", "видео 2", "видео 3"]
    assert ranked[[(CLEAN_SCENARIO, "none", 42)]].to_numpy()[:, 0].tolist() == [3, 254, 255]
    rows, known = many()
    whole = read(tmp_path, known)
    table = pq.read_table(tmp_path / "r.parquet")
    stranger_s(tmp_path / "r.parquet", table.take(pa.array(np.random.default_rng(0).permutation(len(table)))))
    ((group, first),), ((other, second),) = whole.items(), read_ranks([tmp_path / "r.parquet"]).items()
    assert group == other == ("demo", B32, "v2t")
    pd.testing.assert_frame_equal(first, second, check_like=True)
    changes = [mean_change(scores_of(rows, {group: ranked}), "recall_at_5") for ranked in (first, second)]
    np.testing.assert_array_equal(*changes)


def test_many_ranks_of_a_model_that_is_always_right_are_read(tmp_path: Path) -> None:
    """They take a bit each: 200 scenarios of 1,000 queries are 6.6 million cells in some hundred kilobytes."""
    _, known = of_ranks("none", [1] * 1000)
    ranks = pa.concat_tables([row_tables.table_of(RANKS, known)] * 200)
    scenarios = pa.array(np.repeat([f"own {place}" for place in range(200)], 1000))
    ranks = ranks.set_column(ranks.column_names.index("perturbation"), "perturbation", scenarios)
    files._write_tables(tmp_path / "r.parquet", RANKS, [ranks], None)
    (ranked,) = read_ranks([tmp_path / "r.parquet"]).values()
    assert ranked.shape == (1000, 200)


def test_bad_files_of_ranks(tmp_path: Path) -> None:
    rows, known = many()
    path = tmp_path / "r.parquet"

    def is_refused(message: str, paths: int = 1) -> None:
        with pytest.raises(ManifestError, match=message):
            read_ranks([path] * paths)

    files.write(path, RESULTS, rows)
    is_refused("of results, not of ranks")
    files.write(path, RANKS, known)
    is_refused("twice", 2)
    table = pq.read_table(path)
    data = bytearray(path.read_bytes())
    place = len(data) // 3
    data[place : place + 40] = bytes(40)
    path.write_bytes(data)
    is_refused(r"r\.parquet was changed")
    nothing = table.set_column(table.column_names.index("rank"), "rank", pa.array(np.zeros(len(table), np.int64)))
    stranger_s(path, nothing)
    is_refused("rank below 1")
    stranger_s(path, table.drop_columns(["seed"]))
    is_refused("it does not have 'seed'")


# --- what the page takes from it -------------------------------------------------------------------------------------


def test_scenarios_and_seeds_are_averaged_within_each_resample(tmp_path: Path) -> None:
    rows, known = many()
    by_group = read(tmp_path, known)
    (ranked,) = by_group.values()
    scores = scores_of(rows, by_group)
    counts = draws(len(ranked), rng.generator(0, "demo", "v2t", "report/bootstrap"))
    means = {}
    for method in ("none", "tcr"):
        of_seeds = []
        for seed in (42, 7):
            known_runs = {run: ranked.iloc[:, at].to_numpy() for at, run in enumerate(ranked.columns)}
            recalls = {}
            for name in _PLACES:
                own = known_runs[ScenarioKey("mlvp", *name, side="query"), method, seed]
                recalls[name] = np.array([_recall(own, drawn, 1) for drawn in counts])
            fog = (recalls["fog", 1] + recalls["fog", 5]) / 2
            of_seeds.append((fog + recalls["rain", 5]) / 2)
        means[method] = (of_seeds[0] + of_seeds[1]) / 2
    value, *_ = drawn = mean_change(scores)
    span = span_of(drawn)
    assert span is not None
    np.testing.assert_allclose(list(span), np.percentile(means["tcr"] - means["none"], [2.5, 97.5]))
    by_hand = {method: np.mean([_mean(rows, method, "fog"), _mean(rows, method, "rain")]) for method in ("none", "tcr")}
    assert value == pytest.approx(by_hand["tcr"] - by_hand["none"])
    assert span[0] < value < span[1]
    # A loss is against the clean ranks of the same queries: fog lacks the first one.
    number = scores.numbers[ScenarioKey("mlvp", "fog", 1, side="query")]
    loss = scores.of_scenarios("clean_recall_at_1", "none", [number])[scores.seeds["none"].index(42), 0]
    place = ranked.columns.get_loc((ScenarioKey("mlvp", "fog", 1, side="query"), "none", 42))
    clean = np.where(ranked.iloc[:, place] > 0, known_runs[CLEAN_SCENARIO, "none", 42], 0)
    np.testing.assert_allclose(loss[1:], [_recall(clean, drawn, 1) for drawn in counts])


_PLACES = (("fog", 1), ("fog", 5), ("rain", 5))


def _mean(rows: Sequence[ResultRow], method: str, perturbation: str) -> float:
    return float(np.mean([row.recall_at_1 for row in rows if (row.method, row.perturbation) == (method, perturbation)]))


def _recall(known: Any, drawn: Any, k: int) -> float:
    return 100 * float(drawn[(known > 0) & (known <= k)].sum() / drawn[known > 0].sum())


def test_a_run_without_ranks_has_no_interval(tmp_path: Path) -> None:
    rows, known = many(seeds=(42,))
    kept = [row for row in known if (row.method, row.perturbation) != ("tcr", "rain")]
    scores = scores_of(rows, read(tmp_path, kept))
    drawn = mean_change(scores)
    assert np.isfinite(drawn[0])
    assert span_of(drawn) is None
    assert span_of(scores.estimate("recall_at_1", "tcr", scores.clean)) is not None
    assert scores.estimate("median_rank", "tcr", scores.clean).shape == (1,)
    assert np.isnan(scores.estimate("recall_at_1", "tcr", pd.Series({len(scores.scenarios): 1.0}))).all()


def test_rsum_is_the_sum_of_recalls_in_each_resample_and_ranks_of_other_runs_are_refused(tmp_path: Path) -> None:
    _, known = many()
    other, _ = many(seed=1)
    scores = scores_of(other, read(tmp_path, known))
    with pytest.raises(ManifestError, match=r"of different runs: v2t .*: recall_at_1 is .* by its ranks"):
        scores.estimate("recall_at_1", "none", scores.clean)
    rows, known = many(seeds=(42,))
    scores = scores_of(rows, read(tmp_path, known))
    *recalls, rsum = (scores.estimate(metric, "none", scores.clean) for metric in (*RECALLS, "rsum"))
    np.testing.assert_allclose(sum(recalls), rsum)


@pytest.mark.parametrize(
    ("values", "resampled", "lower", "expected"),
    [
        ([1, 5, 3], [[1, 1], [5, 6], [3, 4]], False, ["", "best", "second"]),
        ([1, 5, 4], [[1, 1], [5, 5], [4, 6]], False, ["", "tie", "tie"]),
        ([1, 5, 4], [[0, 6], [5, 5], [4, 4]], False, ["tie", "tie", ""]),
        ([1, 5, 4], [[1, 1], [5, 5], [4, 6]], True, ["best", "", "second"]),
        ([2, 2.01, 2], [[1, 1], [5, 5], [4, 6]], False, ["", "", ""]),
        ([2, float("nan"), 1], [[2, 2], [0, 0], [1, 1]], False, ["best", "", "second"]),
        ([2, 1], [[2, 2], [2, 2]], False, ["", ""]),
    ],
)
def test_only_a_separable_best_is_marked_so(
    values: list[float], resampled: list[list[float]], lower: bool, expected: list[str]
) -> None:
    assert marks(np.column_stack([values, np.tile(resampled, 500)]), lower=lower) == expected


def test_without_resamples_the_best_value_is_marked() -> None:
    assert marks(np.array([[1.0], [3], [2], [3]])) == ["", "best", "second", "best"]
    unknown = np.array([[1.0, np.nan, np.nan], [3, 3, 3]])
    drawn = np.tile([[np.nan], [3], [0]], 1000)
    assert marks(np.column_stack([[1.0, 3, 0], drawn])) == ["tie", "tie", ""], "what is unknown is not separable"
    assert marks(np.empty((0, 1))) == []
    assert [span_of(own) for own in (np.array([1.0]), *unknown)] == [None, None, (3.0, 3.0)]


def test_many_methods_are_compared_with_holms_correction() -> None:
    """A difference that is off zero alone is not among ten; p-values of .02 and .04 are by 2 x .02 > .05 / 1."""
    drawn = np.ones((3, 1000))
    drawn[1, :10] = drawn[2, :20] = -1
    assert separable(drawn[1:2]).tolist() == separable(drawn[2:]).tolist() == [True]
    assert separable(drawn).tolist() == [True, True, True]
    assert separable(drawn[[0, 1, 1, 2]]).tolist() == [True, False, False, False]
    assert separable(np.array([[np.nan] * 9 + [1.0]])).tolist() == [False]


@pytest.mark.parametrize(("queries", "expected"), [(1, ["", ""]), (5, ["", ""]), (6, ["best", "second"])])
def test_what_a_few_queries_show_is_not_significant(tmp_path: Path, queries: int, expected: list[str]) -> None:
    """All resamples of one query agree; so many signs are alike by chance in 2 of 2**5 and of 2**6 draws."""
    models: dict[str, Hits] = {"A": {"clean": [True] * queries}, "B": {"clean": [False] * queries}}
    assert marks_in(page_of_hits(tmp_path, models), "clean") == expected
    assert separable(np.ones((1, 1000)), queries).tolist() == [queries > 5]


@pytest.mark.parametrize("rows", [3, 52, 100])
def test_a_best_row_of_many_can_be_marked(rows: int) -> None:
    values = np.full((rows, 1 + samples_for(rows)), 10.0)
    values[0] = 90
    assert marks(values) == ["best", *["second"] * (rows - 1)]


Hits = dict[str, list[bool | None]]
"""Of each scenario whether each query is a hit; None: it was not asked."""

QUERIES = 400
ALL, HALF = [True] * QUERIES, [place % 2 == 0 for place in range(QUERIES)]
MORE = [hit or place < 20 for place, hit in enumerate(HALF)]
SCENARIOS: dict[str, dict[str, Any]] = {
    "clean": {},
    **{f"fog {severity}": {**FOG, "severity": severity} for severity in (1, 3, 5)},
    "snow 5": {**FOG, "perturbation": "snow"},
}


def page_of_hits(folder: Path, models: dict[str, Hits], **of_model: dict[str, Any]) -> Page:
    """The page of models, each of which is none adapted; `of_model` has columns by the model's name, and a prefix."""
    rows: list[ResultRow] = []
    ranks: list[RankRow] = []
    for model, scenarios in models.items():
        about = dict(of_model.get(model, {}))
        prefix = about.pop("prefix", "")
        for name, hits in scenarios.items():
            known = [0 if hit is None else 1 if hit else 2 for hit in hits]
            columns = {
                "model": model,
                "model_key": model,
                "missing_queries": known.count(0),
                **SCENARIOS[name],
                **about,
            }
            row, own = of_ranks(str(columns.pop("method", "none")), known, **columns)
            rows.append(row)
            ranks += [replace(rank, query_id=prefix + rank.query_id) for rank in own]
    files.write(folder / "ranks.parquet", RANKS, ranks)
    return page_of(folder, rows, ranks=[folder / "ranks.parquet"])


def marks_in(content: Page, column: str) -> list[str]:
    """The marks of a column of R@1, "fog" of a mean or "fog 1" of a scenario, in the order of models."""
    cells = [own for caption, table in content.cells.items() if caption.startswith("R@1: ") for own in table]
    return list({own["row"]: own["mark"] for own in cells if own["column"] == column}.values())


LACKING = [None if place == 399 else hit for place, hit in enumerate(HALF)]


@pytest.mark.parametrize(
    ("models", "column", "expected"),
    [
        # The 20 queries that differ are the same ones, whether or not one query is missing that both miss.
        ({"A": {"clean": MORE}, "B": {"clean": HALF}}, "clean", ["best", "second"]),
        ({"A": {"clean": MORE}, "B": {"clean": LACKING}}, "clean", ["best", "second"]),
        # B was not run under snow: it neither marks nor unmarks the others.
        ({"A": {"snow 5": MORE}, "B": {"fog 5": ALL}, "C": {"snow 5": HALF}}, "snow", ["best", "", "second"]),
        ({"A": {"snow 5": HALF}, "B": {"fog 5": ALL}, "C": {"snow 5": HALF[::-1]}}, "snow", ["", "", ""]),
        # Means over other severities are not compared, and the scenarios that both have are.
        ({"A": {"fog 1": MORE, "fog 5": HALF}, "B": {"fog 1": HALF}}, "fog", ["", ""]),
        ({"A": {"fog 1": MORE, "fog 5": HALF}, "B": {"fog 1": HALF}}, "fog 1", ["best", "second"]),
    ],
)
def test_marks_are_of_the_test_below_the_table(
    tmp_path: Path, models: dict[str, Hits], column: str, expected: list[str]
) -> None:
    assert marks_in(page_of_hits(tmp_path, models), column) == expected


@pytest.mark.parametrize(
    "columns", [{"prefix": "other "}, {"gallery": 1_000}, {"listed_sha256": "other"}, {"missing_queries": 9}]
)
def test_numbers_of_other_queries_or_galleries_are_not_compared(tmp_path: Path, columns: dict[str, Any]) -> None:
    """Two corpora that the user calls by one name."""
    models: dict[str, Hits] = {name: {"clean": hits, "fog 5": hits} for name, hits in (("A", ALL), ("B", HALF))}
    of_a = {"listed_sha256": "own"}
    assert marks_in(page_of_hits(tmp_path, models, A=of_a, B=of_a), "clean") == ["best", "second"]
    content = page_of_hits(tmp_path, models, A=of_a, B={**of_a, **columns})
    assert marks_in(content, "clean") == marks_in(content, "fog") == ["", ""]
    assert (
        "The models were not asked the same queries in equal galleries: their numbers do not compare." in content.text
    )


def test_numbers_without_a_common_query_are_not_compared(tmp_path: Path) -> None:
    """Each model lacks a half of the listed queries."""
    hits = [place < 150 for place in range(QUERIES)]
    halves: dict[str, Hits] = {
        name: {"clean": [None if (place < 200) == (name == "A") else hit for place, hit in enumerate(hits)]}
        for name in "AB"
    }
    assert marks_in(page_of_hits(tmp_path, halves), "clean") == ["", ""]


def test_the_captions_of_a_clip_are_drawn_together(tmp_path: Path) -> None:
    """20 captions per clip, which all hit or all miss: the interval is that of 30 clips, not of 600 captions."""
    hits = np.repeat(np.arange(30) < 15, 20)
    widths, of_misses = [], []
    for name in ("clip {}#{}", "caption {} {}"):
        clean, known = of_ranks("none", np.where(hits, 1, 9).tolist(), direction="t2v")
        ids = {row.query_id: name.format(*divmod(place, 20)) for place, row in enumerate(known)}
        renamed = [replace(row, query_id=ids[row.query_id]) for row in known]
        scores = scores_of([clean], read(tmp_path, renamed))
        low, high = span_of(scores.estimate("recall_at_1", "none", scores.clean))  # type: ignore[misc]
        widths.append(high - low)
        of_misses.append(scores.own_span("recall_at_1", scores.clean, np.zeros(1001)))
    assert of_misses == [(0, pytest.approx(100 * share_interval(0, clips)[1])) for clips in (30, 600)]
    assert widths[0] == pytest.approx(2 * 1.96 * 100 * np.sqrt(0.25 / 30), rel=0.15)
    assert widths[1] == pytest.approx(2 * 1.96 * 100 * np.sqrt(0.25 / 600), rel=0.15)


def test_a_method_that_lost_its_clean_result_is_named_and_not_marked(tmp_path: Path) -> None:
    rows, known = [], []
    for method, clean, fog in (("none", 80, 40), ("tcr", 78, 45), ("invgc", 50, 60)):
        for hits, about in ((clean, {}), (fog, FOG)):
            row, of_row = of_ranks(method, [1] * hits + [9] * (100 - hits), **about)
            rows.append(row)
            known += of_row
    files.write(tmp_path / "ranks.parquet", RANKS, known)
    content = page_of(tmp_path, rows, ranks=[tmp_path / "ranks.parquet"])
    assert marks_in(content, "fog") == ["second", "best", ""]
    assert "Not marked: InvGC, whose clean R@1 lost more than its own interval." in content.text


def test_clean_results_are_of_the_same_queries(tmp_path: Path) -> None:
    """The scenario lacks the query that is a miss in the clean run, so its clean counterpart is 100 %."""
    clean, of_clean = of_ranks("none", [1, 1, 7, 1])
    fog, of_fog = of_ranks("none", [1, 9, 0, 1], **FOG)
    whole, of_whole = of_ranks("none", [1, 1, 1, 1], **FOG | {"severity": 1})
    rows, known = [clean, fog, whole], [*of_clean, *of_fog, *of_whole]
    paired = with_clean(rows, known)
    assert [row.clean_recall_at_1 for row in paired] == [75, 100, 75]
    assert [row.clean_recall_at_10 for row in paired] == [100, 100, 100]
    assert [row.clean_recall_at_1 for row in with_clean(rows[1:], known)] == [None, None]
