"""The sets of composed queries, in the form in which each is published: their splits, and figures by own arithmetic."""

from __future__ import annotations

import csv
import json
import logging
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import annotation_files
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from annotation_files import parse, split_of

from perturbations import read_manifest
from perturbations.base.errors import AnnotationError, ConfigError
from perturbations.cli.main import main
from perturbations.composed import manifests, sources
from perturbations.composed.gallery_sets import gallery
from perturbations.composed.split import Split
from perturbations.corpus.plan import items
from perturbations.datasets import composed_table as composed_tables
from perturbations.evaluation.composed.ways import MAP_KS, ScoredModel, pre_caption
from perturbations.evaluation.features import feature_reading
from perturbations.evaluation.result_rows import Finished

# Who asks, what answers, and what is said. The third query asks with the second one's first target.
QUERIES = (
    ("c1", ("c2",), "Peel it."),
    ("c3", ("c4", "c5"), "Cut it."),
    ("c4", ("c2", "c1"), "Wash it."),
    ("c6", ("c5",), "Dry it."),
)
SINGLE = tuple((source, targets[:1], words) for source, targets, words in QUERIES)
CLIPS = ("c1", "c2", "c3", "c4", "c5", "c6")


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, [*rows[0]])
        table.writeheader()
        table.writerows(rows)


def composed_table(folder: Path) -> dict[str, Any]:
    rows = [{"a": source, "b": list(targets), "say": words, "kind": "k"} for source, targets, words in QUERIES]
    (folder / "q.json").write_text(json.dumps(rows))
    (folder / "pool.csv").write_text("item_id,video,start_s,end_s\n" + "".join(f"{c},v,0,{n}\n" for n, c in spans()))
    columns = {"source": "a", "targets": "b", "instruction": "say", "category": "kind"}
    return {"annotations": "q.json", "columns": columns, "pool": str(folder / "pool.csv")}


def spans() -> list[tuple[int, str]]:
    return [*enumerate(CLIPS, start=1)]


def dense_webvid_covr(folder: Path) -> dict[str, Any]:
    rows = [
        {"txt1": f"of {source}", "pth1": f"1/{source}", "pth2": f"1/{targets[0]}", "edit": words}
        for source, targets, words in SINGLE
    ]
    write_csv(folder / "q.csv", rows)
    return {"annotations": "q.csv"}


def omni_cvr(folder: Path) -> dict[str, Any]:
    lines = [
        {
            "source_id": source,
            "target_id": targets[0],
            "instruction": words,
            "candidates": [f"{clip}.mp4" for clip in CLIPS],
            "category": "audio-centric" if source == "c1" else "integrated",
        }
        for source, targets, words in SINGLE
    ]
    (folder / "omnicvr.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"annotations": "omnicvr.jsonl"}


def covr_r(folder: Path) -> dict[str, Any]:
    rows = [
        {
            "id": f"q{number}",
            "video_source": f"a/{source}.mp4",
            "video_target": f"b/{targets[0]}.webm",
            "modification_text": words,
            "description_source": "before",
            "reasoned_target_video_description__main": "after",
        }
        for number, (source, targets, words) in enumerate(SINGLE)
    ]
    (folder / "q.json").write_text(json.dumps([{"webvid": rows[:2]}, {"ss2": rows[2:]}]))
    (folder / "pool.txt").write_text("".join(f"{clip}.mp4\n" for clip in CLIPS))
    return {"annotations": "q.json", "pool": str(folder / "pool.txt")}


def tf_covr(folder: Path) -> dict[str, Any]:
    rows = [
        {
            "query_id": f"t{number}",
            "query_video": source,
            "target_video": targets[0],
            "target_videos_ids": str([*targets]),
            "modification": words,
        }
        for number, (source, targets, words) in enumerate(QUERIES)
    ]
    write_csv(folder / "test_finegd.csv", rows)
    return {"annotations": "test_finegd.csv"}


def fine_cvr(folder: Path) -> dict[str, Any]:
    queries = [{"id": f"f{n}", "text": words, "video": source} for n, (source, _, words) in enumerate(QUERIES)]
    answers = [
        {"query-id": f"f{n}", "corpus-id": name, "score": 1}
        for n, (_, names, _) in enumerate(QUERIES)
        for name in names
    ]
    for name, rows in (("queries", queries), ("qrels", answers), ("corpus", [{"id": clip} for clip in CLIPS])):
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return {"annotations": "queries.parquet"}


SETS: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "composed_table": (composed_table, "global_distinct"),
    "covr_r": (covr_r, "global_distinct"),
    "dense_webvid_covr": (dense_webvid_covr, "global_targets"),
    "fine_cvr": (fine_cvr, "global_distinct+source"),
    "omni_cvr": (omni_cvr, "candidates+source"),
    "tf_covr": (tf_covr, "global_target_rows"),
}


def settings_of(name: str, folder: Path, **more: Any) -> dict[str, Any]:
    own = {"adapter": name, "videos": str(folder), **SETS[name][0](folder), **more}
    return {**own, "annotations": str(folder / own["annotations"])}


def average_precision(ranked: Sequence[str], targets: set[str], k: int, relevant: int) -> float:
    hits, total = 0, 0.0
    for place, name in enumerate(ranked[:k], start=1):
        if name in targets:
            hits += 1
            total += hits / place
    return total / min(relevant, k)


def scored(split: Split, name: str, features: Any) -> Finished:
    """The result of visual queries in a gallery."""
    _, own = annotation_files.scored(split, ScoredModel("m", features), galleries=[name], strategies=("visual",))
    return own


@pytest.mark.parametrize("name", SETS)
def test_figures_of_a_set_are_those_of_plain_arithmetic(name: str, tmp_path: Path) -> None:
    settings = settings_of(name, tmp_path)
    split = split_of(settings)
    published = SETS[name][1]
    assert manifests.names_of(split, ())[:1] == ((published,) if name != "composed_table" else ())
    draw = np.random.default_rng(len(name))
    features = draw.normal(size=(len(split.pool), 5)).astype(np.float32)
    row, (ids, ranks, _) = scored(split, published, features)
    assert ids == [query.query_id for query in split.queries]
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    of_clip = {clip.clip_id: unit[place] for place, clip in enumerate(split.pool)}
    several = any(len(query.target_ids) > 1 for query in split.queries)
    maps, first, expected = [], [], []
    for query in split.queries:
        names = [clip.clip_id for clip in split.pool]
        if "target" in published:
            names = [other.target_ids[0] for other in split.queries]
            names = names if "rows" in published else sorted({*names})
        names = [own for own in names if own != query.clip_id or "source" in published]
        ranked = sorted(names, key=lambda own: -float(of_clip[own] @ of_clip[query.clip_id]))
        wanted = query.target_ids[:1] if "rows" in published else query.target_ids
        places = [place for place, own in enumerate(ranked, start=1) if own in wanted]
        expected.append(places[0] if places else 101)
        maps.append([average_precision(ranked, {*query.target_ids}, k, len(query.target_ids)) for k in MAP_KS])
        first.append(query.clip_id in ranked and ranked.index(query.clip_id) < (places or [99])[0])
    assert ranks == expected
    assert row.recall_at_1 == pytest.approx(100 * np.mean(np.array(expected) == 1))
    assert row.source_in_gallery == ("source" in published)
    assert row.source_first == (pytest.approx(100 * np.mean(first)) if "source" in published else None)
    shown = [getattr(row, f"map_at_{k}") for k in MAP_KS]
    assert shown == (pytest.approx(list(100 * np.mean(maps, axis=0))) if several else [None] * 4)
    # As manifests, and by the command, the split is the same.
    manifests.write(split, tmp_path / "out", "mine", ("global_distinct",), {"root": "."})
    again = manifests.read(tmp_path / "out")
    assert [[*rows] for rows in gallery(again, published)] == [[*rows] for rows in gallery(split, published)]
    listing = items.read("mine", parse(settings).datasets["mine"])
    assert [item.item_id for item in listing.items] == [clip.clip_id for clip in split.pool]


@pytest.mark.parametrize("score", [-1.0, 0.0, float("nan"), None])
def test_only_a_score_above_0_answers_in_fine_cvr(tmp_path: Path, score: float | None) -> None:
    settings = settings_of("fine_cvr", tmp_path)
    split = split_of(settings)
    answers = pq.read_table(tmp_path / "qrels.parquet").to_pylist()
    rows = [{**row, "score": 1.0} for row in answers] + [{**answers[0], "corpus-id": CLIPS[-1], "score": score}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "qrels.parquet")
    again = split_of(settings)
    assert [query.targets for query in again.queries] == [query.targets for query in split.queries]


def test_a_planted_ranking_gives_each_figure(tmp_path: Path) -> None:
    """The query's own clip first, a target second and fourth, of five."""
    split = split_of(settings_of("fine_cvr", tmp_path))
    angles = {"c1": 0.5, "c2": 1.2, "c3": 0.0, "c4": 0.1, "c5": 0.3, "c6": 0.2}
    features = np.array([[np.cos(angles[c.clip_id]), np.sin(angles[c.clip_id])] for c in split.pool], np.float32)
    (masked, (_, masked_ranks, _)), (row, (_, ranks, _)) = (
        scored(split, name, features) for name in ("global_distinct", "global_distinct+source")
    )
    assert (ranks[1], masked_ranks[1]) == (2, 1)
    assert row.source_first == 100
    assert (masked.source_first, masked.source_in_gallery) == (None, False)
    assert masked.recall_at_1 > row.recall_at_1


def test_each_set_keeps_what_else_it_says(tmp_path: Path) -> None:
    split = split_of(settings_of("covr_r", tmp_path))
    assert [query.query_id for query in split.queries] == ["q0", "q1", "q2", "q3"]
    assert {query.modified_caption for query in split.queries} == {"after"}
    assert len(split.pool) == 6
    assert {query.category for query in split_of(settings_of("composed_table", tmp_path)).queries} == {"k"}
    assert {clip.end_s for clip in split_of(settings_of("composed_table", tmp_path)).pool} == {1, 2, 3, 4, 5, 6}
    audio = settings_of("omni_cvr", tmp_path, categories=["audio-centric"])
    assert [query.clip_id for query in split_of(audio).queries] == ["c1"]
    paper = split_of(settings_of("tf_covr", tmp_path, variant="paper"))
    released = split_of(settings_of("tf_covr", tmp_path))
    assert manifests.names_of(paper, ()) == ("global_targets",)
    of_third = [[split.pool[row].clip_id for row in [*gallery(split, split.gallery)][2]] for split in (released, paper)]
    assert of_third == [["c2", "c2", "c5"], ["c1", "c2", "c5"]]


def test_the_querys_clip_is_in_galleries_as_the_authors_or_the_user_have_it(tmp_path: Path) -> None:
    split = split_of(settings_of("omni_cvr", tmp_path))
    assert manifests.names_of(split, ("global_distinct",)) == ("candidates+source", "global_distinct+source")
    assert manifests.names_of(split, (), False) == ("candidates",)
    assert manifests.names_of(split, (), "both") == ("candidates", "candidates+source")
    first = split.pool[0].clip_id
    for name in ("candidates", "global_distinct"):
        without, within = (
            [split.pool[row].clip_id for row in next(iter(gallery(split, own)))] for own in (name, f"{name}+source")
        )
        assert sorted([*without, first]) == sorted(within) == sorted(CLIPS)
    with pytest.raises(ConfigError, match="composed.source_in_gallery"):
        parse(settings_of("omni_cvr", tmp_path), composed={"source_in_gallery": "maybe"})


@pytest.mark.parametrize("listed", [["b", "c", "b"], ["a", "b", "c"]])
def test_an_own_gallery_has_the_querys_clip_where_that_is_wanted(listed: list[str], tmp_path: Path) -> None:
    row = {"source": "a", "targets": "b", "instruction": "x", "gallery": listed}
    (tmp_path / "q.jsonl").write_text(json.dumps(row))
    split = split_of({"adapter": "composed_table", "annotations": str(tmp_path / "q.jsonl"), "videos": str(tmp_path)})
    for name, expected in (("candidates", ["b", "c"]), ("candidates+source", ["a", "b", "c"])):
        assert [split.pool[row].clip_id for row in next(iter(gallery(split, name)))] == expected


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"source": "", "targets": ["b"], "instruction": "x"}], "a row needs source, targets and instruction"),
        ([{"source": "a", "targets": [], "instruction": "x"}], "a row needs source, targets and instruction"),
        ([{"source": "a", "targets": "['b'", "instruction": "x"}], "a cell of clips is not a list of names"),
        ([{"source": "a", "targets": [["b"]], "instruction": "x"}], "is neither a name nor a list of names"),
        ([{"source": "a", "targets": ["../b"], "instruction": "x"}], "'../b' is no listed clip"),
        ([{"query_id": "1", "source": "a", "targets": ["b"], "instruction": "x"}] * 2, "another query has the same id"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(
    rows: list[dict[str, Any]], message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = {"query_id": "good", "source": "g", "targets": ["h"], "instruction": "x"}
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [good, *rows]))
    with caplog.at_level(logging.WARNING, "perturbations"):
        split = split_of(
            {"adapter": "composed_table", "annotations": str(tmp_path / "q.jsonl"), "videos": str(tmp_path)}
        )
    assert split.queries[0].query_id == "good"
    assert message in caplog.text
    assert "q.jsonl, line " in caplog.text


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("['b', \"it's\"]", ("b", "it's")),
        ('["caf\\/\\u00e9", "\\ud83d\\ude00"]', ("caf/é", "😀")),
        ("[b] clip", ("[b] clip",)),
        ("b, c", ("b, c",)),
        (["видео"], ("видео",)),
    ],
)
def test_targets_are_a_list_a_list_as_text_or_a_name(cell: object, names: tuple[str, ...]) -> None:
    assert composed_tables.names_in(cell) == names


def test_names_that_no_comma_separates_are_no_name() -> None:
    with pytest.raises(ValueError, match="is not a list of names"):
        composed_tables.names_in("['b' 'c']")


@pytest.mark.parametrize(("ending", "expected"), [("", "new"), (".mp4", "new.mp4")])
def test_a_list_of_files_adds_the_clips_that_no_query_names(ending: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text(f"source,targets,instruction\na{ending},b{ending},x\n")
    (tmp_path / "files.txt").write_text("a.mp4\r\nb.mp4\r\nnew.mp4\r\n")
    about = {"annotations": str(tmp_path / "q.csv"), "videos": str(tmp_path), "pool": str(tmp_path / "files.txt")}
    split = split_of({"adapter": "composed_table", **about})
    assert [clip.clip_id for clip in split.pool] == [f"a{ending}", f"b{ending}", expected]


def test_a_published_clip_is_the_same_with_and_without_its_ending(tmp_path: Path) -> None:
    rows = [{"txt1": "x", "pth1": "1/a.MP4", "pth2": "1/b", "edit": "x"}]
    rows += [{"txt1": "x", "pth1": "1/b.mp4", "pth2": "1/a", "edit": "x"}]
    write_csv(tmp_path / "q.csv", rows)
    settings = {"adapter": "dense_webvid_covr", "annotations": str(tmp_path / "q.csv"), "videos": str(tmp_path)}
    assert [clip.clip_id for clip in split_of(settings).pool] == ["1/a", "1/b"]


def test_rows_of_one_published_id_are_queries_of_their_own(tmp_path: Path) -> None:
    """The two lists of CoVR-R may count from the same number, and TF-CoVR has a row per target."""
    row = {"id": 7, "video_source": "a.mp4", "video_target": "b.mp4", "modification_text": "x"}
    (tmp_path / "q.json").write_text(json.dumps([{"webvid": [row]}, {"ss2": [{**row, "video_source": "c.webm"}]}]))
    split = split_of({"adapter": "covr_r", "annotations": str(tmp_path / "q.json"), "videos": str(tmp_path)})
    assert [(query.query_id, query.clip_id) for query in split.queries] == [("7", "a"), ("7#1", "c")]
    row = {"query_id": "t", "query_video": "a", "target_videos_ids": "['b', 'c']", "modification": "x"}
    write_csv(tmp_path / "q.csv", [{**row, "target_video": name} for name in "bc"])
    split = split_of({"adapter": "tf_covr", "annotations": str(tmp_path / "q.csv"), "videos": str(tmp_path)})
    assert [query.target_ids for query in split.queries] == [("b", "c"), ("c", "b")]


def test_a_table_without_a_column_says_how_to_name_it(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("video,target,instruction\na,b,c\n")
    settings = {"adapter": "composed_table", "annotations": str(tmp_path / "q.csv"), "videos": str(tmp_path)}
    with pytest.raises(AnnotationError, match="no column 'source', 'targets'.*`columns: {source: ..., targets: ..., "):
        split_of(settings)
    (tmp_path / "q.jsonl").write_text('{"video": "a", "target": "b", "instruction": "c"}\n')
    with pytest.raises(AnnotationError, match=r"no column 'source', 'targets'; its header is .*`columns: {source: "):
        split_of({**settings, "annotations": str(tmp_path / "q.jsonl")})
    with pytest.raises(AnnotationError, match="neither EgoCVR's nor WebVid-CoVR's columns: `--adapter`"):
        sources.of_file(tmp_path / "q.csv")
    columns = {"source": "video", "targets": "target", "category": "kind"}
    with pytest.raises(AnnotationError, match="no column 'kind'"):
        split_of({**settings, "columns": columns})


def test_the_command_reads_every_set_and_own_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    composed_table(tmp_path)
    feature_reading.write(tmp_path / "clips.npz", list(CLIPS), np.eye(6, dtype=np.float32) + 0.1)
    feature_reading.write(tmp_path / "texts.npz", [words for *_, words in QUERIES], np.eye(6, dtype=np.float32)[:4])
    command = ["score", *(str(tmp_path / f"{name}.npz") for name in ("texts", "clips")), "--direction", "composed"]
    command += ["--split", str(tmp_path / "q.json"), "-o", str(tmp_path / "out")]
    columns = ["--columns", "source=a", "targets=b", "instruction=say"]
    both = ["--source-in-gallery", "both", "--galleries", "global_distinct", "--top-k", "2"]
    assert main([*command, "--adapter", "composed_table", *columns, *both]) == 0
    results = read_manifest(tmp_path / "out/results.parquet")
    assert {*results["gallery_name"]} == {"global_distinct", "global_distinct+source"}
    visual = results[(results["method"] == "visual") & results["source_in_gallery"]]
    assert visual["source_first"].tolist() == [100]
    page = (tmp_path / "out/report.html").read_text()
    assert "R@1 can rise" in page
    assert "mAP@50" in page
    assert "Peel it." in page
    for wrong, message in (
        (["--adapter", "msrvtt"], "--adapter 'msrvtt': its annotations have no composed queries"),
        (["--columns", "source=a"], "--columns and --pool need --adapter"),
        (["--adapter", "composed_table", "--columns", "source"], "write ROLE=NAME"),
        (["--adapter", "composed_table", "--columns", "sauce=a"], "columns.sauce"),
        (["--adapter", "covr_r", "--columns", "source=a"], "the columns of covr_r are known"),
    ):
        assert main([*command, *wrong]) == 1
        assert message in capsys.readouterr().err


def test_clips_without_features_are_in_no_gallery_and_their_queries_are_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fine_cvr(tmp_path)
    feature_reading.write(tmp_path / "clips.npz", CLIPS[:5], np.eye(5, dtype=np.float32))
    feature_reading.write(tmp_path / "texts.npz", [words for *_, words in QUERIES], np.eye(5, dtype=np.float32)[:4])
    command = ["score", *(str(tmp_path / f"{name}.npz") for name in ("texts", "clips")), "--direction", "composed"]
    command += ["--split", str(tmp_path / "queries.parquet"), "--adapter", "fine_cvr", "-o", str(tmp_path / "out")]
    assert main([*command, "--galleries", "global_distinct"]) == 0
    results = read_manifest(tmp_path / "out/results.parquet")
    assert {*zip(results["gallery"], results["queries"], results["missing_queries"], strict=True)} == {(5, 3, 1)}
    assert "lacks 1 of 6 clips" in caplog.text


def test_thousands_of_candidates_take_four_bytes_each(tmp_path: Path) -> None:
    """300 queries of 2,000 candidates: 2.4 MB of rows; Python objects of them would take ten times that."""
    names = [f"clip{number:05d}.mp4" for number in range(4_000)]
    draw = np.random.default_rng(0)
    with (tmp_path / "omnicvr.jsonl").open("w") as file:
        for number in range(300):
            own = [names[place] for place in draw.choice(4_000, 2_000, replace=False)]
            line = {"source_id": own[0], "target_id": own[1], "instruction": f"say {number}", "candidates": own}
            file.write(json.dumps(line) + "\n")
    settings = {"adapter": "omni_cvr", "annotations": str(tmp_path / "omnicvr.jsonl"), "videos": str(tmp_path)}
    split = split_of(settings)
    manifests.write(split, tmp_path / "out", "mine", (), {"root": "."})
    expected = [{*rows} for rows in split.galleries["candidates"]]
    tracemalloc.start()
    again = manifests.read(tmp_path / "out")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [{*rows} for rows in again.galleries["candidates"]] == expected
    assert held < 10_000_000
    tracemalloc.start()
    scored(again, "global_distinct", np.eye(2, dtype=np.float32)[np.arange(len(again.pool)) % 2])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * len(again.queries) * len(again.pool), "similarities, and no array of rows per query"
    part = manifests.restricted(again, frozenset(clip.clip_id for clip in again.pool[:3_000]), frozenset(["000003"]))
    assert sum(map(len, part.galleries["candidates"])) < 2_000


def test_texts_are_shortened_as_the_authors_do() -> None:
    assert pre_caption('Make it  RED! (now) - "please".') == "make it red now - please"
    assert pre_caption(" ".join(map(str, range(40)))).split() == [str(number) for number in range(30)]


def test_files_that_a_set_needs_are_named(tmp_path: Path) -> None:
    settings = settings_of("fine_cvr", tmp_path)
    (tmp_path / "qrels.parquet").unlink()
    with pytest.raises(ConfigError, match=r"there is no .*qrels\.parquet"):
        sources.check(parse(settings), "mine")
