"""Perturbed videos with perturbed captions in the layouts of other libraries, opened with those libraries."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import needs
import numpy as np
import pyarrow.parquet as pq
import pytest
import small_corpus
import yaml
from export_readers import Searcher, known_scores, loaded_tasks, undecoded
from small_corpus import ITEMS

from perturbations import retrieval
from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.cli.main import main
from perturbations.exports import registry
from perturbations.exports.writing.requests import Exported, Request
from perturbations.manifest import files
from perturbations.manifest.kinds import MULTIMODAL, MultimodalRow

FORMATS = ["hub", "webdataset", "mteb", "croissant"]
REJECTED = "c1"
"""The caption that the gate rejected, under both perturbations of captions."""

ROWS = 2 * 2 * (2 * len(ITEMS) - 1)
CLEAN = 2 * len(ITEMS)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_corpus.make(tmp_path_factory.mktemp("tree"))


def manifest_of(tree: Path) -> Path:
    return tree / "manifests/data/mlvp/multimodal.parquet"


def export(name: str, manifest: Path, output: Path, **fields: Any) -> Exported:
    return registry.get(name).write_pairs(Request(manifest=manifest, output=output, **fields))


@pytest.fixture(scope="module")
def outputs(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every format, with the clean pairs."""
    output = tmp_path_factory.mktemp("exports")
    for name in FORMATS:
        done = export(name, manifest_of(tree), output / name, clean=True)
        assert (len(done.failed), done.written) == (0, 3 * len(ITEMS))
    return output


def expected(tree: Path) -> dict[tuple[str, str, str, str], MultimodalRow]:
    """The accepted rows by item, both perturbations and caption."""
    return {
        (row.item_id, row.perturbation, row.text_perturbation, row.caption_id): row
        for row in files.read_rows(manifest_of(tree), MULTIMODAL)
        if row.accepted
    }


def check_rows(tree: Path, rows: list[Mapping[str, Any]]) -> None:
    """Whether exported rows are the manifest's accepted ones, and each clean caption with its clean clip."""
    wanted = expected(tree)
    clean = {row.caption_id: row for row in small_corpus.clean_captions()}
    assert len(wanted) == ROWS
    perturbed = [row for row in rows if row["perturbation"] != "clean"]
    keys = [(row["item"], row["perturbation"], row["text_perturbation"], row["caption_id"]) for row in perturbed]
    assert len(keys) == len(set(keys)) == ROWS
    assert set(keys) == set(wanted)
    for key, row in zip(keys, perturbed, strict=True):
        original = wanted[key]
        assert (row["text"], row["source_text"]) == (original.text, clean[original.caption_id].text)
        assert (row["severity"], row["text_severity"]) == (original.severity, original.text_severity)
        assert (row["level"], row["text_recipe_id"]) == (original.level, original.text_recipe_id)
        assert row["captions"] == [text.text for text in clean.values() if text.item_id == row["item"]]
    others = [row for row in rows if row["perturbation"] == "clean"]
    assert {(row["item"], row["caption_id"], row["text"]) for row in others} == {
        (row.item_id, row.caption_id, row.text) for row in clean.values()
    }
    assert {(row["text_perturbation"], row["text_severity"], row["changed"]) for row in others} == {("clean", 0, False)}


def test_datasets_loads_the_pairs_by_the_name_multimodal_and_without_a_name(
    outputs: Path, tree: Path, datasets: ModuleType, tmp_path: Path
) -> None:
    rows = undecoded(datasets, datasets.load_dataset(str(outputs / "hub"), split="test", cache_dir=str(tmp_path)))
    check_rows(tree, rows)
    named = datasets.load_dataset(str(outputs / "hub"), "multimodal", split="test", cache_dir=str(tmp_path))
    assert len(named) == ROWS + CLEAN
    fog = datasets.load_dataset(str(outputs / "hub"), "fog_1", split="test", cache_dir=str(tmp_path))
    assert set(fog["perturbation"]) == {"fog"}
    assert len(fog) == ROWS // 2
    for row in rows:
        assert storage.sha256(Path(row["video"]["path"])) == row["sha256"]


def test_pairs_of_a_video_name_the_stored_file(outputs: Path, tree: Path) -> None:
    data = outputs / "hub/data"
    rows = pq.read_table(data / "gaussian_noise_1/metadata.parquet").to_pylist()
    assert len({row["file_name"] for row in rows}) == len(ITEMS) < len(rows)
    stored = {row.item_id: tree / str(row.path) for row in expected(tree).values() if row.storage != "recipe"}
    for row in rows:
        assert (data / "gaussian_noise_1" / row["file_name"]).samefile(stored[row["item"]])
    assert len(list(data.rglob("*.mp4"))) + len(list(data.rglob("*.avi"))) == 3 * len(ITEMS)


def test_webdataset_gives_each_video_once_with_its_captions(outputs: Path, tree: Path) -> None:
    library = needs.reader("webdataset")
    shards = sorted(map(str, (outputs / "webdataset/data").glob("*.tar")))
    samples = list(library.WebDataset(shards, shardshuffle=False))
    assert len(samples) == 3 * len(ITEMS)
    rows = []
    for sample in samples:
        row = json.loads(sample["json"])
        assert storage.sha256_of(sample["mp4"]) == row["sha256"]
        assert sample["txt"].decode() == row["caption"]
        rows += [row | text for text in row["pairs"]]
    check_rows(tree, rows)


def test_datasets_reads_the_shards_with_the_captions(
    outputs: Path, tree: Path, datasets: ModuleType, tmp_path: Path
) -> None:
    loaded = datasets.load_dataset(str(outputs / "webdataset"), split="test", cache_dir=str(tmp_path))
    rows = [sample["json"] for sample in undecoded(datasets, loaded, "mp4")]
    check_rows(tree, [row | text for row in rows for text in row["pairs"]])


def test_mteb_asks_perturbed_captions_among_perturbed_videos(outputs: Path, tree: Path, mteb: ModuleType) -> None:
    (task,) = loaded_tasks(outputs / "mteb")
    model = Searcher(known_scores(5, 2**40))
    scores = mteb.evaluate(model, [task], cache=None, encode_kwargs={}).task_results[0].scores["test"]
    results = {part["hf_subset"]: part for part in scores}
    item_of = {row.caption_id: row.item_id for row in small_corpus.clean_captions()}
    pairs = [f"{video}_1-{text}_3" for video in ("fog", "gaussian_noise") for text in ("typos", "word_swap")]
    assert sorted(results) == sorted(model.asked) == ["clean", *pairs]
    for subset, (queries, documents) in model.asked.items():
        assert sorted(documents) == sorted(ITEMS)
        assert sorted(queries) == sorted(item_of.keys() - ({REJECTED} if subset != "clean" else set()))
        matrix = np.array([[model.score(subset, query, document) for document in documents] for query in queries])
        relevant = [[documents.index(item_of[query])] for query in queries]
        for k in (1, 3):
            ours = retrieval.recall_at_k(matrix, relevant, k) / 100
            assert results[subset][f"hit_rate_at_{k}"] == pytest.approx(ours, abs=1e-5)  # mteb rounds to five digits


def test_mteb_s_loader_gives_the_perturbed_texts_and_videos(outputs: Path, tree: Path, mteb: ModuleType) -> None:
    (task,) = loaded_tasks(outputs / "mteb")
    task.load_data()
    rows = [row for key, row in expected(tree).items() if key[1:3] == ("gaussian_noise", "typos")]
    data = task.dataset["gaussian_noise_1-typos_3"]["test"]
    assert {row["id"]: row["text"] for row in data["queries"]} == {row.caption_id: row.text for row in rows}
    hashes = {row["id"]: storage.sha256_of(row["video"]["bytes"]) for row in data["corpus"]}
    assert hashes == {row.item_id: row.sha256 for row in rows}
    assert data["relevant_docs"] == {row.caption_id: {row.item_id: 1} for row in rows}


def test_videos_are_stored_once_for_all_captions(outputs: Path) -> None:
    cells = []
    for path in (outputs / "mteb/data").glob("*-videos-*.parquet"):
        cells += [storage.sha256_of(cell["bytes"]) for cell in pq.read_table(path)["video"].to_pylist()]
    assert len(cells) == len(set(cells)) == 3 * len(ITEMS)


def test_mlcroissant_loads_the_pairs(outputs: Path) -> None:
    library = needs.reader("mlcroissant")
    dataset = library.Dataset(outputs / "croissant/croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    records = list(dataset.records("pairs"))
    assert len(records) == ROWS + CLEAN
    texts = {record["pairs/text"].decode() for record in records}
    assert {text.split(" ")[0] for text in texts} >= {"swapped", "typos"}


# --- bad input --------------------------------------------------------------------------------------------------------


def written_again(tree: Path, tmp_path: Path, change: Any) -> Path:
    """The manifest of pairs beside its own, with other rows."""
    path = manifest_of(tree).with_name(f"{tmp_path.name}.parquet")
    files.write(path, MULTIMODAL, change(files.read_rows(manifest_of(tree), MULTIMODAL)), {"root": "../../.."})
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_a_quarantined_video_is_listed_once_and_costs_no_other_pair(tree: Path, tmp_path: Path, name: str) -> None:
    def change(rows: list[MultimodalRow]) -> list[MultimodalRow]:
        bad = {"status": "quarantined", "stage": "video", "error": "no frames", "path": None}
        return [
            replace(row, **bad) if (row.item_id, row.perturbation) == (ITEMS[1], "fog") else row  # type: ignore[arg-type]
            for row in rows
        ]

    done = export(name, written_again(tree, tmp_path, change), tmp_path / "out")
    assert (done.written, len(done.failed), len(done.quarantined)) == (2 * len(ITEMS) - 1, 0, 1)
    assert (tmp_path / "out/left_out.csv").read_text("utf-8").count("no frames") == 1


@pytest.mark.parametrize("name", FORMATS)
def test_pairs_that_are_there_twice_or_not_at_all_are_refused(tree: Path, tmp_path: Path, name: str) -> None:
    twice = written_again(tree, tmp_path, lambda rows: [*rows, rows[0]])
    with pytest.raises(ManifestError, match="complete rows more than once"):
        export(name, twice, tmp_path / "out")
    rejected = written_again(tree, tmp_path, lambda rows: [replace(row, accepted=False) for row in rows])
    with pytest.raises(ManifestError, match="no complete row to export"):
        export(name, rejected, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_export_before_the_first_pair_is_one_of_the_same_suite(tree: Path, tmp_path: Path) -> None:
    """Where no severity of config.yaml is that of the pairs, only the clean ones are exported."""
    shutil.copytree(tree, tmp_path / "tree")
    manifest, about = manifest_of(tmp_path / "tree"), {"root": "../../..", "dataset": "data", "suite": "mlvp"}
    rows = files.read_rows(manifest, MULTIMODAL)
    for members, videos in (([], len(ITEMS)), (rows, 3 * len(ITEMS))):
        files.write(manifest, MULTIMODAL, members, about)
        done = export("hub", manifest, tmp_path / "out", clean=True)
        assert done.written + done.kept == videos
    assert len(pq.read_table(tmp_path / "out/data/fog_1/metadata.parquet")) == ROWS // 2


def test_the_level_of_a_caption_s_perturbation_is_its_suite_s(tree: Path, tmp_path: Path) -> None:
    def change(rows: list[MultimodalRow]) -> list[MultimodalRow]:
        return [replace(row, suite="mm_robustness") for row in rows if row.text_perturbation == "word_swap"]

    export("hub", written_again(tree, tmp_path, change), tmp_path / "out")
    (row, *_) = pq.read_table(tmp_path / "out/data/fog_1/metadata.parquet").to_pylist()
    assert row["text_level"] == "word"


def test_pairs_without_the_dataset_s_captions_are_exported_without_them(tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "manifests/data/mlvp/multimodal.parquet"
    target.parent.mkdir(parents=True)
    target.write_bytes(manifest_of(tree).read_bytes())
    for folder in ("corpora", "clean"):
        shutil.copytree(tree / folder, tmp_path / folder)
    export("hub", target, tmp_path / "hub")
    (row, *_) = pq.read_table(tmp_path / "hub/data/fog_1/metadata.parquet").to_pylist()
    assert (row["source_text"], row["captions"]) == (None, [])
    assert row["text"].startswith("typos ")
    with pytest.raises(ManifestError, match=r"no sources\.parquet"):
        export("hub", target, tmp_path / "out", clean=True)


def test_the_loaders_that_read_videos_or_captions_refuse_pairs(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    command = ["export", str(manifest_of(tree)), "--format", "vtr_tta", "-o", str(tmp_path / "out")]
    assert main(command) == 1
    message = capsys.readouterr().err
    assert "takes videos and captions only, not pairs of both: export videos.parquet and captions.parquet" in message
    assert not (tmp_path / "out").exists()


def test_the_command_says_what_it_wrote_and_a_second_time_keeps_it(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["export", str(manifest_of(tree)), "--format", "hub", "-o", str(tmp_path / "out")]
    for counted in ("10 videos written, 0 existed", "0 videos written, 10 existed"):
        assert main(command) == 0
        assert f"{counted}, 0 failed" in capsys.readouterr().out
    front = yaml.safe_load((tmp_path / "out/README.md").read_text("utf-8").split("---\n")[1])
    assert [(entry["config_name"], entry.get("default")) for entry in front["configs"]] == [
        *(("multimodal", True), ("fog_1", None), ("gaussian_noise_1", None)),
    ]
