"""A split for composed retrieval in EgoCVR's files, read back as its released evaluation reads them."""

from __future__ import annotations

from ast import literal_eval
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import clips
import pandas as pd
import pytest
from export_readers import Searcher, export, loaded_tasks, undecoded

from perturbations.base.errors import ConfigError, ManifestError
from perturbations.composed import manifests, official
from perturbations.composed.audit import compare_galleries
from perturbations.composed.gallery_sets import gallery
from perturbations.composed.split import ComposedQuery, PoolClip, Rows, Split
from perturbations.manifest import files
from perturbations.manifest.rows import SOURCES

POOL = tuple(
    PoolClip(clip_id=f"v_{n}_{n + 8}", video_id="v", narration=f'says "{n}", then\nleaves', start_s=n, end_s=n + 8.0)
    for n in (0, 10, 20, 30, 31, 50, 50)
)
QUERIES = (
    ComposedQuery(
        query_id="0", clip_id="v_0_8", targets='["v_10_18"]', instruction="Say 'no', \"sir\".", change="temporal"
    ),
    ComposedQuery(
        query_id="1", clip_id="v_10_18", targets='["v_0_8", "v_20_28"]', instruction="Drop it.", narration="it's"
    ),
    ComposedQuery(
        query_id="2", clip_id="v_30_38", targets='["v_20_28"]', instruction="Lift it.", modified_caption="#C C"
    ),
)
SPLIT = Split(POOL, QUERIES, {"v_10_18": (3, 4), "v_0_8": (5,), "v_20_28": (4, 6)})


def written(folder: Path, split: Split = SPLIT) -> Path:
    """The manifest of a split's queries."""
    manifests.write(split, folder, "demo", ("global_rows", "local_full"), {"root": "."})
    return folder / "queries.parquet"


def as_released(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables as the released code reads them: lists by `literal_eval`."""
    queries = pd.read_csv(folder / official.GALLERIES)
    for column in {"target_clip_ids", "local_idx", "global_idx"} & {*queries.columns}:
        queries[column] = queries[column].apply(literal_eval)
    return queries, pd.read_csv(folder / official.POOL)


def test_the_released_code_reads_the_files(tmp_path: Path) -> None:
    done = export("composed", written(tmp_path / "split"), tmp_path / "out", "splits", global_gallery=True)
    assert str(done) == "3 queries written, 0 failed, 0 quarantined"
    held = {path.name for path in (tmp_path / "out").iterdir()}
    assert held == {official.ANNOTATIONS, official.POOL, official.GALLERIES}
    queries, pool = as_released(tmp_path / "out")
    assert queries["video_clip_id"].tolist() == [query.clip_id for query in QUERIES]
    assert queries["instruction"].tolist() == [query.instruction for query in QUERIES]
    assert [tuple(names) for names in queries["target_clip_ids"]] == [query.target_ids for query in QUERIES]
    assert pool["clip_name"].tolist() == [clip.clip_id for clip in POOL]
    assert pool["narration_text"].tolist() == [clip.narration for clip in POOL]
    for column, name in (("local_idx", "local_full"), ("global_idx", "global_rows")):
        assert [tuple(rows) for rows in queries[column]] == list(gallery(SPLIT, name))
    assert "local_idx" not in pd.read_csv(tmp_path / "out" / official.ANNOTATIONS).columns


def test_the_global_gallery_and_another_local_one_are_options(tmp_path: Path) -> None:
    manifest = written(tmp_path / "split")
    export("composed", manifest, tmp_path, "splits", gallery="local_released")
    queries, _ = as_released(tmp_path)
    assert "global_idx" not in queries.columns
    assert [tuple(rows) for rows in queries["local_idx"]] == list(gallery(SPLIT, "local_released"))
    for name in ("local", "global_rows"):
        with pytest.raises(ConfigError, match=f"no local gallery '{name}'; choose one of local_released"):
            export("composed", manifest, tmp_path, "splits", gallery=name)


def test_the_splits_own_galleries_come_first(tmp_path: Path) -> None:
    own: tuple[Rows, ...] = ((1, 2), (0, 2, 5), (2, 4))
    manifest = written(tmp_path / "split", replace(SPLIT, galleries={"local_official": own}))
    export("composed", manifest, tmp_path, "splits")
    assert [tuple(rows) for rows in as_released(tmp_path)[0]["local_idx"]] == list(own)
    again = official.read(tmp_path / official.GALLERIES)
    assert compare_galleries(again, ours="local_full")["equal"] == 0
    assert [tuple(rows) for rows in again.galleries["local_official"]] == list(own)


def test_what_pandas_takes_for_missing_is_refused(tmp_path: Path) -> None:
    for number, text in enumerate(("None", " NA ", "nan", "", "<NA>")):
        queries = (replace(QUERIES[0], instruction=text), *QUERIES[1:])
        manifest = written(tmp_path / str(number), replace(SPLIT, queries=queries))
        with pytest.raises(ManifestError, match="query '0' has the text .* EgoCVR's code reads as a missing value"):
            export("composed", manifest, tmp_path / "out", "splits")
    assert not (tmp_path / "out").exists()


class Ranker(Searcher):
    """A model that ranks the documents that mteb gives it for each query."""

    def search(
        self, queries: Any, *, hf_subset: str, top_k: int, top_ranked: Any = None, **_: Any
    ) -> dict[str, dict[str, float]]:
        scores = super().search(queries, hf_subset=hf_subset, top_k=top_k)
        return {query: {name: scores[query][name] for name in top_ranked[query]} for query in scores}


def test_mteb_ranks_only_the_candidates_of_each_query(tmp_path: Path, mteb: ModuleType, datasets: ModuleType) -> None:
    """A model to which the query's own clip is the best answer: with it among the candidates, it fails."""
    place = tmp_path / "manifests/demo"
    (tmp_path / "clips").mkdir()
    names = [clip.clip_id for clip in POOL[:3]]
    sources = [clips.source_row(clips.make(tmp_path / f"clips/{name}.mp4", frames=2), name) for name in names]
    files.write(
        place / "sources.parquet", SOURCES, [replace(row, dataset="demo") for row in sources], {"root": "../.."}
    )
    brought = {"global_official": ((0, 1, 2), (0, 1, 2)), "candidates": ((0, 1, 5), (0, 1, 2))}
    split = replace(SPLIT, queries=QUERIES[:2], galleries=brought, source_in_gallery=True)
    manifest = written(place / "composed", split)
    own_clip = {query.query_id: query.clip_id for query in QUERIES}
    model = Ranker(lambda subset, query, document: float(document == own_clip[query]))
    for gallery_name, expected, score in (
        (None, {"0": {"v_0_8", "v_10_18"}, "1": {"v_0_8", "v_10_18", "v_20_28"}}, 0),
        ("candidates", {"0": {"v_10_18"}, "1": {"v_0_8", "v_20_28"}}, 1),
    ):
        out = tmp_path / f"out {gallery_name}"
        export("mteb", manifest, out, "splits", gallery=gallery_name)
        (task,) = loaded_tasks(out)
        task.load_data()
        ranked = task.dataset["clean"]["test"]["top_ranked"]
        assert {query: {*own} for query, own in ranked.items()} == expected
        result = mteb.evaluate(model, task, cache=None, encode_kwargs={}).task_results[0]
        assert result.scores["test"][0]["hit_rate_at_1"] == score
    with pytest.raises(ConfigError, match="--gallery: no gallery 'nearby'"):
        export("mteb", manifest, tmp_path / "other", "splits", gallery="nearby")


def test_mteb_asks_with_a_clip_and_an_instruction(tmp_path: Path, mteb: ModuleType, datasets: ModuleType) -> None:
    """Of the four clips that there are; a query whose clip or targets are not there is left out."""
    place = tmp_path / "manifests/demo"
    present = ["v_0_8", "v_10_18", "v_20_28", "v_50_58"]
    held = tmp_path / "clips"
    held.mkdir()
    sources = [clips.source_row(clips.make(held / f"{name}.mp4", frames=2), name) for name in present]
    sources = [replace(row, dataset="demo") for row in sources]
    files.write(place / "sources.parquet", SOURCES, sources, {"root": "../.."})
    done = export("mteb", written(place / "composed"), tmp_path / "out", "splits")
    assert str(done) == "2 queries written, 4 videos written, 1 failed, 0 quarantined"
    (task,) = loaded_tasks(tmp_path / "out")
    assert (task.metadata.category, task.metadata.modalities) == ("vt2v", ["video", "text"])
    task.load_data()
    data = task.dataset["clean"]["test"]
    assert sorted(data["corpus"]["id"]) == present
    queries = undecoded(datasets, data["queries"])
    exported = {query.query_id: query for query in QUERIES if query.clip_id in present}
    assert {row["id"]: row["text"] for row in queries} == {name: query.instruction for name, query in exported.items()}
    for row in queries:
        assert row["video"]["bytes"] == (held / f"{exported[row['id']].clip_id}.mp4").read_bytes()
        assert set(data["relevant_docs"][row["id"]]) == set(exported[row["id"]].target_ids)
    assert not data.get("top_ranked")
    model = Searcher(lambda subset, query, document: float(document in exported[query].target_ids))
    assert mteb.evaluate(model, task, cache=None, encode_kwargs={}).task_results[0].get_score() == 1
    assert "2," in (tmp_path / "out/left_out.csv").read_text("utf-8")
