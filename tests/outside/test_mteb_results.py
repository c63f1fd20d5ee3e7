"""mteb evaluates exported tasks, and the report shows its results beside those of evaluations."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import needs
import numpy as np
import pytest
import small_corpus
from copies import ROOT
from export_readers import PLACES, Searcher, export, exported_module, known_scores
from looping import each
from small_corpus import ITEMS

from perturbations import retrieval
from perturbations.base.errors import ManifestError
from perturbations.cli.main import main
from perturbations.evaluation.features import mteb_results
from perturbations.evaluation.page import evaluation_page as page_files
from perturbations.evaluation.result_rows import ResultRow, tables_of
from perturbations.evaluation.result_sets import check

PAGE = ROOT / "docs/how-to/mveb.md"


@pytest.fixture(scope="module")
def exported(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("tasks")

    def of_kind(kind: str) -> Path:
        what, place = PLACES[kind]
        if not (folder / kind).exists():
            export("mteb", small / "manifests/data" / place, folder / kind, what, clean=kind != "mixes")
        return folder / kind

    return of_kind


def evaluated(mteb: ModuleType, model: Any, tasks: Path, cache: Path) -> list[Path]:
    """The files that mteb writes."""
    mteb.evaluate(model, exported_module(tasks).benchmark(), cache=mteb.ResultCache(cache), encode_kwargs={})
    return sorted((cache / "results").glob("*/*/*.json"))


def scenarios(rows: list[ResultRow]) -> set[tuple[Any, ...]]:
    return {(row.side, row.suite, row.perturbation, row.severity, row.mix, row.text_perturbation) for row in rows}


VIDEOS = [("mlvp", "fog", 1), ("mlvp", "gaussian_noise", 1), ("mlvp", "gaussian_noise", 3)]
CLEAN = ("none", "clean", "clean", 0, None, None)
READ = {
    "videos": {
        "v2t": {CLEAN, *(("query", *own, None, None) for own in VIDEOS)},
        "t2v": {CLEAN, *(("gallery", *own, None, None) for own in VIDEOS)},
    },
    "mixes": {
        "v2t": {("query", "mlvp", "all", None, "mixed_types", None)},
        "t2v": {("gallery", "mlvp", "all", None, "mixed_types", None)},
    },
    "texts": {"t2v": {CLEAN, ("query", "mm_robustness", "word_swap", 3, None, None)}},
    "pairs": {
        "t2v": {
            CLEAN,
            *(
                ("both", "mlvp", video, 1, None, text)
                for video in ("fog", "gaussian_noise")
                for text in ("typos", "word_swap")
            ),
        }
    },
}


@each("kind", READ)
def test_the_results_of_mteb_are_rows_of_their_scenarios(
    exported: Callable[[str], Path], mteb: ModuleType, tmp_path: Path, kind: str
) -> None:
    model = Searcher(known_scores(3, 2**40))
    rows: dict[str, list[ResultRow]] = {}
    for row in mteb_results.read(evaluated(mteb, model, exported(kind), tmp_path)):
        rows.setdefault(row.direction, []).append(row)
    assert {direction: scenarios(own) for direction, own in rows.items()} == READ[kind]
    item_of = {row.caption_id: row.item_id for row in small_corpus.clean_captions()}
    for row in (row for own in rows.values() for row in own):
        assert (row.dataset, row.model, row.method, row.missing_queries) == ("data", "test/known", "none", 0)
        assert row.median_rank != row.median_rank  # mteb keeps no ranks
        assert row.gallery == len(ITEMS) * (2 if row.direction == "v2t" else 1)
        clean = [other for other in rows[row.direction] if other.suite == "clean" and other.queries == row.queries]
        assert row.clean_recall_at_1 == (clean[0].recall_at_1 if clean else None)
    expected = set()
    for name, (queries, documents) in model.subsets.items():
        scores = np.array([[model.score(name, query, document) for document in documents] for query in queries])
        relevant = [
            [at for at, name in enumerate(documents) if item_of.get(query, query) == item_of.get(name, name)]
            for query in queries
        ]
        recalls = [retrieval.recall_at_k(scores, relevant, k) for k in (1, 5)]
        expected.add((len(queries), *np.round(recalls, 3)))
    read = {(row.queries, *np.round([row.recall_at_1, row.recall_at_5], 3)) for own in rows.values() for row in own}
    assert read == expected


def test_the_clean_scenario_of_two_tasks_is_one_row_for_both(
    exported: Callable[[str], Path], mteb: ModuleType, tmp_path: Path
) -> None:
    def score(_: str, query: str, document: str) -> float:
        return known_scores(3, 2**40)("", query, document)

    for kind in ("videos", "texts"):
        given = evaluated(mteb, Searcher(score), exported(kind), tmp_path)
    rows = [row for row in mteb_results.read(given) if row.direction == "t2v"]
    assert [row.suite for row in rows].count("clean") == 1
    assert {row.suite for row in rows} == {"clean", "mlvp", "mm_robustness"}
    check(rows)
    (path,) = (path for path in given if path.name == "DataTextsMmRobustnessT2V.json")
    changed = json.loads(path.read_bytes())
    for scores in changed["scores"]["test"]:
        scores["r_at_1"] = 0.7
    path.write_text(json.dumps(changed))
    with pytest.raises(ManifestError, match="hold the run .* twice"):
        check(mteb_results.read(given))


def test_a_baseline_of_mteb_stands_in_the_leaderboard_beside_ours(
    exported: Callable[[str], Path], datasets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.reader("mteb")
    needs.decoder()
    # It asks for torchaudio and torchvision, of which it takes nothing here.
    monkeypatch.setattr("mteb._requires_package._is_package_available", lambda name: True)
    shutil.copytree(exported("videos"), tmp_path / "tasks")
    monkeypatch.chdir(tmp_path / "tasks")
    monkeypatch.syspath_prepend(tmp_path / "tasks")
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(example, {})
    given = sorted(tmp_path.glob("scores/results/*/*/*.json"))
    assert {path.name for path in given} >= {"model_meta.json", "DataVideosMlvpT2V.json"}
    features = {"clean": 0, "mlvp/fog/1": 1, "mlvp/gaussian_noise/1": 2, "mlvp/gaussian_noise/3": 3}
    captions = small_corpus.clean_captions()
    for name, seed in features.items():
        (tmp_path / "clips" / name).parent.mkdir(parents=True, exist_ok=True)
        values = np.random.default_rng(seed).normal(size=(len(ITEMS), 8)).astype(np.float32)
        np.savez(tmp_path / "clips" / f"{name}.npz", ids=ITEMS, features=values)
    values = np.random.default_rng(9).normal(size=(len(captions), 8)).astype(np.float32)
    np.savez(tmp_path / "texts.npz", ids=[row.caption_id for row in captions], features=values)
    (tmp_path / "pairs.csv").write_text("query_id,gallery_id\n" + "".join(_line(row) for row in captions))
    words = [str(tmp_path / "texts.npz"), str(tmp_path / "clips"), "--relevant", str(tmp_path / "pairs.csv")]
    assert main(["score", *words, "--dataset", "data", "--model", "ours", "-o", str(tmp_path / "scored")]) == 0
    page = tmp_path / "report.html"
    results = [str(tmp_path / "scored/results.parquet"), *map(str, given)]
    ranks = str(tmp_path / "scored/ranks.parquet")
    assert main(["report", "--results", *results, "--ranks", ranks, "-o", str(page)]) == 0
    text = page.read_text("utf-8")
    assert "No intervals for mteb/baseline-random-encoder: " in text
    assert "≈: the best row, and rows that do not differ significantly from it or have no interval." in text
    with (tables_of(page) / page_files.CSV_NAME).open(encoding="utf-8", newline="") as file:
        board = "R@1: data, text-to-video (t2v), gallery perturbed, mlvp, mean"
        lines = [line for line in csv.DictReader(file) if line["table"].startswith(board)]
    for model, has_interval in (("mteb/baseline-random-encoder", False), ("ours", True)):
        cells = {line["column"]: line for line in lines if line["row"] == model}
        assert {"clean", "mean", "loss", "fog", "gaussian_noise"} <= cells.keys()
        assert bool(cells["clean"]["low"]) == has_interval
    read = [row for row in mteb_results.read(given) if row.direction == "t2v"]
    values = {row.perturbation: row.recall_at_1 for row in read}
    theirs = {line["column"]: float(line["value"]) for line in lines if line["row"].startswith("mteb/")}
    assert (theirs["clean"], theirs["fog"]) == (values["clean"], values["fog"])


def _line(row: Any) -> str:
    quoted = row.item_id.replace('"', '""')
    return f'{row.caption_id},"{quoted}"\n'


WRONG = {
    "": "cannot be read",
    "[]": "an object of mteb, not",
    "{}": "no results of mteb on tasks of `perturb export --format mteb`: KeyError",
    '{"task_name": "MSRVTTT2V", "scores": {"test": [{"ndcg_at_1": 0.5}]}}': "KeyError.'perturbed'",
    '{"task_name": "AT2V", "scores": {"test": [{"perturbed": 7}]}}': "AttributeError",
    '{"task_name": "AT2V", "scores": {"test": [{"perturbed": {"dataset": "d", "suite": "no"}, "r_at_1": "x"}]}}': (
        "KeyError.'r_at_3'"
    ),
}


@each(("content", "message"), WRONG.items())
def test_what_is_no_result_of_an_exported_task_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "model_meta.json").write_text(json.dumps({"name": "a/b", "revision": "1"}))
    path = tmp_path / "AT2V.json"
    path.write_text(content)
    with pytest.raises(ManifestError, match=message) as error:
        mteb_results.read([path])
    assert str(path) in str(error.value)
    (tmp_path / "model_meta.json").unlink()
    path.write_text('{"task_name": "AT2V"}')
    with pytest.raises(ManifestError, match=r"model_meta\.json cannot be read: No such file or directory$"):
        mteb_results.read([path])
