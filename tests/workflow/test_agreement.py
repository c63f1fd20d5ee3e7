"""Manifests of other configurations beside those of a run: `perturb verify` finds each of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic_results import result_row

from perturbations.base.errors import ManifestError
from perturbations.composed import manifests as splits
from perturbations.composed import split_jobs as composed_jobs
from perturbations.config import file as config_file
from perturbations.corpus import verification
from perturbations.corpus.plan import items
from perturbations.evaluation import evaluation_jobs
from perturbations.evaluation.plan.planned_runs import category_of
from perturbations.evaluation.result_rows import RANKS, RESULTS, Finished, listed_sha256, ranks_of, rows_of
from perturbations.manifest import files, manifest_paths, sets
from perturbations.manifest.rows import CAPTIONS, QRELS, SOURCES, CaptionRow, QrelRow, SourceRow

CLIPS = "abcd"
KEY = "clip4clip-tiny-qs-0a0a0a0a"
RESULTS_OF = Path("manifests/mine/adaptation", KEY)


def findings(folder: Path = Path("manifests")) -> list[str]:
    """What is wrong with the manifests in a folder, by their names."""
    checked = [verification.check_manifest(path) for path in manifest_paths.manifests_below(folder)]
    return [f"{own.path.name}: {found['problem']}" for own in checked for found in own.findings]


def write_sources(dataset: str, names: list[str]) -> list[SourceRow]:
    rows = [SourceRow(dataset=dataset, split="", item_id=name, status="missing") for name in names]
    path = Path("manifests", dataset, "sources.parquet")
    files.write(path, SOURCES, rows, {"root": "../..", sets.SET: sets.of_sources(rows).columns()})
    return rows


def write_captions(texts: str, names: str = CLIPS) -> list[CaptionRow]:
    """Captions and qrels, as the job writes them, of a dataset of these clips."""
    sources = write_sources("mine", [*names])
    rows = [CaptionRow(dataset="mine", caption_id=f"{name}#0", item_id=name, text=texts + name) for name in names]
    about = {"root": "../..", sets.SET: sets.of_sources(sources).columns()}
    about |= sets.together(["captions.parquet", "qrels.parquet"], [row.text for row in rows])
    files.write(Path("manifests/mine/captions.parquet"), CAPTIONS, rows, about)
    qrels = [QrelRow(query_id=row.caption_id, corpus_id=row.item_id, score=1) for row in rows]
    files.write(Path("manifests/mine/qrels.parquet"), QRELS, qrels, about)
    return rows


def evaluate(method: str, texts: str = "text ") -> None:
    """An evaluation by the model as it is and by a method: its parts, and their merged results."""
    captions = write_captions(texts)
    sources = files.read_rows(Path("manifests/mine/sources.parquet"), SOURCES)
    made: list[Finished] = []
    for name in ("none", method):
        row = result_row(
            **{"dataset": "mine", "suite": "clean", "perturbation": "clean", "severity": 0, "side": "none"},
            **{"direction": "v2t", "model_key": KEY, "method": name, "seed": 42, "recipe_id": name + texts},
            **{"listed_sha256": listed_sha256(sources, captions), "category": "clean", "queries": 4, "gallery": 4},
            **{f"recall_at_{k}": 50.0 for k in (1, 5, 10, 50, 100)},
            **{"rsum": 150.0, "median_rank": 1.0, "mean_rank": 1.0, "backend": "{}"},
        )
        assert row.category == category_of(row)
        made.append((row, ([*CLIPS], [1, 2, 3, 4], [None] * 4)))
    part = Path(
        manifest_paths.at("evaluation_part", dataset="mine", model=KEY, job=f"v2t/none/clean/clean/{method}/adaptation")
    )
    rows, ranks = rows_of(made)
    files.write(part, RESULTS, rows)
    files.write(ranks_of(part), RANKS, ranks)
    evaluation_jobs.results(parts=[part], results=RESULTS_OF / "results.parquet", ranks=RESULTS_OF / "ranks.parquet")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def kept(make: Callable[[], None], name: str) -> Path:
    """What a run leaves in `manifests`, as a folder of that name; its own is gone."""
    make()
    assert findings() == []
    return Path("manifests").rename(name)


@pytest.mark.parametrize("name", ["results", "ranks"])
def test_results_and_ranks_of_two_evaluations_are_found(name: str) -> None:
    other = kept(lambda: evaluate("read"), "other")
    shutil.rmtree("work")
    evaluate("tent")
    assert findings() == []
    shutil.copy(other / RESULTS_OF.relative_to("manifests") / f"{name}.parquet", RESULTS_OF)
    found = findings()
    assert (
        "results.parquet: it is not of the same run as ranks.parquet: one of them is of another configuration" in found
    )
    assert ("results.parquet: 1 of 2 results are of no part in work/: of another evaluation" in found) == (
        name == "results"
    )


def test_results_of_another_evaluation_and_its_ranks_are_found_by_the_parts_and_by_what_is_listed() -> None:
    other = kept(lambda: evaluate("read"), "other")
    shutil.rmtree("work")
    evaluate("tent")
    shutil.copytree(other / RESULTS_OF.relative_to("manifests"), RESULTS_OF, dirs_exist_ok=True)
    assert findings() == ["results.parquet: 1 of 2 results are of no part in work/: of another evaluation"]
    evaluate("tent")
    write_captions("another text ")  # after which a job of the evaluation was killed
    listed = "they are of other clips, captions or queries than the dataset's manifests list"
    assert findings() == [f"results.parquet: {listed}"]
    evaluate("tent", "another text ")
    assert findings() == []


@pytest.mark.parametrize("name", ["captions", "qrels"])
def test_captions_and_qrels_of_other_runs_are_found(name: str) -> None:
    other = kept(lambda: write_captions("other") and None, "other")
    more = kept(lambda: write_captions("text ", "abcde") and None, "more")
    for foreign, problem in (
        (other, "it is not of the same run as"),
        (more, "it is of other clips than sources.parquet"),
    ):
        write_captions("text ")
        shutil.copy(foreign / f"mine/{name}.parquet", "manifests/mine")
        assert any(line.startswith(f"{name}.parquet: {problem}") for line in findings())


SPLIT = ("queries", "qrels", "pool", "galleries")


def write_split(clips: int, seed: int = 0) -> None:
    drawn = {"adapter": "demo", "clips": clips, "families": True}
    parsed = config_file.parse({"datasets": {"fam": drawn}, "suites": {"mlvp": {}}})
    dataset = parsed.datasets["fam"]
    write_sources("fam", [item.item_id for item in items.read("fam", dataset, videos=False).items])
    composed_jobs.composed_split(
        **{"version": 1, "dataset": "fam", "adapter": "demo", "seed": seed, "device": "cpu"},
        settings=dataset.model_dump_json(),
        galleries=["local_full", "global_distinct"],
        queries=Path("manifests/fam/composed/queries.parquet"),
        instructions=Path("work/fam/composed/captions/s0.jsonl"),
        rejected=Path("work/fam/composed/rejected_captions.jsonl"),
    )


def test_a_split_of_another_configuration_is_found_and_not_read() -> None:
    folder = Path("manifests/fam/composed")
    other = kept(lambda: write_split(32), "other") / "fam/composed"
    for name in SPLIT:
        write_split(24)
        assert findings() == []
        shutil.copy(other / f"{name}.parquet", folder)
        found = [line for line in findings() if "it is not of the same run as" in line]
        assert {line.partition(".")[0] for line in found} == {*SPLIT}, "each of the others is one of two"
        with pytest.raises(ManifestError, match="it is not of the same run as .*; delete them and run snakemake again"):
            splits.read(folder)
    write_split(24)
    shutil.copytree(other, folder, dirs_exist_ok=True)
    assert findings() == ["pool.parquet: its clips are not those of the dataset: 8 of 32 are not listed"]
    write_split(24)
    for name in SPLIT:  # sound ones that were taken out of a run
        assert splits.read(folder).queries
        (folder / f"{name}.parquet").rename(folder.parent / "gone.parquet")
        assert not any("same run" in line for line in findings(folder))
        (folder.parent / "gone.parquet").rename(folder / f"{name}.parquet")
