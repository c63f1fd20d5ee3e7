"""Features from anywhere: scored as an evaluation's, with every mistake named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from copies import without_torch

from perturbations import read_manifest, retrieval
from perturbations.base.errors import AnnotationError
from perturbations.cli.main import main
from perturbations.evaluation.features import feature_reading, feature_sets
from perturbations.evaluation.plan.evaluation_settings import Evaluation
from perturbations.evaluation.result_rows import PUBLISHED_BATCH
from perturbations.manifest import files
from perturbations.manifest.rows import QRELS, QrelRow
from perturbations.tta.methods.method_registry import methods

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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory, with features.

    Clean captions and clips, one of six captions swapped; perturbed captions without the last; perturbed clips.
    """
    monkeypatch.chdir(tmp_path)
    for name, ids, rows in (
        ("captions/clean", IDS, EYE[[1, 0, 2, 3, 4, 5]]),
        ("captions/mm_robustness/ocr/7", IDS[:5], EYE[[1, 0, 3, 2, 4]]),
        ("clips/clean", IDS, EYE),
        ("clips/mlvp/fog/5", IDS, EYE[[1, 0, 2, 3, 4, 5]]),
    ):
        path = Path(f"{name}.npz")
        path.parent.mkdir(parents=True, exist_ok=True)
        feature_reading.write(path, ids, rows)


def called(*words: str, queries: str = "captions/clean.npz", gallery: str = "clips/clean.npz") -> int:
    return main(["score", queries, gallery, "--direction", "t2v", "--output", "out", *words])


def test_multiple_choice_is_accuracy_among_a_querys_own_items(capsys: pytest.CaptureFixture[str]) -> None:
    """Five choices for each of six clips, the right one and four others; one lacks the right one."""
    own = [(clip, IDS[(place + shift) % 6]) for place, clip in enumerate(IDS) for shift in range(5)]
    feature_sets.write_answers(Path("choices.csv"), [pair for pair in own if pair != (IDS[5], IDS[5])])
    about = ["--choices", "choices.csv", "--dataset", "msrvtt_qa", "--model", "VideoClip zs"]
    named = {"queries": "clips", "gallery": "captions"}
    assert called(*about, "--direction", "v2t", "--protocol", "msrvtt_p_table_10", **named) == 0
    assert "clean: accuracy 60.0 (5 queries, 1 missing, 5 items)" in capsys.readouterr().out
    results = read_manifest("out/results.parquet").set_index("side")
    assert results["recall_at_1"].round(1).to_dict() == {"none": 60.0, "query": 100.0, "gallery": 0.0}
    assert {*results["gallery_name"]} == {"choices"}
    assert results["queries"].to_dict() == {"none": 5, "query": 5, "gallery": 1}  # one that lacks a choice is missing
    assert results["hub_skewness"].isna().all()
    page = Path("out/report.html").read_text()
    assert "No published table reports this experiment, so no number is compared." in page
    # The best caption of clip 1 is that of clip 0, which is none of its choices.
    scores = EYE[[1, 0, 2, 3, 4, 5]] + EYE / 2
    np.savez("s.npz", queries=np.array(IDS), gallery=np.array(IDS), similarities=scores)
    given = ["score", "--similarities", "s.npz", "--direction", "v2t", "-o", "given"]
    assert main([*given, "--choices", "choices.csv"]) == 0
    assert read_manifest("given/ranks.parquet")["rank"].tolist() == [2, 1, 1, 1, 1]


def test_directions_have_the_names_of_pictures_too() -> None:
    assert called("--direction", "i2t", queries="clips/clean.npz", gallery="captions/clean.npz") == 0
    assert read_manifest("out/results.parquet")["direction"].tolist() == ["v2t"]
    section = Evaluation.model_validate({"directions": ["t2i", "v2t"]})
    assert section.directions == ("t2v", "v2t")
    with pytest.raises(ValueError, match="directions"):
        Evaluation.model_validate({"directions": ["i2i"]})


def test_folders_give_every_scenario_with_its_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("--dataset", "mine", "--model", "my <model>", queries="captions", gallery="clips") == 0
    printed = capsys.readouterr().out
    assert "clean: R@1 66.7" in printed
    assert "report.html\n" in printed, "where the page is"
    results = read_manifest("out/results.parquet").set_index("side")
    assert results["recall_at_1"].round(1).to_dict() == {"none": 66.7, "query": 20.0, "gallery": 100.0}
    query = results.loc["query"]
    scenario = ["suite", "perturbation", "severity", "category", "queries", "missing_queries", "gallery"]
    assert query[scenario].tolist() == ["mm_robustness", "ocr", 7, "character", 5, 1, 6]
    assert query["clean_recall_at_1"] == 60  # of the same five queries
    ranks = read_manifest("out/ranks.parquet")
    assert ranks.groupby("side").size().to_dict() == {"none": 6, "query": 5, "gallery": 6}
    page = Path("out/report.html").read_text()
    assert "my &lt;model&gt;" in page


def test_pairs_say_what_answers_what() -> None:
    answers = [(IDS[query], IDS[item]) for query, item in ((0, 1), (1, 0), (2, 2), (2, 5), (3, 3), (4, 4), (5, 5))]
    feature_sets.write_answers(Path("pairs.csv"), [*answers, ("of no features", "clip 0")])
    assert called("--relevant", "pairs.csv") == 0
    (row,) = read_manifest("out/results.parquet").to_dict("records")
    assert (row["recall_at_1"], row["queries"], row["missing_queries"]) == (100, 6, 1)


def test_pairs_are_read_by_their_columns_and_from_our_own_qrels() -> None:
    Path("q.csv").write_text("score,corpus_id,note,query_id\n1,b,x,a\n0,c,y,a\n0,c,,d\n")
    assert feature_sets.read_answers(Path("q.csv")) == {"a": ["b"], "d": []}
    rows = {"score": [1, 0, 1], "gallery_id": [7, 8, None], "query_id": ["a", "a", "d"]}
    pd.DataFrame(rows, dtype=object).to_parquet("q.parquet")
    assert feature_sets.read_answers(Path("q.parquet"), "v2t") == {"a": ["7"], "d": []}
    qrels = Path("manifests/d/qrels.parquet")
    known = [QrelRow(query_id=f"{name}#0", corpus_id=name, score=1) for name in IDS]
    files.write(qrels, QRELS, known, {"root": "../.."})
    feature_reading.write(Path("captions/clean.npz"), [f"{name}#0" for name in IDS], EYE)
    assert called("--relevant", str(qrels)) == 0
    backwards = {"queries": "clips/clean.npz", "gallery": "captions/clean.npz"}
    assert called("--relevant", str(qrels), "--direction", "v2t", **backwards) == 0
    (row,) = read_manifest("out/results.parquet").to_dict("records")
    assert (row["recall_at_1"], row["missing_queries"]) == (100, 0)


def test_there_is_one_warning_per_kind_and_one_of_features_in_a_wrong_order(caplog: pytest.LogCaptureFixture) -> None:
    feature_reading.write(Path("captions/clean.npz"), IDS, EYE[[1, 2, 3, 4, 5, 0]])
    for severity in (1, 2, 3):
        feature_reading.write(Path(f"captions/mm_robustness/ocr/{severity}.npz"), IDS, EYE)
    feature_reading.write(Path("clips/clean.npz"), IDS[:5], EYE[:5])
    assert called(queries="captions") == 0
    lacking, order = caplog.messages
    assert lacking.endswith("they count as missing (and so in 3 more scenarios)")
    assert order.startswith(
        "R@1 is 0.0 clean, and 100.0 under mm_robustness/ocr: are the rows of the clean features in"
    )
    assert order.endswith("(and so in 2 more scenarios)")


def test_features_that_rank_as_chance_does_are_named(caplog: pytest.LogCaptureFixture) -> None:
    names, rows = [f"clip {number}" for number in range(60)], np.eye(60, dtype=np.float32)
    drawn = np.random.default_rng(4).standard_normal((2, 60, 8), np.float32)
    cases = ((rows, np.roll(rows, 30, axis=0), "0.0"), (*drawn, "20.0"), (rows, rows, None))
    for clips, captions, recall in cases:
        caplog.clear()
        feature_reading.write(Path("clips/clean.npz"), names, clips)
        feature_reading.write(Path("captions/clean.npz"), names, captions)
        assert called() == 0
        message = f"R@10 is {recall} clean, and chance gives 16.7: are the rows"
        assert (message in caplog.text) == ("chance" in caplog.text) == (recall is not None)
        caplog.clear()


def npz(name: str, ids: Any = IDS, rows: Any = EYE) -> Callable[[], object]:
    """Writes features."""

    def write() -> None:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        np.savez(name, ids=np.array(ids), features=rows)

    return write


def listed(name: str) -> Callable[[], object]:
    """Writes a table of ids and features."""
    lines = [f'{name},"{row.tolist()}"' for name, row in zip(IDS, EYE, strict=True)]
    return lambda: Path(name).write_text("\n".join(["id,features", *lines]) + "\n")


def pairs(content: str, name: str = "pairs.csv") -> Callable[[], object]:
    return lambda: Path(name).write_text(content)


def matrix(name: str = "s.npz", **arrays: Any) -> Callable[[], object]:
    """Writes similarities."""

    def write() -> None:
        known = {"queries": np.array(IDS), "gallery": np.array([*IDS, "clip 6"])}
        known["similarities"] = np.eye(6, 7)[:, [1, 0, 2, 3, 4, 5, 6]]
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        np.savez(name, **{key: values for key, values in (known | arrays).items() if values is not None})

    return write


FEATURES = ["captions", "clips"]
PAIRS = ["captions/clean.npz", "clips/clean.npz", "--relevant", "pairs.csv"]
GIVEN = ["--similarities", "s.npz"]
HEADER = "query_id,gallery_id\n"


@pytest.mark.parametrize(
    ("change", "words", "message"),
    [
        (
            npz("clips/clean", ["a"], EYE[:1]),
            FEATURES,
            "clean.npz holds no answer to any query of captions/clean.npz: by captions/clean.npz, 'clip 0' answers "
            "'clip 0', and ids of the gallery are 'a'; --relevant FILE says",
        ),
        (npz("clips/clean", [*IDS[:5], "clip 0"]), FEATURES, "clean.npz has ids in two rows: 'clip 0'"),
        (npz("clips/clean", IDS, EYE[:, :4] + 1), FEATURES, "6 numbers each, the gallery's items 4"),
        (npz("clips/clean", IDS, EYE * (np.arange(6) != 2)), FEATURES, "clean.npz, row 2 ('clip 2') is all zeros"),
        (npz("clips/clean", IDS, EYE + np.diag([0, 0, 0, np.nan, 0, 0])), FEATURES, "row 3 ('clip 3'): NaN, infinity"),
        (npz("captions/clean", IDS[:5]), FEATURES, "clean.npz has 6 rows, and there are 5 ids"),
        (npz("captions/mlvp/fogg/1"), FEATURES, "fogg/1.npz: no perturbation 'mlvp/fogg'; did you mean mlvp/fog"),
        (npz("captions/mlvp/fog/9"), FEATURES, "fog/9.npz: mlvp/fog has no severity '9'; it has 1, 2, 3, 4, 5"),
        (npz("clips/mlvp/fog/5.0"), FEATURES, "mlvp/fog has no severity '5.0'"),
        (
            lambda: Path("clips/mlvp/fog/5.safetensors").touch(),
            FEATURES,
            "clips/mlvp/fog/5.npz and clips/mlvp/fog/5.safetensors are of the same features",
        ),
        (npz("clips/mlvp/fog/05"), FEATURES, "fog/05.npz and clips/mlvp/fog/5.npz are of the same features"),
        (listed("clips/mlvp/fog/5.csv"), FEATURES, "fog/5.csv and clips/mlvp/fog/5.npz are of the same features"),
        (None, ["clips/clean.npz", "clips"], "clips/clean.npz and clips/clean.npz are the same file"),
        (
            lambda: Path("link").symlink_to("clips"),
            ["link", "clips", "--direction", "v2t"],
            "link/clean.npz and clips/clean.npz are the same file: every query would find itself",
        ),
        (lambda: Path("clips/clean.npz").unlink(), FEATURES, "clips holds no clean.npz"),
        (None, ["captions/clean.npz", "."], "; did you mean captions?"),
        (pairs(HEADER), PAIRS, "lists no pair"),
        (pairs("query,item\na,b\n"), PAIRS, "; name its columns query_id and gallery_id"),
        (pairs(f"{HEADER}clip 0\n"), PAIRS, "line 2: a line has a query_id and a gallery_id"),
        (pairs(f"{HEADER}a,b,c\n"), PAIRS, "line 2: a line has a query_id and a gallery_id"),
        (pairs(f"{HEADER}a,b\na,b\n"), PAIRS, "line 3: the pair 'a', 'b' is in two rows"),
        (pairs(f"{HEADER}clip 0,clip 0\n"), PAIRS, "pairs.csv does not list the queries 'clip 1', 'clip 2',"),
        (pairs(HEADER + "".join(f"clip,{name}\n" for name in IDS)), PAIRS, "it lists them as items: give the other"),
        (pairs("no table", "x.parquet"), [*PAIRS[:3], "x.parquet"], "x.parquet is not a Parquet file"),
        (matrix(queries=np.array(["a"] * 6)), GIVEN, "`queries` has an id in two places"),
        (matrix(gallery=np.arange(7)), GIVEN, "`gallery` is no list of texts; save np.array(ids, str)"),
        (matrix(queries=None), GIVEN, "no array `queries`, but"),
        (matrix(similarities=np.eye(7, 6)), GIVEN, "are float64 7 x 6; expected 6 x 7 numbers: transpose them"),
        (matrix(similarities=np.eye(6)), GIVEN, "`similarities` are float64 6 x 6; expected 6 x 7 numbers"),
        (matrix(similarities=np.full((6, 7), np.nan)), GIVEN, "hold NaN or infinity"),
        (matrix(similarities=np.full((6, 7), "a")), GIVEN, "are <U1 6 x 7; expected"),
        (matrix(similarities=np.array([{}])), GIVEN, "cannot be read as similarities"),
        (lambda: np.save("s.npy", EYE), ["--similarities", "s.npy"], "s.npy is no .npz of `queries` and `gallery`"),
        (matrix(), [*GIVEN, "--methods", "csls"], "--methods and their banks need the features"),
        (matrix(), [*GIVEN, "--sides", "query", "gallery"], "--similarities have one perturbed side: query or gallery"),
        (None, [*FEATURES, *GIVEN], "give the features of the queries and of the gallery, or --similarities alone"),
        (None, [*FEATURES, "--methods", "tent"], "tent adapts weights, and this encoder is frozen; methods for"),
        (None, [*FEATURES, "--methods", "qbnorm"], "qbnorm needs a bank of training queries"),
        (
            npz("bank", IDS, EYE[:, :4] + 1),
            [*FEATURES, "--bank", "bank.npz"],
            "bank.npz has 4 numbers each, the gallery's items 6",
        ),
        (None, [*FEATURES, "--protocol", "table"], "protocol 'table' is unknown"),
        (None, [*FEATURES, "--split", "x.csv"], "of composed retrieval, not of t2v"),
        (None, [*FEATURES, "--direction", "v2t"], "ocr is no perturbation of clips, which v2t has on the side of"),
    ],
)
def test_mistakes_are_named(
    change: Callable[[], object] | None,
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if change is not None:
        change()
    assert main(["score", *words, "--output", "out"]) == 1
    assert message in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_choice_among_one_item_is_named(caplog: pytest.LogCaptureFixture) -> None:
    chosen = [(name, item) for name in IDS for item in IDS if name != IDS[0] or item == name]
    feature_sets.write_answers(Path("choices.csv"), chosen)
    assert called("--choices", "choices.csv") == 0
    assert f"the queries '{IDS[0]}' choose among one item: they are right, whatever the model" in caplog.text


def test_queries_without_an_answer_are_missing_and_a_gallery_of_one_is_named(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    feature_reading.write(Path("clips/clean.npz"), IDS[:1], EYE[:1])
    assert called() == 0
    assert "clean: R@1 100.0, R@5 100.0, R@10 100.0 (1 query, 5 missing, 1 item)" in capsys.readouterr().out
    assert "has no answer to the queries 'clip 1', 'clip 2', 'clip 3' and 2 more of" in caplog.text
    assert "is a gallery of one item: every rank is 1, whatever the model" in caplog.text
    (row,) = read_manifest("out/results.parquet").to_dict("records")
    assert (row["queries"], row["missing_queries"], row["gallery"]) == (1, 5, 1)


def test_similarities_of_a_re_ranker(capsys: pytest.CaptureFixture[str]) -> None:
    """A protocol and a file alone; pairs that were not compared are the last."""
    rows = np.full((6, 7), -np.inf)
    rows[:, 0], rows[0, 6] = 1, 2
    matrix("s/clean.npz")()
    matrix("s/mlvp/fog/5.npz", similarities=rows)()
    words = ["--protocol", "msrvtt_p_table_2", "--similarities", "s", "--output", "out"]
    assert main(["score", *words, "--direction", "v2t", "--top-k", "2"]) == 0
    assert "v2t query mlvp/fog 5: R@1 0.0, R@5 16.7" in capsys.readouterr().out
    results = read_manifest("out/results.parquet").set_index("side")
    assert results["recall_at_1"].round(1).to_dict() == {"none": 66.7, "query": 0.0}
    assert set(results["protocol"]) == {"msrvtt_p_table_2"}
    assert results["hub_occurrence"].notna().all()
    ranks = read_manifest("out/ranks.parquet").set_index(["side", "query_id"])["rank"]
    assert ranks["query"].tolist() == [2, 7, 7, 7, 7, 7]
    retrieved = read_manifest("out/ranks.parquet").set_index(["side", "query_id"])["retrieved"]
    assert json.loads(retrieved["query", "clip 0"]) == [["clip 6", 2.0], ["clip 0", 1.0]]
    assert json.loads(retrieved["query", "clip 2"]) == [["clip 0", 1.0], ["clip 1", None]]


def test_numpy_alone_scores_and_two_sets_of_features_share_a_page() -> None:
    done = without_torch("score", *FEATURES, "-o", "one", "--model", "one", "--sides", "query", "both")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("one/report.html").is_file()
    assert called("-o", "other", "--model", "other") == 0
    done = without_torch("report", "--results", "one", "other", "-o", "both.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall("<th scope=row>(o.*?)<td>", Path("both.html").read_text())[:2] == ["one", "other"]
    done = without_torch("score", *FEATURES, "-o", "none", "--methods", "dsl")
    assert done.returncode == 1
    assert "perturb: torch not installed" in done.stderr


def test_a_bank_is_part_of_the_key_of_the_methods_that_use_it() -> None:
    generator = np.random.default_rng(0)
    banks = {name: Path(f"{name}.npz") for name in ("first", "second", "same", "items")}
    for name, path in banks.items():
        rows = np.ones((4, 6), np.float32) if name == "second" else np.eye(6, dtype=np.float32)[:4]
        feature_reading.write(path, [f"{name} {row}" for row in generator.permutation(4)], rows)
    keys: dict[str, dict[str, Any]] = {}
    for name in ("first", "second", "same"):
        words = ["--methods", "qbnorm", "csls", "dual_is", "--bank", str(banks[name])]
        assert called(*words, *(["--gallery-bank", str(banks["items"])] if name == "same" else [])) == 0
        rows = read_manifest("out/results.parquet")
        keys[name] = {row["method"]: row for row in rows[rows["suite"] == "clean"].to_dict("records")}
    for column in ("banks_sha256", "recipe_id"):
        assert keys["first"]["qbnorm"][column] != keys["second"]["qbnorm"][column]
        assert keys["first"]["qbnorm"][column] == keys["same"]["qbnorm"][column]
        assert keys["first"]["dual_is"][column] != keys["same"]["dual_is"][column]
    assert keys["first"]["csls"]["recipe_id"] == keys["second"]["csls"]["recipe_id"]
    assert not any(isinstance(own[name]["banks_sha256"], str) for own in keys.values() for name in ("none", "csls"))


def test_other_answers_are_another_key() -> None:
    pairs = [(name, name) for name in IDS]
    feature_sets.write_answers(Path("own.csv"), pairs)
    feature_sets.write_answers(Path("others.csv"), [*pairs, (IDS[0], IDS[1])])
    keys = []
    for words in ([], ["--relevant", "own.csv"], ["--relevant", "others.csv"]):
        assert called(*words) == 0
        keys.append(read_manifest("out/results.parquet")["recipe_id"].tolist())
    assert keys[0] == keys[1] != keys[2]
    assert not {*keys[1]} & {*keys[2]}


def test_the_directions_of_a_method_with_a_bank_share_a_page() -> None:
    captions, clips = (f"{name}/clean.npz" for name in ("captions", "clips"))
    for direction, *sides in (("t2v", captions, clips), ("v2t", clips, captions)):
        words = ["--direction", direction, "--methods", "qbnorm", "--bank", sides[0]]
        assert main(["score", *sides, *words, "-o", direction]) == 0
    assert main(["report", "--results", "t2v/results.parquet", "v2t/results.parquet", "-o", "both.html"]) == 0
    assert Path("both.html").is_file()


def test_two_models_of_one_name_are_told_to_have_two(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        assert called("-o", name) == 0
    assert main(["report", "-o", "both.html"]) == 1
    assert "give --results, or --datasets, or both" in capsys.readouterr().err
    assert main(["report", "--results", "one", "two", "-o", "both.html"]) == 1
    assert "; features of several models have names: `perturb score --model NAME`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        *("fog_5.npz", "fog_5.csv", "notes.txt", "clean.pkl", "mlvp/5.npz"),
        *("mlvp/fog/5.pkl", "mlvp/fog/5.npz.tmp", "mlvp/fog/4.mat", "mlvp/fog/4"),
    ],
)
def test_files_of_no_scenario_are_left_out_with_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    Path("clips", name).write_bytes(b"")
    Path("clips/t2v.csv").touch()  # as `perturb encode` writes it
    assert called(gallery="clips") == 0
    (message,) = caplog.messages
    assert message.startswith(f"clips/{name}: left out, a file of features is clean or SUITE/PERTURBATION/SEVERITY")


def test_of_many_files_that_are_left_out_those_of_scenarios_are_named(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a.md", "b.md", "mlvp/fog/1.pkl", "mlvp/fog/5/clean.npz"):
        Path("clips", name).parent.mkdir(parents=True, exist_ok=True)
        Path("clips", name).touch()
    assert called(gallery="clips") == 0
    assert "clips/mlvp/fog/1.pkl, clips/mlvp/fog/5, clips/a.md and 1 more: left out" in caplog.text


def test_capitals_and_linked_folders_are_read_and_a_list_of_ids_is_no_other_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path("clips/mlvp/fog/5.npz").rename("clips/mlvp/fog/5.NPZ")
    Path("clips/mlvp").rename("elsewhere")
    Path("clips/mlvp").symlink_to(Path("elsewhere").resolve())
    np.save("clips/mlvp/fog/4.npy", EYE)
    Path("clips/mlvp/fog/4.csv").write_text("\n".join(["id", *IDS]))
    assert called(gallery="clips") == 0
    results = read_manifest("out/results.parquet")
    assert {*results["severity"]} == {0, 4, 5}
    assert not caplog.messages


@pytest.mark.parametrize("score", ["0", "0.00", "-1", "-2.5", "0e0", "+0", "00", " 0 "])
def test_a_score_above_0_is_relevance(score: str) -> None:
    Path("r.csv").write_text(f"query_id,gallery_id,score\na,b,{score}\na,c,1e-3\nd,b,{score}\ne,f, 2\n")
    assert feature_sets.read_answers(Path("r.csv")) == {"a": ["c"], "d": [], "e": ["f"]}
    values = {"query_id": ["a", "a"], "gallery_id": ["b", "c"], "score": [float(score), 3]}
    pd.DataFrame(values).to_parquet("r.parquet")
    assert feature_sets.read_answers(Path("r.parquet")) == {"a": ["c"]}


@pytest.mark.parametrize("score", ["nan", "inf", "x", "", "1,0", "relevant"])
def test_a_score_that_is_no_number_is_refused_with_its_line(score: str) -> None:
    Path("r.csv").write_text(f'query_id,gallery_id,score\na,b,1\na,c,"{score}"\n')
    with pytest.raises(AnnotationError, match=re.escape(f"r.csv, line 3: the score is {score!r}, not a number")):
        feature_sets.read_answers(Path("r.csv"))


FROZEN = [name for name, entry in methods().items() if not entry.adapts and not entry.is_baseline]


def test_no_block_of_memory_and_no_order_of_rows_changes_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 queries of 90 items in blocks of 7, of 64 and in one, and in another order, by every method that can."""
    pytest.importorskip("torch")
    from perturbations.retrieval import matrices, scoring
    from perturbations.tta import rescoring

    generator = np.random.default_rng(1)
    items = generator.normal(size=(90, 16)).astype(np.float32)
    target = generator.integers(0, 90, 200)
    asking = items[target] + generator.normal(size=(200, 16)).astype(np.float32)
    names, known = [f"q{place:03}" for place in range(200)], [f"c{place:03}" for place in range(90)]
    npz("bank", [f"b{place}" for place in range(150)], items[generator.integers(0, 90, 150)] + 1)()
    pairs(HEADER + "".join(f"{name},{known[place]}\n" for name, place in zip(names, target, strict=True)))()
    found: dict[str, list[int]] = {}
    for block, order in ((7, [*range(200)]), (64, [*range(200)]), (10**6, [*range(200)]), (64, [*range(199, -1, -1)])):
        npz("captions/clean", [names[place] for place in order], asking[order])()
        npz("clips/clean", known, items)()
        for module, name in ((rescoring, "ROWS"), (rescoring, "_FEW"), (scoring, "_BLOCK")):
            monkeypatch.setattr(module, name, block)
        monkeypatch.setattr(matrices, "_BLOCK", 90 * block)
        assert called("--relevant", "pairs.csv", "--bank", "bank.npz", "--methods", *FROZEN) == 0
        ranks = read_manifest("out/ranks.parquet").sort_values(["method", "query_id"])
        assert {*ranks["method"]} == {"none", *FROZEN}
        for name, own in ranks.groupby("method")["rank"]:
            assert found.setdefault(name, own.tolist()) == own.tolist(), (name, block)
    assert found["hsm_qbnorm"] != found["qbnorm"], "its memory acts from the second batch on"
    results = read_manifest("out/results.parquet").set_index("method")["batch_size"]
    assert results["hsm_qbnorm"] == PUBLISHED_BATCH
