"""Composed retrieval of models whose features are given: settings, galleries, chance, the command."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import annotation_files
import numpy as np
import pytest
import synthetic_results
from annotation_files import EVERY
from copies import without_torch

from perturbations import read_manifest
from perturbations.base.errors import ConfigError
from perturbations.cli.main import main
from perturbations.composed import official, sources
from perturbations.composed.audit import compare_galleries, compared, words
from perturbations.composed.gallery_sets import gallery
from perturbations.composed.split import ComposedQuery, PoolClip, Split
from perturbations.config import file as config_file
from perturbations.corpus.plan import items
from perturbations.evaluation.composed.ways import ScoredModel, settings_of
from perturbations.evaluation.features import feature_reading
from perturbations.evaluation.result_rows import Finished
from perturbations.retrieval.composed import HALVES

POOL = tuple(PoolClip(clip_id=f"v_{n}_{n + 8}", video_id="v", narration=f"narration {n}") for n in range(0, 80, 10))
QUERIES = (
    ComposedQuery(query_id="0", clip_id="v_0_8", targets='["v_10_18"]', instruction="One.", target_narration="n 1"),
    ComposedQuery(
        query_id="1", clip_id="v_10_18", targets='["v_0_8", "v_20_28"]', instruction="Two.", target_narration="n 0"
    ),
    ComposedQuery(query_id="2", clip_id="v_20_28", targets='["v_20_28"]', instruction="None.", target_narration="n 2"),
)
SPLIT = Split(POOL, QUERIES, {"v_10_18": (3, 4), "v_0_8": (5,), "v_20_28": (6, 7)})
EYE = np.eye(8, dtype=np.float32)
LOOKS = ScoredModel("looks", EYE + 0.1)
READS = ScoredModel("reads", EYE, {"instruction": EYE[[1, 2, 7]], "gt": EYE[[1, 0, 2]]})


def scored(*models: ScoredModel, **ways: Any) -> dict[tuple[str, str], Finished]:
    """The results by method and gallery, of the last model and random orders."""
    rows = annotation_files.scored(SPLIT, *models, **ways)
    return {(own[0].method, own[0].gallery_name or ""): own for own in rows}


def test_settings_are_those_that_the_features_allow() -> None:
    every = {**EVERY, "first_stage": HALVES}
    assert Counter(own["model"] for own in settings_of([LOOKS, READS], every)) == {"looks": 1, "reads": 13}
    assert [own["strategy"] for own in settings_of([LOOKS], every)] == ["visual"]
    alone = [own for own in settings_of([READS], {**every, "words": ["gt"]}) if own["strategy"] == "two_stage"]
    assert {(own["half"], own["average"]) for own in alone} == {
        ("visual", ""),
        ("text", ""),
        ("average", "released"),
        ("average", "unit"),
    }


def test_queries_without_an_answer_are_misses_where_the_authors_count_them() -> None:
    """The third query has itself as its only target."""
    scores = scored(READS, galleries=("local_full", "global_rows"))
    (local, asked), (everywhere, (ids, ranks, _)) = (
        scores["text, instruction", name] for name in ("local_full", "global_rows")
    )
    assert (asked[:2], local.missing_queries) == ((["0", "1"], [1, 1]), 1)
    assert (ids, ranks[2], everywhere.missing_queries) == (["0", "1", "2"], 101, 0)
    assert (local.gallery_mean, everywhere.gallery_mean) == (4, 7)
    (near, _), (far, _) = (scores["random", name] for name in ("local_full", "global_rows"))
    assert near.recall_at_1 == pytest.approx(100 * (1 / 3 + 2 / 5) / 2)
    assert (near.recall_at_100, far.recall_at_100) == (100, pytest.approx(200 / 3))


def test_other_query_clips_may_be_asked_than_those_of_the_gallery() -> None:
    strange = replace(LOOKS, queries=EYE[[1, 0, 3]])
    assert scored(strange)["visual", "local_full"][1][1] == [1, 1]
    assert scored(LOOKS)["visual", "local_full"][1][1] == [3, 4]


def test_methods_are_named_by_what_is_compared_of_one_size() -> None:
    assert {method for method, _ in scored(LOOKS, READS)} == {
        "random",
        "visual",
        *(f"{how}, {words}" for how in ("text", "average released", "average unit") for words in ("instruction", "gt")),
        *(f"two_stage looks visual, {words}" for words in ("instruction", "gt")),
        *(
            f"two_stage_average looks visual {how}, {words}"
            for how in ("released", "unit")
            for words in ("instruction", "gt")
        ),
    }
    assert "two_stage visual, gt" in {method for method, _ in scored(READS)}
    with pytest.raises(ConfigError, match="looks: the features of clips are 7 x 8; expected 8 x 8"):
        scored(ScoredModel("looks", EYE[:7]))
    with pytest.raises(ConfigError, match="reads: the features of texts 'gt' are 3 x 7; expected 3 x 8"):
        scored(ScoredModel("reads", EYE, {"gt": EYE[:3, :7]}))


def test_a_gallery_that_the_dataset_brings_is_compared_in_words() -> None:
    released = list(gallery(SPLIT, "local_released"))
    same = compare_galleries(replace(SPLIT, galleries={"local_official": released}))
    assert (same["equal"], same["first"]) == (3, "")
    assert "local_official is local_released: all 3 galleries hold the same clips" in words(same)
    full = replace(SPLIT, galleries={"local_official": list(gallery(SPLIT, "local_full"))})
    other = compare_galleries(full)
    assert (other["equal"], other["first"]) == (1, "1")
    assert "local_official is not local_released: 1 of 3" in words(other)
    assert "that of query 1" in words(other)
    assert [own["ours"] for own in compared(full)] == ["local_full"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The files of the command: annotations, and features of two models."""
    official.write(SPLIT, tmp_path)
    texts = ["One.", "Two.", "None.", "n 1", "n 0", "n 2"]
    feature_reading.write(tmp_path / "clips.npz", [clip.clip_id for clip in POOL], EYE)
    feature_reading.write(tmp_path / "texts.npz", texts, EYE[:6])
    paths = {"SPLIT": official.ANNOTATIONS, "CLIPS": "clips.npz", "TEXTS": "texts.npz", "OUT": "out", "PAIRS": "p.csv"}
    return {name: str(tmp_path / path) for name, path in paths.items()}


COMMAND = ["score", "TEXTS", "CLIPS", "--direction", "composed", "--output", "OUT"]


def called(files: dict[str, str], *words: str) -> int:
    return main([files.get(word, word) for word in (*COMMAND, *words)])


def test_the_command_writes_results_ranks_and_a_page(files: dict[str, str], tmp_path: Path) -> None:
    galleries = ["--galleries", "local_full", "global_rows"]
    assert called(files, "--split", "SPLIT", *galleries, "--model", "reads", "--first-stage", "looks", "CLIPS") == 0
    results = read_manifest(tmp_path / "out" / "results.parquet").set_index(["model_key", "method"])
    rows = results.to_dict("index")
    assert set(results["direction"]) == {"composed"}
    assert {key for key, _ in results.index} == {
        f"{model}@{gallery}" for model in ("reads", "looks") for gallery in galleries[1:]
    }
    # The captions that TF-CVR needs are empty in these annotations.
    assert {method for _, method in results.index if method.startswith("two_stage ")} == {
        "two_stage looks visual, instruction",
        "two_stage looks visual, gt",
    }
    row = rows["reads@global_rows", "text, gt"]
    assert (row["queries"], row["missing_queries"], row["gallery"]) == (3, 0, 7)
    chance = rows["reads@local_full", "random"]
    assert 0 < chance["recall_at_1"] < chance["recall_at_2"] < chance["recall_at_3"]
    ranks = read_manifest(tmp_path / "out" / "ranks.parquet")
    own = ranks[(ranks["model_key"] == "reads@global_rows") & (ranks["method"] == "text, gt")]
    assert own["rank"].le(1).mean() * 100 == pytest.approx(row["recall_at_1"])
    page = synthetic_results.Page(tmp_path / "out" / "report.html")
    assert "reads@local_full" in page.text
    # No method is the model as it is: each value has its own interval, and chance is no method that ties.
    assert "nan %" not in page.text
    assert re.search(r"reads@global_rows by [a-z, ]+: R@1 [0-9.]+ % clean \([0-9.]+ % in random order\)\.", page.text)
    assert "R@k is 100" not in page.text  # galleries differ in size
    assert "1 dataset, 2 models, 1 scenario, " in page.text
    boards = [table for caption, table in page.tables.items() if caption.startswith("R@1: ")]
    assert len(boards) == len(galleries[1:])
    assert [mark for table in boards for line in table for _, mark in line if line[0][0] == "random" and mark] == []
    for metric, column in (("R@1", "recall_at_1"), ("R@2", "recall_at_2"), ("R@3", "recall_at_3")):
        tables = [cells for caption, cells in page.cells.items() if caption.startswith(f"{metric}: ")]
        cells = [cell for members in tables for cell in members if cell["column"] == "clean"]
        spans = [(float(cell["low"]), float(cell["value"]), float(cell["high"])) for cell in cells if cell["low"]]
        assert len(spans) > len(galleries)
        assert all(low <= value <= high for low, value, high in spans)
        assert max(float(cell["value"]) for cell in cells if cell["value"]) == pytest.approx(
            results[column].max(), abs=0.05
        )


def test_the_first_clips_of_each_query_are_kept(files: dict[str, str], tmp_path: Path) -> None:
    scores = scored(READS, strategies=["text"], words=["instruction"], top_k=2)
    _, (_, _, first) = scores["text, instruction", "local_full"]
    own = json.loads(first[0] or "")
    assert own[0] == ["v_10_18", 1]
    assert len(own) == 2
    assert (
        called(files, "--split", "SPLIT", "--galleries", "global_rows", "--words", "instruction", "--top-k", "3") == 0
    )
    page = (tmp_path / "out/report.html").read_text()
    assert "3 examples of composed queries" in page
    assert "✓ narration 10 (v_10_18)" in page
    ranks = read_manifest(tmp_path / "out/ranks.parquet")
    assert len(ranks) == 3 * ranks["method"].nunique()
    for retrieved in ranks["retrieved"]:
        first = [score for _, score in json.loads(retrieved)]
        assert first == sorted(first, reverse=True)
        assert len(first) == 3


def perturbed(folder: Path, scenario: str, ids: list[str], rows: np.ndarray) -> dict[str, str]:
    """The place of a folder with the clean features that lay beside it, and those of a scenario."""
    path = folder / f"{scenario}.npz"
    path.parent.mkdir(parents=True)
    feature_reading.write(path, ids, rows)
    folder.with_suffix(".npz").rename(folder / "clean.npz")
    return {folder.name.upper(): str(folder)}


def test_perturbed_queries_are_scored_from_folders(files: dict[str, str], tmp_path: Path) -> None:
    for folder, name, ids, rows in (
        ("texts", "mm_robustness/ocr/2", ["000000", "000001"], EYE[[1, 2]]),
        ("clips", "mlvp/fog/5", ["v_0_8", "v_10_18", "v_20_28"], EYE[[1, 0, 3]]),
    ):
        files |= perturbed(tmp_path / folder, name, ids, rows)
    assert called(files, "--split", "SPLIT", "--galleries", "local_full") == 0
    results = read_manifest(tmp_path / "out" / "results.parquet")
    scenarios = results.groupby(["suite", "perturbation", "severity", "side"])["method"].agg(set).to_dict()
    assert scenarios.keys() == {
        ("clean", "clean", 0, "none"),
        ("mlvp", "fog", 5, "query"),
        ("mm_robustness", "ocr", 2, "query"),
    }
    assert "visual" in scenarios["mlvp", "fog", 5, "query"]
    assert "visual" not in scenarios["mm_robustness", "ocr", 2, "query"]
    fog = results[(results["perturbation"] == "fog") & (results["method"] == "visual")].iloc[0]
    assert (fog["recall_at_1"], fog["queries"]) == (100, 2)
    ocr = results[(results["perturbation"] == "ocr") & (results["method"] == "text, instruction")].iloc[0]
    assert (ocr["recall_at_1"], ocr["queries"], ocr["missing_queries"]) == (100, 2, 1)


def test_another_models_shortlists_are_ranked_by_the_average_and_by_given_similarities(
    files: dict[str, str], tmp_path: Path
) -> None:
    """With a preset, whose published values are of its name and of more queries."""
    named = {"queries": np.array([f"{n:06d}" for n in range(3)]), "gallery": np.array([c.clip_id for c in POOL])}
    np.savez(tmp_path / "s.npz", similarities=EYE[[1, 2, 7]], **named)
    about = ["--split", "SPLIT", "--dataset", "egocvr", "--protocol", "egocvr_table_1", "--galleries", "global_rows"]
    first = ["--first-stage", "LanguageBind", "CLIPS"]
    assert called(files, *about, *first, "--model", "EgoVLPv2") == 0
    methods = {*read_manifest(tmp_path / "out/results.parquet")["method"]}
    assert "two_stage_average LanguageBind visual released, instruction" in methods
    crossed = ["score", "--similarities", str(tmp_path / "s.npz"), "--direction", "composed", "-o", files["OUT"]]
    words = [files.get(word, word) for word in (*crossed, *about, *first, "--model", "BLIP_CoVR")]
    assert main(words) == 0
    results = read_manifest(tmp_path / "out/results.parquet").query("method != 'random'").set_index("method")
    assert results["recall_at_1"].round().to_dict() == {
        "cross_attention": 67,
        "two_stage_cross_attention LanguageBind visual": 67,
    }
    page = (tmp_path / "out/report.html").read_text()
    assert "because 3 queries are listed in composed, and the published split has 2,295" in page
    assert "beside Table 1" not in page
    np.savez(tmp_path / "s.npz", similarities=EYE[:2], **{**named, "queries": named["queries"][:2]})
    assert main(words) == 1


WEBVID = """pth1,pth2,txt1,txt2,edit,scores
1/a,1/b,A red kite,A blue kite,Make it blue,"[0.5, 0.5]"
1/b,1/a,A blue kite,A red kite,make it red,[]
2/c,1/a,"A dog, running",A red kite,turn it into a kite,[]
2/c,,A dog,,,[]
"""


def test_webvid_covr_retrieves_from_the_targets_without_the_querys_video(
    files: dict[str, str], tmp_path: Path, caplog: Any
) -> None:
    path = tmp_path / "webvid8m-covr_test.csv"
    path.write_text(WEBVID)
    split = sources.of_file(path)
    assert [[split.pool[row].clip_id for row in rows] for rows in gallery(split, "global_targets")] == [
        ["1/b"],
        ["1/a"],
        ["1/a", "1/b"],
    ]
    assert "not a query: a row needs pth1, pth2 and edit (webvid8m-covr_test.csv, line 5)" in caplog.text
    dataset = config_file.parse(
        {
            "datasets": {"webvid": {"adapter": "webvid_covr", "annotations": str(path), "videos": str(tmp_path)}},
            "suites": {"mlvp": {}},
        }
    ).datasets["webvid"]
    listing = items.read("webvid", dataset)
    assert {item.item_id: (item.files, item.texts) for item in listing.items} == {
        "1/a": (("1/a.mp4",), ("A red kite",)),
        "1/b": (("1/b.mp4",), ("A blue kite",)),
        "2/c": (("2/c.mp4",), ("A dog, running",)),
    }
    assert sources.read_split(dataset, listing, 0, "webvid") == split
    feature_reading.write(tmp_path / "clips.npz", ["1/a", "1/b", "2/c"], EYE[:3])
    feature_reading.write(tmp_path / "texts.npz", ["Make it blue", "make it red", "turn it into a kite"], EYE[:3])
    about = ["--split", str(path), "--words", "instruction", "--dataset", "webvid_covr", "--model", "BLIP"]
    assert called(files, *about, "--protocol", "egocvr_table_S2", "--shortlist", "20") == 0
    results = read_manifest(tmp_path / "out/results.parquet").query("gallery_name == 'global_targets'")
    assert {*results["queries"]} == {1}  # of one other target there is nothing to choose
    assert (
        "3 queries are listed in composed, and the published split has 2,556"
        in (tmp_path / "out/report.html").read_text()
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--direction composed needs --split"),
        (["--split", "SPLIT", "--relevant", "PAIRS"], "needs --split, which says what answers a query, and no --rele"),
        (["--split", "SPLIT", "--choices", "PAIRS"], "and no --relevant or --choices"),
        (["--split", "SPLIT", "--galleries", "local"], "no gallery 'local'; choose of global_rows"),
        (["--split", "SPLIT", "--words", "tfcvr"], "--words tfcvr: some queries have none; the annotations have"),
        (["--split", "SPLIT", "--first-stage", "alone"], "give a name of its own, a file of clips, and perhaps one"),
        (["--split", "SPLIT", "--first-stage", "x", "TEXTS"], "does not have 8 of 8 clips: 'v_0_8'"),
        (
            ["--split", "SPLIT", "--first-stage", "x", "CLIPS", "CLIPS"],
            "--words instruction: .* not have 3 of 3 texts",
        ),
    ],
)
def test_the_command_says_what_does_not_fit(
    files: dict[str, str], words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(files, *words) == 1
    assert re.search(message, capsys.readouterr().err)


def test_a_pool_without_a_choice_is_refused(files: dict[str, str], tmp_path: Path, capsys: Any) -> None:
    official.write(Split(POOL[:2], QUERIES[:1], {}), tmp_path)
    assert called(files, "--split", "SPLIT") == 1
    assert "in no gallery does a query choose among two clips or more" in capsys.readouterr().err


def test_ids_of_no_query_are_named_and_left_out(files: dict[str, str], tmp_path: Path, caplog: Any) -> None:
    files |= perturbed(tmp_path / "clips", "mlvp/fog/5", ["v_0_8", "other"], EYE[:2])
    assert called(files, "--split", "SPLIT", "--strategies", "visual", "--galleries", "local_full") == 0
    assert "1 ids are of no query of the split, the first 'other'" in caplog.text
    fog = read_manifest(tmp_path / "out/results.parquet").query("perturbation == 'fog'").iloc[0]
    assert (fog["queries"], fog["missing_queries"]) == (1, 2)


def test_numpy_alone_scores(files: dict[str, str]) -> None:
    done = without_torch(*(files.get(word, word) for word in (*COMMAND, "--split", "SPLIT")))
    assert (done.returncode, done.stderr) == (0, "")
