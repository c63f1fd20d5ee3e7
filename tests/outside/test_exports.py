"""What other libraries read from the layouts hub, webdataset, mteb and croissant, and what those layouts hold."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import clips
import needs
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import small_corpus
from export_readers import (
    FORMATS,
    PLACES,
    SHOWN,
    TERMS,
    Searcher,
    export,
    exported_module,
    known_scores,
    loaded_tasks,
    undecoded,
)
from small_corpus import ITEMS

from perturbations import open_clip, read_manifest, retrieval
from perturbations.base import storage
from perturbations.cli.main import main
from perturbations.datasets.adapter_registry import adapters
from perturbations.exports import croissant, exported_corpus
from perturbations.exports.export_registry import Request
from perturbations.manifest import files, row_tables
from perturbations.manifest.rows import MULTIMODAL, QUARANTINE, SOURCES, MultimodalRow, QuarantineRow

pytestmark = pytest.mark.usefixtures("in_this_process")

LEFT_OUT = "1 clip was left out; left_out.csv has the reasons."
SIMULATED = "Perturbations are simulated; natural ones may differ from them."
REJECTED = "The fidelity gate rejected 1 caption: left out."
PAIRS, CLEAN_PAIRS = 2 * 2 * (2 * len(ITEMS) - 1), 2 * len(ITEMS)


@pytest.fixture(scope="module")
def outputs(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every format of every kind of corpus, with the clean clips of all but mixes, which have them."""
    output = tmp_path_factory.mktemp("exports")
    for name in FORMATS:
        for kind, (what, place) in PLACES.items():
            manifest = small / "manifests/data" / place
            done = export(name, manifest, output / name / kind, what, clean=kind != "mixes", **TERMS)
            assert not done.failed
            assert kind != "pairs" or done.written == 3 * len(ITEMS)
    return output


def expected_frames(small: Path) -> dict[tuple[str, str, int], np.ndarray]:
    """The frames that `open_clip` gives per item, perturbation and severity."""
    videos = read_manifest(small / "manifests/data/mlvp/videos.parquet")
    sources = read_manifest(small / "manifests/data/sources.parquet").query("status == 'complete'")
    expected = {(row.item_id, row.perturbation, row.severity): open_clip(row) for row in videos.itertuples()}
    return expected | {(row.item_id, "clean", 0): open_clip(row) for row in sources.itertuples()}


# --- hub --------------------------------------------------------------------------------------------------------------


def test_datasets_loads_rows_captions_and_videos(outputs: Path, small: Path, datasets: ModuleType) -> None:
    loaded = datasets.load_dataset(str(outputs / "hub/videos"))
    assert list(loaded) == ["test"]
    rows = undecoded(datasets, loaded["test"])
    expected = expected_frames(small)
    assert {(row["item"], row["perturbation"], row["severity"]) for row in rows} == set(expected)
    assert len(rows) == len(expected) == len(ITEMS) * 4
    for row in rows:
        place = ITEMS.index(row["item"])
        assert row["captions"] == [f'"{number}" of item {place}\n影' for number in (0, 1)]
        assert row["caption"] == row["captions"][0]
        assert "label" not in row
        path = Path(row["video"]["path"])
        assert storage.sha256(path) == row["sha256"]
        wanted = expected[row["item"], row["perturbation"], row["severity"]]
        np.testing.assert_array_equal(clips.images(path), wanted)


def test_datasets_takes_clean_clips_of_any_container_for_videos(
    small: Path, tmp_path: Path, datasets: ModuleType
) -> None:
    """It has a list of extensions, in which WebM and others are not, and GIF is one of pictures."""
    tree = Path(shutil.copytree(small, tmp_path / "tree"))
    manifest = tree / "manifests/data/sources.parquet"
    rows = []
    for number, extension in enumerate((".m4v", ".gif", ".webm"), 1):
        path = (tree / f"clean/{number}.mp4").rename(tree / f"clean/{number}{extension}")
        rows.append(clips.source_row(path, extension))
    expected = {row.item_id: clips.images(Path(str(row.path))) for row in rows}
    files.write(manifest, SOURCES, rows, {"root": "../.."})
    export("hub", manifest, tmp_path / "out")
    loaded = undecoded(datasets, datasets.load_dataset(str(tmp_path / "out"), split="test"))
    assert {row["item"] for row in loaded} == set(expected)
    for row in loaded:
        np.testing.assert_array_equal(clips.images(Path(row["video"]["path"])), expected[row["item"]])


def test_datasets_loads_mixes_and_captions_with_their_clips(outputs: Path, datasets: ModuleType) -> None:
    rows = undecoded(datasets, datasets.load_dataset(str(outputs / "hub/mixes"), split="test"))
    assert len(rows) == len(ITEMS) * 4
    assert {row["mix"] for row in rows} == {"mixed_types"}
    assert {row["share"] for row in rows} == {0.2, 0.4, 0.6, 0.8}
    assert any(row["perturbation"] == "clean" for row in rows)
    texts = datasets.load_dataset(str(outputs / "hub/texts"), split="test")
    rows = undecoded(datasets, texts)
    perturbed = [row for row in rows if row["perturbation"] == "word_swap"]
    clean = [row for row in rows if row["perturbation"] == "clean"]
    assert (len(perturbed), len(clean)) == (2 * len(ITEMS) - 1, 2 * len(ITEMS))  # the gate rejected one
    assert all(row["text"] == f"swapped {row['source_text']}" for row in perturbed)
    assert all(Path(row["video"]["path"]).is_file() for row in rows)


def test_an_empty_quarantine_is_opened_with_its_types(datasets: ModuleType, tmp_path: Path) -> None:
    """Alone as a stream, since the library has no empty dataset on disk; with another dataset's also on disk."""
    empty, full = str(tmp_path / "quarantine.parquet"), str(tmp_path / "other.parquet")
    files.write(Path(empty), QUARANTINE, [])
    row = QuarantineRow(dataset="data", item_id="a", status="quarantined", stage="source", error="no frames")
    files.write(Path(full), QUARANTINE, [row])
    stream = datasets.load_dataset("parquet", data_files=empty, split="train", streaming=True)
    assert list(stream) == []
    assert stream.features["severity"].dtype == "int64"
    both = datasets.load_dataset("parquet", data_files=[empty, full], split="train")
    assert both["item_id"][:] == ["a"]
    assert both.features["severity"].dtype == "int64"  # though no row has one
    for path in (empty, full):
        assert list(pd.read_parquet(path).columns) == row_tables.schema_of(QUARANTINE).names
    assert read_manifest(empty).empty


# --- webdataset -------------------------------------------------------------------------------------------------------


def shards(output: Path) -> list[str]:
    return sorted(map(str, (output / "data").glob("*.tar")))


def test_webdataset_reads_every_sample(outputs: Path, small: Path, tmp_path: Path) -> None:
    """All videos are MP4 and hold the frames, also where the clean clip is an AVI, or a part of a longer video."""
    library = needs.reader("webdataset")
    samples = list(library.WebDataset(shards(outputs / "webdataset/videos"), shardshuffle=False))
    expected = expected_frames(small)
    assert len(samples) == len(expected)
    assert len({sample["__key__"] for sample in samples}) == len(samples)
    for sample in samples:
        assert set(sample) - {"__local_path__"} == {"__key__", "__url__", "json", "mp4", "txt"}
        row = json.loads(sample["json"])
        assert storage.sha256_of(sample["mp4"]) == row["sha256"]
        assert sample["txt"].decode() == row["caption"] == row["captions"][0]
        (tmp_path / "video.mp4").write_bytes(sample["mp4"])
        wanted = expected[row["item"], row["perturbation"], row["severity"]]
        np.testing.assert_array_equal(clips.images(tmp_path / "video.mp4"), wanted)


@pytest.mark.parametrize("how", ["folder", "files", "files the other way round", "stream"])
@pytest.mark.parametrize("kind", PLACES)
def test_datasets_reads_the_shards(outputs: Path, datasets: ModuleType, kind: str, how: str) -> None:
    """By the card's types, and by those of the first five samples of the first shard, which may be of clean clips."""
    output = outputs / "webdataset" / kind
    files_of = shards(output) if how == "files" else shards(output)[::-1]
    if how == "folder":
        loaded = datasets.load_dataset(str(output), split="test")
    else:
        loaded = datasets.load_dataset("webdataset", data_files=files_of, split="train", streaming=how == "stream")
    rows = list(loaded) if kind == "texts" else undecoded(datasets, loaded, "mp4")
    assert {row["json"]["item"] for row in rows} == set(ITEMS)
    assert all(row["txt"] for row in rows)
    written = [sample for path in shards(output) for sample in samples_of(path)]
    assert len(rows) == len(written)
    of_rows, of_samples = (
        sorted(json.dumps(sample, sort_keys=True) for sample in every)
        for every in ([row["json"] for row in rows], written)
    )
    assert of_rows == of_samples


def samples_of(shard: str) -> list[dict[str, Any]]:
    """The rows of a shard's samples."""
    with tarfile.open(shard) as archive:
        members = [archive.extractfile(member) for member in archive if member.name.endswith(".json")]
        return [json.loads(member.read()) for member in members if member is not None]


@pytest.mark.parametrize("kind", PLACES)
def test_no_value_of_a_sample_is_null(outputs: Path, kind: str) -> None:
    """A null, or a list of nothing, has no type from which `datasets` could tell that of other samples."""
    samples = [sample for path in shards(outputs / "webdataset" / kind) for sample in samples_of(path)]
    every = [part for sample in samples for part in (sample, *sample.get("pairs", []))]
    assert {frozenset(sample) for sample in samples} == {frozenset(samples[0])}
    assert not any(value is None or value == [] for part in every for value in part.values())


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("videos", "20 clips; 1 clip was left out"),
        ("mixes", "8 clips in 20 rows."),
        ("pairs", "15 clips and 46 pairs; 1 clip was left out"),
        ("texts", "5 clips and 19 captions; 1 clip was left out"),
    ],
)
def test_a_card_counts_clips(outputs: Path, kind: str, count: str) -> None:
    assert count in (outputs / "hub" / kind / "README.md").read_text("utf-8")


def test_shards_have_a_size_and_the_same_bytes_again(small: Path, tmp_path: Path) -> None:
    manifest = small / "manifests/data/mlvp/videos.parquet"
    limit = 100_000
    contents = []
    for number in (0, 1):
        output = tmp_path / str(number)
        export("webdataset", manifest, output, shard_bytes=limit)
        assert len(shards(output)) > 3
        contents.append({Path(path).name: Path(path).read_bytes() for path in shards(output)})
        for path in shards(output):
            with tarfile.open(path) as archive:
                members = archive.getmembers()
            assert sum(512 + -(-member.size // 512) * 512 for member in members) <= limit or len(members) == 3
            assert {(member.mtime, member.uid, member.gid, member.uname) for member in members} == {(0, 0, 0, "")}
            assert all(member.name.count(".") == 1 for member in members)
            assert [member.name for member in members] == sorted(member.name for member in members)
    assert contents[0] == contents[1]


# --- mteb -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLACES)
def test_mteb_s_recall_is_ours_but_for_ties(outputs: Path, mteb: ModuleType, kind: str) -> None:
    """The same scores through mteb's evaluator and through ours; a tie counts against the model in ours.

    In every task: videos that ask for captions, captions that ask for videos. Three levels of scores tie.
    """
    tasks = loaded_tasks(outputs / "mteb" / kind)
    categories = ["v2t", "t2v"] if kind in ("videos", "mixes") else ["t2v"]
    assert [task.metadata.category for task in tasks] == categories
    model = Searcher(known_scores(3, 3))
    benchmark = exported_module(outputs / "mteb" / kind).benchmark()
    evaluated = mteb.evaluate(model, benchmark, cache=None, encode_kwargs={})
    every = [scores for result in evaluated.task_results for scores in result.scores["test"]]
    results = {scores["hf_subset"]: scores for scores in every}
    assert len(evaluated.to_dataframe(aggregation_level="subset")) == len(every) == len(results)
    captions = small_corpus.clean_captions()
    item_of = {row.caption_id: row.item_id for row in captions}
    assert set(results) == set(model.subsets) == {name for task in tasks for name in task.metadata.eval_langs}
    if kind == "pairs":
        perturbed = [f"{video}_1-{text}_3" for video in ("fog", "gaussian_noise") for text in ("typos", "word_swap")]
        assert sorted(results) == ["clean", *perturbed]
    for scenario, (queries, documents) in model.subsets.items():
        if kind == "pairs":
            assert sorted(documents) == sorted(ITEMS)
            assert sorted(queries) == sorted(item_of.keys() - ({"c1"} if scenario != "clean" else set()))
        scores = np.array([[model.score(scenario, query, document) for document in documents] for query in queries])
        relevant = [
            [
                place
                for place, document in enumerate(documents)
                if item_of.get(query, query) == item_of.get(document, document)
            ]
            for query in queries
        ]
        for k in (1, 3, 5):
            ours, theirs = retrieval.recall_at_k(scores, relevant, k) / 100, results[scenario][f"hit_rate_at_{k}"]
            assert results[scenario][f"r_at_{k}"] == pytest.approx(ours, abs=1e-5)  # mteb rounds to five digits
            assert ours <= theirs + 1e-5
            assert theirs == pytest.approx(_with_ties_by_id(scores, documents, relevant, k), abs=1e-5)
        assert results[scenario]["main_score"] == results[scenario]["r_at_1"]
    assert any(results[scenario]["hit_rate_at_1"] > results[scenario]["r_at_1"] for scenario in results), (
        "no tie was decided for the model: the comparison shows nothing"
    )


def _with_ties_by_id(scores: np.ndarray, documents: list[str], relevant: list[list[int]], k: int) -> float:
    """R@k where of two tied documents the one whose id is the greater text comes first, whatever the query is."""
    places = range(len(documents))
    hits = 0
    for row, targets in zip(scores, relevant, strict=True):
        first = sorted(places, key=lambda place: (row[place], documents[place].encode()), reverse=True)[:k]
        hits += bool(set(first) & set(targets))
    return hits / len(relevant)


def test_a_document_that_mteb_did_not_keep_is_no_hit(outputs: Path, mteb: ModuleType) -> None:
    """mteb hands over a query's best 1,000 documents only."""
    (task,) = loaded_tasks(outputs / "mteb/texts")
    task.load_data()
    qrels = {"a": {"x": 1, "y": 0}, "b": {"z": 1, "w": 1}, "c": {"x": 1}}
    results = {"a": {"y": 0.5, "z": 0.4}, "b": {"y": 0.5, "w": 0.5, "z": 0.5}, "c": {"x": -0.5}}
    scores = task.task_specific_scores({}, qrels, results, hf_split="test", hf_subset="word_swap_3")
    assert (scores["queries"], scores["gallery"]) == (3, len(ITEMS))
    assert (scores["r_at_1"], scores["r_at_3"], scores["r_at_100"]) == (1 / 3, 2 / 3, 2 / 3)


def test_mteb_s_loader_gives_the_queries_the_corpus_and_the_videos(
    outputs: Path, small: Path, mteb: ModuleType, datasets: ModuleType, tmp_path: Path
) -> None:
    task, of_captions = loaded_tasks(outputs / "mteb/videos")
    task.load_data()
    of_captions.load_data()
    asking = of_captions.dataset["t2v-fog_1"]["test"]
    assert sorted(asking["queries"]["text"]) == sorted(row.text.strip() for row in small_corpus.clean_captions())
    expected = expected_frames(small)
    assert undecoded(datasets, asking["corpus"]) == undecoded(datasets, task.dataset["fog_1"]["test"]["queries"])
    for scenario, (name, severity) in {"fog_1": ("fog", 1), "clean": ("clean", 0)}.items():
        data = task.dataset[scenario]["test"]
        assert sorted(data["corpus"]["text"]) == sorted(row.text for row in small_corpus.clean_captions())
        rows = undecoded(datasets, data["queries"])
        assert sorted(row["id"] for row in rows) == sorted(ITEMS)
        for row in rows:
            file = tmp_path / "video.mp4"
            file.write_bytes(row["video"]["bytes"])
            np.testing.assert_array_equal(clips.images(file), expected[row["id"], name, severity])
            assert set(data["relevant_docs"][row["id"]]) == {
                caption.caption_id for caption in small_corpus.clean_captions() if caption.item_id == row["id"]
            }


def test_mteb_decodes_the_videos(outputs: Path, small: Path, datasets: ModuleType) -> None:
    """As a user's model gets them: by torchcodec, with the pixels of the corpus."""
    needs.reader("mteb")
    needs.decoder()
    task, *_ = loaded_tasks(outputs / "mteb/videos")
    task.load_data()
    expected = expected_frames(small)
    for row in task.dataset["fog_1"]["test"]["queries"]:
        frames = row["video"].get_frames_in_range(0, len(row["video"])).data.permute(0, 2, 3, 1).numpy()
        np.testing.assert_array_equal(frames, expected[row["id"], "fog", 1])


@pytest.mark.parametrize("kind", PLACES)
def test_every_video_is_stored_once(outputs: Path, kind: str) -> None:
    hashes = []
    for path in (outputs / "mteb" / kind / "data").glob("*-videos-*.parquet"):
        hashes += [storage.sha256_of(cell["bytes"]) for cell in pq.read_table(path)["video"].to_pylist()]
    assert hashes
    assert len(set(hashes)) == len(hashes)
    assert kind != "pairs" or len(hashes) == 3 * len(ITEMS)


# --- perturbed videos with perturbed captions -------------------------------------------------------------------------


def accepted(small: Path) -> dict[tuple[str, str, str, str], MultimodalRow]:
    """The accepted rows by item, both perturbations and caption."""
    return {
        (row.item_id, row.perturbation, row.text_perturbation, row.caption_id): row
        for row in files.read_rows(small / "manifests/data" / PLACES["pairs"][1], MULTIMODAL)
        if row.accepted
    }


def check_pairs(small: Path, rows: list[Mapping[str, Any]]) -> None:
    """Whether exported rows are the manifest's accepted ones, and each clean caption with its clean clip."""
    wanted = accepted(small)
    clean = {row.caption_id: row for row in small_corpus.clean_captions()}
    assert len(wanted) == PAIRS
    perturbed = [row for row in rows if row["perturbation"] != "clean"]
    keys = [(row["item"], row["perturbation"], row["text_perturbation"], row["caption_id"]) for row in perturbed]
    assert len(keys) == len(set(keys)) == PAIRS
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
    outputs: Path, small: Path, datasets: ModuleType
) -> None:
    rows = undecoded(datasets, datasets.load_dataset(str(outputs / "hub/pairs"), split="test"))
    check_pairs(small, rows)
    named = datasets.load_dataset(str(outputs / "hub/pairs"), "multimodal", split="test")
    assert len(named) == PAIRS + CLEAN_PAIRS
    fog = datasets.load_dataset(str(outputs / "hub/pairs"), "fog_1", split="test")
    assert set(fog["perturbation"]) == {"fog"}
    assert len(fog) == PAIRS // 2
    for row in rows:
        assert storage.sha256(Path(row["video"]["path"])) == row["sha256"]


def test_pairs_of_a_video_name_the_stored_file(outputs: Path, small: Path) -> None:
    data = outputs / "hub/pairs/data"
    rows = pq.read_table(data / "gaussian_noise_1/metadata.parquet").to_pylist()
    assert len({row["file_name"] for row in rows}) == len(ITEMS) < len(rows)
    stored = {row.item_id: small / str(row.path) for row in accepted(small).values() if row.storage != "recipe"}
    for row in rows:
        assert (data / "gaussian_noise_1" / row["file_name"]).samefile(stored[row["item"]])
    assert len(list(data.rglob("*.mp4"))) + len(list(data.rglob("*.avi"))) == 3 * len(ITEMS)


def test_webdataset_gives_each_video_once_with_its_captions(outputs: Path, small: Path) -> None:
    library = needs.reader("webdataset")
    samples = list(library.WebDataset(shards(outputs / "webdataset/pairs"), shardshuffle=False))
    assert len(samples) == 3 * len(ITEMS)
    rows = []
    for sample in samples:
        row = json.loads(sample["json"])
        assert storage.sha256_of(sample["mp4"]) == row["sha256"]
        assert sample["txt"].decode() == row["caption"]
        rows += [row | text for text in row["pairs"]]
    check_pairs(small, rows)


def test_mteb_s_loader_gives_the_perturbed_texts_and_videos(outputs: Path, small: Path, mteb: ModuleType) -> None:
    (task,) = loaded_tasks(outputs / "mteb/pairs")
    task.load_data()
    rows = [row for key, row in accepted(small).items() if key[1:3] == ("gaussian_noise", "typos")]
    data = task.dataset["gaussian_noise_1-typos_3"]["test"]
    assert {row["id"]: row["text"] for row in data["queries"]} == {row.caption_id: row.text for row in rows}
    hashes = {row["id"]: storage.sha256_of(row["video"]["bytes"]) for row in data["corpus"]}
    assert hashes == {row.item_id: row.sha256 for row in rows}
    assert data["relevant_docs"] == {row.caption_id: {row.item_id: 1} for row in rows}


# --- croissant --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLACES)
def test_mlcroissant_validates_and_loads(outputs: Path, kind: str) -> None:
    library = needs.reader("mlcroissant")
    output = outputs / "croissant" / kind
    dataset = library.Dataset(output / "croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    assert not dataset.metadata.ctx.issues.warnings
    metadata, described = dataset.metadata, json.loads((output / "croissant.json").read_bytes())
    assert [person.name for person in metadata.creators] == list(TERMS["creator"])
    assert (metadata.license, metadata.cite_as, metadata.url) == ([TERMS["license"]], TERMS["citation"], TERMS["url"])
    assert metadata.date_published
    assert metadata.keywords
    assert metadata.data_use_cases
    assert metadata.data_social_impact
    assert {name: described[name] for name in SHOWN} == SHOWN
    assert metadata.data_biases == SHOWN["rai:dataBiases"]
    limits, suite = metadata.data_limitations, "MM-Robustness" if kind == "texts" else "MLVP"
    assert limits[0] == (SIMULATED if kind == "mixes" else LEFT_OUT)
    assert (REJECTED in limits) == (kind == "texts")
    assert described["rai:hasSyntheticData"] is True
    assert suite in described["prov:wasGeneratedBy"][0]["prov:label"]
    assert "data" in described["prov:wasDerivedFrom"][0]["prov:label"]
    for part in described["distribution"]:
        if part["@type"] == "cr:FileObject":
            assert storage.sha256(output / part["contentUrl"]) == part["sha256"]
    assert dataset.metadata.ctx.conforms_to.value == "http://mlcommons.org/croissant/1.1"
    name = {"texts": "captions", "pairs": "pairs"}.get(kind, "clips")
    records = [
        {key.removeprefix(f"{name}/"): value for key, value in record.items()} for record in dataset.records(name)
    ]
    tables = sorted((output / "data").glob("**/metadata.parquet"))
    assert len(records) == sum(pq.read_table(path).num_rows for path in tables)
    assert {_text(record["item"]) for record in records} == set(ITEMS)
    assert {type(record["severity"]) for record in records} <= {int, np.int64}
    if kind != "texts":
        assert [_text(text) for text in records[0]["captions"]]
    if kind == "pairs":
        assert len(records) == PAIRS + CLEAN_PAIRS
        assert {_text(record["text"]).split(" ")[0] for record in records} >= {"swapped", "typos"}


def warned(caplog: pytest.LogCaptureFixture) -> str:
    (message,) = [record.getMessage() for record in caplog.records if "data tracks" in record.getMessage()]
    caplog.clear()
    return message


def test_a_description_says_which_terms_are_empty_until_a_file_gives_them(
    small: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = ["export", str(small / "manifests/data/mlvp/videos.parquet"), "--format", "croissant", "-o"]
    published = ["--license", "MIT", "--creator", "A", "--citation", "B", "--url", "https://data.test"]
    assert main([*words, str(tmp_path / "a")]) == 0
    assert warned(caplog) == (
        "croissant.json is without terms that data tracks ask for: --license, --creator, --citation, --url, "
        "rai:dataBiases (--rai), rai:personalSensitiveInformation (--rai), the `@id` of prov:wasDerivedFrom (--rai)"
    )
    assert not json.loads((tmp_path / "a/croissant.json").read_bytes()).keys() & {*SHOWN, "license"}
    given = tmp_path / "rai.json"
    given.write_text(json.dumps({**SHOWN, "rai:dataUseCases": []}))
    assert main([*words, str(tmp_path / "b"), *published, "--rai", str(given)]) == 0
    assert warned(caplog).endswith("for: rai:dataUseCases (--rai), the `@id` of prov:wasDerivedFrom (--rai)")
    given.write_text(json.dumps({**SHOWN, "prov:wasDerivedFrom": [{"@id": "https://parent.test"}]}))
    assert main([*words, str(tmp_path / "c"), *published, "--rai", str(given)]) == 0
    assert "data tracks" not in caplog.text
    dataset = needs.reader("mlcroissant").Dataset(tmp_path / "c/croissant.json")
    assert not dataset.metadata.ctx.issues.errors
    assert not dataset.metadata.ctx.issues.warnings
    described = json.loads((tmp_path / "c/croissant.json").read_bytes())
    assert described["prov:wasDerivedFrom"] == [{"@id": "https://parent.test"}]


@pytest.mark.parametrize("content", ["", "[]", '["rai:dataBiases"]', '{"dataBiases": "none"}', "[" * 100_000])
def test_terms_that_are_no_object_of_known_names_are_refused(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    given = tmp_path / "rai.json"
    given.write_text(content)
    manifest = str(small / "manifests/data/mlvp/videos.parquet")
    words = ["export", manifest, "--format", "croissant", "-o", str(tmp_path / "out"), "--rai"]
    assert main([*words, str(given)]) == main([*words, str(tmp_path / "none.json")]) == 1
    printed = capsys.readouterr().err
    assert f"--rai: {given}: " in printed
    assert f"--rai: {tmp_path / 'none.json'}: No such file or directory" in printed
    assert not (tmp_path / "out").exists()


def test_every_published_dataset_is_named_by_its_page(small: Path, tmp_path: Path) -> None:
    request = Request(manifest=small / "manifests/data/mlvp/videos.parquet", output=tmp_path)
    exported = exported_corpus.read(request)
    for adapter in adapters().values():
        terms = croissant.responsible_terms(replace(exported, about={"adapter": adapter.name}))
        (parent,) = terms["prov:wasDerivedFrom"]
        assert parent.get("@id", "").startswith("http") == bool(adapter.reference), adapter.name
        if adapter.reference or adapter.synthetic:
            assert all(terms[name] for name in croissant.REQUIRED)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
