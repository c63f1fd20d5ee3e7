"""Composed retrieval as users run it: manifests and the runner."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from annotation_files import EVERY, split_of

from perturbations.base.errors import ManifestError
from perturbations.composed import manifests
from perturbations.composed.gallery_sets import NAMES, gallery
from perturbations.composed.split import ComposedQuery, PoolClip, Split
from perturbations.evaluation.plan import composed_runs
from perturbations.evaluation.result_rows import CLEAN_SCENARIO, Run, rows_of
from perturbations.manifest import files

# --- manifests -------------------------------------------------------------------------------------------------------


def clip(name: str, start_s: float, narration: str = "", video: str = "v") -> PoolClip:
    return PoolClip(clip_id=name, video_id=video, narration=narration or name, start_s=start_s, end_s=start_s + 5)


SPLIT = Split(
    (
        clip("a", 0),
        clip("b", 10),
        clip("c", 20),
        clip("d", 30),
        clip("d", 30, "d again"),
        clip("e", 11),
        clip("f", 0, video="w"),
    ),
    (
        ComposedQuery(
            query_id="0", clip_id="a", targets='["b"]', instruction="Use a spoon.", instruction_source="official"
        ),
        ComposedQuery(
            query_id="1", clip_id="c", targets='["d", "b", "d"]', instruction="Peel it.", modified_caption="x"
        ),
        ComposedQuery(query_id="2", clip_id="b", targets='["b"]', instruction="No change."),
    ),
    {"b": (3, 5), "d": (4,)},
    frozenset({"b"}),
    {"local_official": ((1, 3), (1, 4), (0,)), "global_official": ((1, 2, 3, 5, 6), (0, 1, 3, 4, 5), (0, 2))},
)


def written(folder: Path, split: Split = SPLIT, **wanted: Any) -> Split:
    manifests.write(split, folder, "data", NAMES, {"root": "."}, **wanted)
    return manifests.read(folder)


@pytest.mark.parametrize("source_in_gallery", [False, True])
def test_a_split_comes_back_with_its_galleries(source_in_gallery: bool, tmp_path: Path) -> None:
    split = replace(SPLIT, gallery="global_targets", source_in_gallery=source_in_gallery)
    again = written(tmp_path, split)
    assert again == replace(split, galleries=again.galleries)
    rows = files.read_rows(tmp_path / "galleries.parquet", files.kind_of(tmp_path / "galleries.parquet"))
    assert {row.gallery for row in rows} == {"local_official", "global_official", "local_released", "local_full"}
    for name in ("local_released", "local_full", *SPLIT.galleries):
        shared = {number for row in rows if row.gallery == name and row.query_id is None for number in row.rows}
        held = {row.query_id: shared ^ {*row.rows} for row in rows if row.gallery == name and row.query_id is not None}
        expected = SPLIT.galleries.get(name) or gallery(SPLIT, name)
        assert held == {str(number): {*members} for number, members in enumerate(expected)}
    assert {name: list(map(tuple, rows)) for name, rows in again.galleries.items()} == {
        name: list(rows) for name, rows in SPLIT.galleries.items()
    }
    about = files.read_metadata(tmp_path / "queries.parquet")
    assert about["sources"]["instruction"] == {"official": 1, "": 2}
    assert {comparison["given"] for comparison in about["official"]} == {*SPLIT.galleries}


def test_galleries_of_egocvr_take_a_few_megabytes(reference: Path, tmp_path: Path) -> None:
    annotations = reference / "data" / "egocvr" / "egocvr_annotations.csv"
    split = split_of({"adapter": "egocvr", "annotations": str(annotations), "videos": str(tmp_path)})
    manifests.write(split, tmp_path, "data", NAMES, {"root": "."})
    assert sum(path.stat().st_size for path in tmp_path.glob("*.parquet")) < 3_000_000


def test_what_is_missing_is_in_no_gallery_and_asks_nothing() -> None:
    every = frozenset(query.query_id for query in SPLIT.queries)
    part = manifests.restricted(SPLIT, frozenset("abcef"), every)
    assert [row.clip_id for row in part.pool] == ["a", "b", "c", "e", "f"]
    assert [query.target_ids for query in part.queries] == [("b",), ("b",), ("b",)]
    assert part.blocks == {"b": (3,)}
    assert [*map(tuple, part.galleries["local_official"])] == [(1,), (1,), (0,)]
    assert [query.query_id for query in manifests.restricted(SPLIT, frozenset("abcde"), frozenset("1")).queries] == [
        "1"
    ]
    assert [query.query_id for query in manifests.restricted(SPLIT, frozenset("cd"), every).queries] == ["1"]
    assert manifests.restricted(SPLIT, frozenset("abcdefg"), every) is SPLIT


# --- the runner ------------------------------------------------------------------------------------------------------


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The runner, of a model to which words are the direction of the clip that they name last."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from perturbations.evaluation.composed import composed_jobs
    from perturbations.evaluation.run import query_encoding

    def texts(backbone: object, lines: Sequence[str]) -> Any:
        return np.eye(8, dtype=np.float32)[["abcdefgh".index(line[-1]) for line in lines]]

    monkeypatch.setattr(query_encoding, "text_vectors", texts)
    return composed_jobs


def clip_features(*names: str) -> Any:
    """One direction per clip."""
    from perturbations.evaluation.features.feature_reading import StoredFeatures

    return StoredFeatures(Path(), names, np.eye(8, dtype=np.float32)[["abcdefgh".index(name) for name in names]])


HOW = '{"frames":"mean","shortlist":15}'
RUN = Run(
    dataset="data",
    direction="composed",
    **CLEAN_SCENARIO._asdict(),
    model="clip4clip",
    model_key="tiny",
    method="composed",
    seed=0,
    adapter="egocvr",
    num_frames=3,
    setting="qs",
    parameters=HOW,
)


WAYS = {
    **EVERY,
    "galleries": ("local_full", "global_distinct"),
    "words": ("instruction", "tfcvr"),
    "averages": ("unit",),
}


def job(runner: Any, names: str = "abcdef", split: Split = SPLIT, clips: Any = None, **more: Any) -> Any:
    texts = SimpleNamespace(truncated=lambda lines: sum(line.startswith("to") for line in lines), most_tokens=77)
    model = SimpleNamespace(sha256="sum", architecture=None, texts=texts)
    return runner.ComposedJob(model, split, clips or clip_features(*names), WAYS, json.loads(HOW), **more)


def run_of(clips: Any, texts: Any) -> Run:
    """The run of a perturbation of clips, of instructions, of both, or of neither."""
    return replace(RUN, **composed_runs.scenario_of(clips, texts)._asdict())


FOG, OCR = ("mlvp", "fog", 5), ("mm_robustness", "ocr", 2)


def run(
    runner: Any, clips: Any = None, instructions: Any = None, names: str = "abcdef", split: Split = SPLIT
) -> list[Any]:
    """The results of one scenario."""
    planned = run_of(None if clips is None else FOG, None if instructions is None else OCR)
    rows, ranks = rows_of(job(runner, names, split).scored(planned, clips, instructions))
    counts = Counter((rank.model_key, rank.method) for rank in ranks)
    assert counts == {(row.model_key, row.method): row.queries for row in rows if row.method != "random"}
    return list(rows)


PLAIN = replace(
    SPLIT,
    queries=tuple(
        replace(query, instruction=words) for query, words in zip(SPLIT.queries, ("to b", "to e", "to b"), strict=True)
    ),
    galleries={},
)


def test_every_way_in_every_gallery_beside_chance(runner: Any) -> None:
    rows = {(row.model_key, row.method): row for row in run(runner, split=PLAIN)}
    # No words for tfcvr, which one query lacks.
    assert {method for _, method in rows} == {
        "random",
        "text, instruction",
        "visual",
        "average unit, instruction",
        "two_stage visual, instruction",
    }
    local, everywhere = rows["tiny@local_full", "text, instruction"], rows["tiny@global_distinct", "text, instruction"]
    assert len(rows) == 10
    assert (local.queries, local.missing_queries) == (2, 1)  # one has no target in its gallery
    assert (everywhere.queries, everywhere.missing_queries) == (3, 0)  # as the released code counts
    assert (local.recall_at_1, local.recall_at_2) == (50.0, 100.0)
    assert everywhere.recall_at_1 == pytest.approx(100 / 3)
    assert everywhere.recall_at_100 == pytest.approx(200 / 3)
    assert rows["tiny@local_full", "random"].recall_at_1 == pytest.approx(100 * (1 / 3 + 2 / 3) / 2)
    assert (local.gallery, local.gallery_mean) == (3, 3.0)
    assert (local.direction, local.side, local.suite, local.severity) == ("composed", "none", "clean", 0)
    assert json.loads(local.settings)["shortlist"] == 15


def test_missing_clips_are_counted(runner: Any) -> None:
    rows = run(runner, names="bcdef", split=PLAIN)
    assert {row.model_key: row.missing_queries for row in rows} == {"tiny@local_full": 2, "tiny@global_distinct": 1}
    with pytest.raises(ManifestError, match="no query is left"):
        run(runner, names="f", split=PLAIN)


def test_only_what_a_perturbation_changes_is_evaluated(runner: Any) -> None:
    clips = run(runner, clip_features("a", "c"), split=PLAIN)
    assert {row.method.split()[0] for row in clips} == {"visual", "average", "two_stage"}
    assert {row.missing_queries for row in clips} == {1}
    shown = {(row.side, row.suite, row.perturbation, row.severity, row.category) for row in clips}
    assert shown == {("query", "mlvp", "fog", 5, "low")}
    words = run(runner, instructions={"0": "to f", "1": "to d"}, split=PLAIN)
    assert {row.method.split()[0] for row in words} == {"text,", "average", "two_stage"}
    text = next(row for row in words if (row.model_key, row.method) == ("tiny@local_full", "text, instruction"))
    assert (text.recall_at_1, text.suite, text.perturbation) == (50.0, "mm_robustness", "ocr")
    both = run(runner, clip_features("a"), {"0": "to b", "1": "to d"}, split=PLAIN)
    assert {row.method.split()[0] for row in both} == {"average", "two_stage"}
    assert {row.missing_queries for row in both} == {2}
    assert {(row.perturbation, row.text_perturbation, row.text_severity) for row in both} == {
        ("fog", "mm_robustness/ocr", 2)
    }


def test_galleries_that_the_dataset_brings_are_evaluated_first(runner: Any) -> None:
    split = replace(PLAIN, galleries=SPLIT.galleries)
    keys = dict.fromkeys(row.model_key.partition("@")[2] for row in run(runner, split=split))
    assert list(keys) == ["local_official", "global_official", "local_full", "global_distinct"]


def test_an_interrupted_job_goes_on_with_the_scenario_where_it_was(
    runner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"0": "to f", "1": "to d"}
    rows = [SimpleNamespace(caption_id=name, text=text, accepted=True, recipe_id="r") for name, text in texts.items()]
    monkeypatch.setattr(runner, "_perturbed", lambda run, split: (None, None if run.side == "none" else rows))
    made: list[int | None] = []
    scored = runner.ComposedJob.scored

    def counted(job: Any, run: Run, *arguments: Any) -> Any:
        made.append(run.severity)
        if len(made) == 3:
            raise KeyboardInterrupt
        return scored(job, run, *arguments)

    runs = [run_of(None, None), *(run_of(None, (*OCR[:2], severity)) for severity in (2, 3, 4))]
    whole = job(runner, split=PLAIN).evaluate(runs, tmp_path / "whole" / "j.jsonl")
    monkeypatch.setattr(runner.ComposedJob, "scored", counted)
    with pytest.raises(KeyboardInterrupt):
        job(runner, split=PLAIN).evaluate(runs, tmp_path / "j.jsonl")
    again = job(runner, split=PLAIN).evaluate(runs, tmp_path / "j.jsonl")
    assert str(again) == str(whole)  # ranks of random orders are NaN
    assert made == [0, 2, 3, 3, 4]
    rows[0].text = "to e"
    job(runner, split=PLAIN).evaluate(runs, tmp_path / "j.jsonl")
    assert made[5:] == [2, 3, 4], "what changes a result runs again"
    job(runner, split=PLAIN, split_sha256="other").evaluate(runs[:1], tmp_path / "j.jsonl")
    features = replace(clip_features(*"abcdef"), rows=np.ones((6, 8), np.float32))
    job(runner, split=PLAIN, clips=features).evaluate(runs[:1], tmp_path / "j.jsonl")
    assert made[8:] == [0, 0]
