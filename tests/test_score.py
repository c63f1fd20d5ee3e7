"""Features from anywhere: scored as an evaluation's, with every mistake named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perturbations import read_manifest, retrieval
from perturbations.cli.main import main
from perturbations.evaluation import feature_sets, stored_features
from perturbations.evaluation.section import Evaluation
from perturbations.manifest import files
from perturbations.manifest.kinds import QRELS, QrelRow

IDS = [f"clip {number}" for number in range(6)]
EYE = np.eye(6, dtype=np.float32)


def test_scores_are_ranks_of_cosines() -> None:
    generator = np.random.default_rng(0)
    queries, gallery = generator.normal(size=(600, 8)), generator.normal(size=(40, 8))
    relevant = generator.integers(0, 40, 600)
    similarities = queries @ gallery.T / np.linalg.norm(queries, axis=1)[:, None] / np.linalg.norm(gallery, axis=1)
    ranks = retrieval.score(queries, gallery, relevant)
    assert ranks.tolist() == retrieval.ranks(similarities, relevant).tolist()
    assert retrieval.score(gallery, gallery, range(40)).tolist() == [1] * 40
    several = [[int(place), 0] for place in relevant]
    assert (retrieval.score(queries, gallery, several) <= ranks).all()


@pytest.mark.parametrize(
    ("queries", "gallery", "relevant", "message"),
    [
        ([[1, np.nan], [1, 2]], EYE[:, :2] + 1, [0, 1], "row 0 of the queries holds NaN"),
        (EYE[:2], np.zeros((3, 6)), [0, 1], "row 0 of the gallery is all zeros"),
        (EYE[:2], EYE[:, :5] + 1, [0, 1], "the queries have 6 numbers each, the gallery's items 5"),
        (EYE[:2], EYE, [0], "the targets of 1 queries; there are 2"),
        (EYE[:2], EYE, [0, 6], "outside the gallery"),
        (EYE[0], EYE, [0], "one row each"),
        (np.empty((0, 6)), EYE, [], "one row each"),
    ],
)
def test_features_that_cannot_be_scored_are_refused(queries: Any, gallery: Any, relevant: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        retrieval.score(queries, gallery, relevant)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Clean captions and clips, one of six captions swapped; perturbed captions without the last; perturbed clips."""
    for name, ids, rows in (
        ("captions/clean", IDS, EYE[[1, 0, 2, 3, 4, 5]]),
        ("captions/mm_robustness/ocr/7", IDS[:5], EYE[[1, 0, 3, 2, 4]]),
        ("clips/clean", IDS, EYE),
        ("clips/mlvp/fog/5", IDS, EYE[[1, 0, 2, 3, 4, 5]]),
    ):
        path = tmp_path / f"{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        stored_features.write(path, ids, rows)
    return tmp_path


def called(folder: Path, *words: str, queries: str = "captions/clean.npz", gallery: str = "clips/clean.npz") -> int:
    files = [str(folder / queries), str(folder / gallery)]
    return main(["score", *files, "--direction", "t2v", "--output", str(folder / "out"), *words])


def write_choices(folder: Path) -> Path:
    """Five choices for each of six clips, the right one and four others, as a CSV; one without the right one."""
    own = [(clip, IDS[(place + shift) % 6]) for place, clip in enumerate(IDS) for shift in range(5)]
    path = folder / "choices.csv"
    feature_sets.write_answers(path, [pair for pair in own if pair != (IDS[5], IDS[5])])
    return path


def test_multiple_choice_is_accuracy_among_a_querys_own_items(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choices = str(write_choices(folder))
    about = ["--choices", choices, "--dataset", "msrvtt_qa", "--model", "VideoClip zs"]
    named = {"queries": "clips", "gallery": "captions"}
    assert called(folder, *about, "--direction", "v2t", "--protocol", "msrvtt_p_table_10", **named) == 0
    assert "clean: accuracy 60.0 (5 queries, 1 missing, 5 items)" in capsys.readouterr().out
    results = read_manifest(folder / "out/results.parquet").set_index("side")
    assert results["recall_at_1"].round(1).to_dict() == {"none": 60.0, "query": 100.0, "gallery": 0.0}
    assert {*results["gallery_name"]} == {"choices"}
    assert results["queries"].to_dict() == {"none": 5, "query": 5, "gallery": 1}  # one that lacks a choice is missing
    assert results["hub_skewness"].isna().all()
    page = (folder / "out/report.html").read_text()
    assert "No published number is of what was run here." in page
    # The best caption of clip 1 is that of clip 0, which is none of its choices.
    scores = EYE[[1, 0, 2, 3, 4, 5]] + EYE / 2
    np.savez(folder / "s.npz", queries=np.array(IDS), gallery=np.array(IDS), similarities=scores)
    given = ["score", "--similarities", str(folder / "s.npz"), "--direction", "v2t", "-o", str(folder / "given")]
    assert main([*given, "--choices", choices]) == 0
    assert read_manifest(folder / "given/ranks.parquet")["rank"].tolist() == [2, 1, 1, 1, 1]


def test_directions_have_the_names_of_pictures_too(folder: Path) -> None:
    assert called(folder, "--direction", "i2t", queries="clips/clean.npz", gallery="captions/clean.npz") == 0
    assert read_manifest(folder / "out/results.parquet")["direction"].tolist() == ["v2t"]
    section = Evaluation.model_validate({"directions": ["t2i", "v2t"]})
    assert section.directions == ("t2v", "v2t")
    with pytest.raises(ValueError, match="directions"):
        Evaluation.model_validate({"directions": ["i2i"]})


def test_folders_give_every_scenario_with_its_side(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(folder, "--dataset", "mine", "--model", "my <model>", queries="captions", gallery="clips") == 0
    assert "clean: R@1 66.7" in capsys.readouterr().out
    results = read_manifest(folder / "out/results.parquet").set_index("side")
    assert results["recall_at_1"].round(1).to_dict() == {"none": 66.7, "query": 20.0, "gallery": 100.0}
    query = results.loc["query"]
    scenario = ["suite", "perturbation", "severity", "category", "queries", "missing_queries", "gallery"]
    assert query[scenario].tolist() == ["mm_robustness", "ocr", 7, "character", 5, 1, 6]
    assert query["clean_recall_at_1"] == 60  # of the same five queries
    ranks = read_manifest(folder / "out/ranks.parquet")
    assert ranks.groupby("side").size().to_dict() == {"none": 6, "query": 5, "gallery": 6}
    page = (folder / "out/report.html").read_text()
    assert "my &lt;model&gt;" in page


def test_pairs_say_what_answers_what(folder: Path) -> None:
    pairs = folder / "pairs.csv"
    answers = [(IDS[query], IDS[item]) for query, item in ((0, 1), (1, 0), (2, 2), (2, 5), (3, 3), (4, 4), (5, 5))]
    feature_sets.write_answers(pairs, [*answers, ("of no features", "clip 0")])
    assert called(folder, "--relevant", str(pairs)) == 0
    (row,) = read_manifest(folder / "out/results.parquet").to_dict("records")
    assert (row["recall_at_1"], row["queries"], row["missing_queries"]) == (100, 6, 1)


def test_pairs_are_read_by_their_columns_and_from_our_own_qrels(folder: Path) -> None:
    (folder / "q.csv").write_text("score,corpus_id,note,query_id\n1,b,x,a\n0,c,y,a\n0,c,,d\n")
    assert feature_sets.read_answers(folder / "q.csv") == {"a": ["b"], "d": []}
    qrels = folder / "manifests/d/qrels.parquet"
    known = [QrelRow(query_id=f"{name}#0", corpus_id=name, score=1) for name in IDS]
    files.write(qrels, QRELS, known, {"root": "../.."})
    stored_features.write(folder / "captions/clean.npz", [f"{name}#0" for name in IDS], EYE)
    assert called(folder, "--relevant", str(qrels)) == 0
    backwards = {"queries": "clips/clean.npz", "gallery": "captions/clean.npz"}
    assert called(folder, "--relevant", str(qrels), "--direction", "v2t", **backwards) == 0
    (row,) = read_manifest(folder / "out/results.parquet").to_dict("records")
    assert (row["recall_at_1"], row["missing_queries"]) == (100, 0)


def test_a_wrong_pairs_table_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x.parquet").write_bytes(b"no table")
    assert called(folder, "--relevant", str(folder / "x.parquet")) == 1
    assert "x.parquet" in capsys.readouterr().err


def test_there_is_one_warning_per_kind_and_one_of_features_in_a_wrong_order(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored_features.write(folder / "captions/clean.npz", IDS, EYE[[1, 2, 3, 4, 5, 0]])
    for severity in (1, 2, 3):
        stored_features.write(folder / f"captions/mm_robustness/ocr/{severity}.npz", IDS, EYE)
    stored_features.write(folder / "clips/clean.npz", IDS[:5], EYE[:5])
    assert called(folder, queries="captions") == 0
    lacking, order = caplog.messages
    assert lacking.endswith("which count as missing (and so in 3 more scenarios)")
    assert order.startswith(
        "R@1 is 0.0 clean, and 100.0 under mm_robustness/ocr: are the rows of the clean features in"
    )
    assert order.endswith("(and so in 3 more scenarios)")


@pytest.mark.parametrize(
    ("name", "ids", "rows", "message"),
    [
        ("clips/clean", ["a"], EYE[:1], "clean.npz holds no answer to any query of .*; --relevant FILE says"),
        ("clips/clean", [*IDS[:5], "clip 0"], EYE, "clean.npz has 1 ids twice: 'clip 0'"),
        ("clips/clean", IDS, EYE[:, :4] + 1, "6 numbers each, the gallery's items 4"),
        ("clips/clean", IDS, np.zeros((6, 6)), "row 0 of the gallery is all zeros"),
        ("clips/clean", IDS, np.where(np.arange(6) == 3, np.nan, EYE).T, r"row 3 \('clip 3'\): NaN, infinity"),
        ("captions/clean", IDS[:5], EYE, "clean.npz has 6 rows, and there are 5 ids"),
        ("captions/mlvp/fogg/1", IDS, EYE, "no perturbation 'mlvp/fogg'; did you mean mlvp/fog"),
        ("captions/mlvp/fog/9", IDS, EYE, "mlvp/fog has no severity '9'"),
    ],
)
def test_wrong_features_are_named(
    folder: Path, name: str, ids: list[str], rows: np.ndarray, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / f"{name}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, ids=np.array(ids), features=rows)
    assert called(folder, queries="captions") == 1
    assert re.search(message, capsys.readouterr().err)
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("query_id,gallery_id\n", "lists no pair"),
        ("query,item\na,b\n", "no column 'query_id', 'gallery_id'"),
        ("query_id,gallery_id\nclip 0\n", "line 2: a line has a query_id and a gallery_id"),
        ("query_id,gallery_id\na,b,c\n", "line 2: a line has a query_id and a gallery_id"),
        ("query_id,gallery_id\na,b\na,b\n", "line 3: 'a' and 'b' stand there twice"),
        ("query_id,gallery_id\nclip 0,clip 0\n", "no item answers 'clip 1', 'clip 2', 'clip 3' and 2 more"),
    ],
)
def test_wrong_pairs_are_named(folder: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pairs.csv").write_text(content)
    assert called(folder, "--relevant", str(folder / "pairs.csv")) == 1
    assert message in capsys.readouterr().err


def test_queries_without_an_answer_are_missing_and_a_gallery_of_one_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    stored_features.write(folder / "clips/clean.npz", IDS[:1], EYE[:1])
    assert called(folder) == 0
    assert "clean: R@1 100.0, R@5 100.0, R@10 100.0 (1 query, 5 missing, 1 item)" in capsys.readouterr().out
    assert "holds no answer to 'clip 1', 'clip 2', 'clip 3' and 2 more of" in caplog.text
    assert "is a gallery of one item: every rank is 1, whatever the model" in caplog.text
    (row,) = read_manifest(folder / "out/results.parquet").to_dict("records")
    assert (row["queries"], row["missing_queries"], row["gallery"]) == (1, 5, 1)


def similarities(path: Path, **arrays: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {"queries": np.array(IDS), "gallery": np.array([*IDS, "clip 6"])}
    np.savez(path, **(known | {"similarities": np.eye(6, 7)[:, [1, 0, 2, 3, 4, 5, 6]]} | arrays))
    return str(path)


def test_similarities_of_a_re_ranker(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A protocol and a file alone; pairs that were not compared are the last."""
    rows = np.full((6, 7), -np.inf)
    rows[:, 0], rows[0, 6] = 1, 2
    similarities(folder / "s/clean.npz")
    similarities(folder / "s/mlvp/fog/5.npz", similarities=rows)
    words = ["--protocol", "msrvtt_p_table_2", "--similarities", str(folder / "s"), "--output", str(folder / "out")]
    assert main(["score", *words, "--direction", "v2t", "--top-k", "2"]) == 0
    assert "v2t query mlvp/fog 5: R@1 0.0, R@5 16.7" in capsys.readouterr().out
    results = read_manifest(folder / "out/results.parquet").set_index("side")
    assert results["recall_at_1"].round(1).to_dict() == {"none": 66.7, "query": 0.0}
    assert set(results["protocol"]) == {"msrvtt_p_table_2"}
    assert results["hub_occurrence"].notna().all()
    ranks = read_manifest(folder / "out/ranks.parquet").set_index(["side", "query_id"])["rank"]
    assert ranks["query"].tolist() == [2, 7, 7, 7, 7, 7]
    retrieved = read_manifest(folder / "out/ranks.parquet").set_index(["side", "query_id"])["retrieved"]
    assert json.loads(retrieved["query", "clip 0"]) == [["clip 6", 2.0], ["clip 0", 1.0]]
    assert json.loads(retrieved["query", "clip 2"]) == [["clip 0", 1.0], ["clip 1", None]]
    assert main(["score", *words, "--methods", "csls"]) == 1
    assert "--methods and their banks need the features" in capsys.readouterr().err
    assert main(["score", *words, "--sides", "query", "gallery"]) == 1
    assert "--similarities have one perturbed side: query or gallery" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"queries": np.array(["a"] * 6)}, "`queries` must be a row of different texts"),
        ({"gallery": np.arange(7)}, "`gallery` must be a row of different texts"),
        ({"similarities": np.eye(6)}, "`similarities` are float64 6 x 6; expected 6 x 7 numbers"),
        ({"similarities": np.full((6, 7), np.nan)}, "hold NaN or infinity"),
        ({"similarities": np.full((6, 7), "a")}, "are <U1 6 x 7; expected"),
        ({"similarities": np.array([{}])}, "is no sound file of similarities"),
    ],
)
def test_wrong_similarities_are_named(
    folder: Path, arrays: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--similarities", similarities(folder / "s.npz", **arrays), "--output", str(folder / "out")]
    assert main(["score", *words]) == 1
    assert message in capsys.readouterr().err


def test_two_files_of_one_scenario_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = folder / "clips/mlvp/fog/5.npz"
    first.with_suffix(".safetensors").write_bytes(first.read_bytes())
    assert called(folder, gallery="clips") == 1
    assert f"{first} and {first.with_suffix('.safetensors')} are of the same features" in capsys.readouterr().err


WITHOUT_TORCH = """
import sys
sys.modules |= dict.fromkeys(["torch", "transformers", "scipy", "safetensors"])  # which refuses to import them
from perturbations.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_torch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *words], capture_output=True, text=True, check=False)


def test_numpy_alone_scores_and_two_sets_of_features_share_a_page(folder: Path) -> None:
    sides = [str(folder / name) for name in ("captions", "clips")]
    for name in ("one", "other"):
        done = without_torch("score", *sides, "-o", str(folder / name), "--model", name, "--sides", "query", "both")
        assert (done.returncode, done.stderr) == (0, "")
        assert (folder / name / "report.html").is_file()
    given = [[str(folder / name / f"{kind}.parquet") for name in ("one", "other")] for kind in ("results", "ranks")]
    page = str(folder / "both.html")
    done = without_torch("report", "--results", *given[0], "--ranks", *given[1], "-o", page)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall("<th scope=row>(o.*?)<td>", Path(page).read_text())[:2] == ["one, none", "other, none"]
    done = without_torch("score", *sides, "-o", str(folder / "none"), "--methods", "dsl")
    assert done.returncode == 1
    assert "torch, transformers, safetensors not installed" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "tent"], "tent adapts weights, and this encoder is frozen; methods for it: none, dsl"),
        (["--methods", "qbnorm"], "qbnorm needs a bank of training queries"),
        (["--protocol", "table"], "protocol 'table' is unknown"),
        (["--split", "x.csv"], "of composed retrieval, not of t2v"),
        (["--direction", "v2t"], "mm_robustness/ocr is no perturbation of clips, which v2t has on the side of"),
        (["--similarities", "s.npz"], "give the features of the queries and of the gallery, or --similarities alone"),
    ],
)
def test_what_cannot_be_scored(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(folder, *words, queries="captions") == 1
    assert message in capsys.readouterr().err


def test_a_bank_is_part_of_the_key_of_the_methods_that_use_it(folder: Path) -> None:
    generator = np.random.default_rng(0)
    banks = {name: folder / f"{name}.npz" for name in ("first", "second", "same", "items")}
    for name, path in banks.items():
        rows = np.ones((4, 6), np.float32) if name == "second" else np.eye(6, dtype=np.float32)[:4]
        stored_features.write(path, [f"{name} {row}" for row in generator.permutation(4)], rows)
    keys: dict[str, dict[str, Any]] = {}
    for name in ("first", "second", "same"):
        words = ["--methods", "qbnorm", "csls", "dual_is", "--bank", str(banks[name])]
        assert called(folder, *words, *(["--gallery-bank", str(banks["items"])] if name == "same" else [])) == 0
        rows = read_manifest(folder / "out/results.parquet")
        keys[name] = {row["method"]: row for row in rows[rows["suite"] == "clean"].to_dict("records")}
    for column in ("banks_sha256", "recipe_id"):
        assert keys["first"]["qbnorm"][column] != keys["second"]["qbnorm"][column]
        assert keys["first"]["qbnorm"][column] == keys["same"]["qbnorm"][column]
        assert keys["first"]["dual_is"][column] != keys["same"]["dual_is"][column]
    assert keys["first"]["csls"]["recipe_id"] == keys["second"]["csls"]["recipe_id"]
    assert not any(isinstance(own[name]["banks_sha256"], str) for own in keys.values() for name in ("none", "csls"))


def test_other_answers_are_another_key(folder: Path) -> None:
    pairs = [(name, name) for name in IDS]
    feature_sets.write_answers(folder / "own.csv", pairs)
    feature_sets.write_answers(folder / "others.csv", [*pairs, (IDS[0], IDS[1])])
    keys = []
    for words in ([], ["--relevant", str(folder / "own.csv")], ["--relevant", str(folder / "others.csv")]):
        assert called(folder, *words) == 0
        keys.append(read_manifest(folder / "out/results.parquet")["recipe_id"].tolist())
    assert keys[0] == keys[1] != keys[2]
    assert not {*keys[1]} & {*keys[2]}


def test_the_directions_of_a_method_with_a_bank_share_a_page(folder: Path) -> None:
    captions, clips = (str(folder / f"{name}/clean.npz") for name in ("captions", "clips"))
    for direction, *sides in (("t2v", captions, clips), ("v2t", clips, captions)):
        words = ["--direction", direction, "--methods", "qbnorm", "--bank", sides[0]]
        assert main(["score", *sides, *words, "-o", str(folder / direction)]) == 0
    results = [str(folder / direction / "results.parquet") for direction in ("t2v", "v2t")]
    assert main(["report", "--results", *results, "-o", str(folder / "both.html")]) == 0
    assert (folder / "both.html").is_file()


def test_a_folder_without_clean_features_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "clips/clean.npz").unlink()
    assert called(folder, gallery="clips") == 1
    assert "holds no clean.npz" in capsys.readouterr().err
