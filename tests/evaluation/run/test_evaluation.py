"""Jobs of an evaluation: galleries and queries, the runner of scenarios, stored features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import clips
import pytest
import tiny_models
from evaluation_job import CAPTIONS, five_clips, job, perturbed_caption, run, source

from perturbations import read_manifest
from perturbations.base.errors import ManifestError
from perturbations.corpus.plan import recipe, tiers
from perturbations.corpus.store import clip_rows as manifest_rows
from perturbations.evaluation.evaluation_jobs import clean_rows
from perturbations.evaluation.result_rows import RANKS, RESULTS, key_of, places_of
from perturbations.evaluation.run import query_encoding, retrieval_of_scenario, run_journal, runner
from perturbations.manifest import files
from perturbations.manifest.rows import SOURCES, CompleteSource, SourceRow
from perturbations.models.guides.guide_registry import Known
from perturbations.retrieval import matrices
from perturbations.suites import suite_registry
from perturbations.tta import gallery, rescoring
from perturbations.tta.gallery import Gallery
from perturbations.tta.methods.method_registry import methods

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_clip(tmp_path_factory.mktemp("model") / "clip")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[CompleteSource]:
    return five_clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The items whose clips are read from now on, in order."""
    names: list[str] = []
    sampled = query_encoding.Clip.sampled
    monkeypatch.setattr(
        query_encoding.Clip, "sampled", lambda clip, *how: names.append(clip.item_id) or sampled(clip, *how)
    )
    return names


METHODS = tuple(name for name, entry in methods().items() if not entry.needs_bank)


@pytest.mark.parametrize("direction", ["v2t", "t2v"])
def test_every_method_gives_a_row_and_a_rank_a_query(
    direction: str, model: Path, rows: list[CompleteSource], tmp_path: Path
) -> None:
    results, ranks = run(job(direction, METHODS, [1, 2]), model, rows, tmp_path)
    assert [(row.method, row.seed) for row in results] == [(name, seed) for name in METHODS for seed in (1, 2)]
    path = tmp_path / "results.parquet"
    files.write(path, RESULTS, results)
    files.write(tmp_path / "ranks.parquet", RANKS, ranks)
    read, places = read_manifest(path), read_manifest(tmp_path / "ranks.parquet")
    assert (read["recall_at_1"] <= read["recall_at_5"]).all()
    assert (read["queries"] == 5).all()
    assert set(read["architecture"]) == {"clip ViT-32/8"}
    for _, row in read.iterrows():
        mine = places[(places["method"] == row["method"]) & (places["seed"] == row["seed"])]["rank"]
        assert row["recall_at_1"] == pytest.approx(100 * (mine <= 1).mean())
        assert row["mean_rank"] == pytest.approx(mine.mean())
        assert row["encode_ms_p50"] > 0


@pytest.mark.parametrize("direction", ["v2t", "t2v"])
def test_no_block_of_memory_changes_a_rank(
    direction: str, model: Path, rows: list[CompleteSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every method; the batch is part of the run, and the blocks of clips, items, pairs and rows are not."""
    ranks: dict[int, list[tuple[str, str, int]]] = {}
    for block in (2, 3, 10**6):
        for module, name in ((gallery, "CHUNK"), (query_encoding, "_CHUNK"), (rescoring, "ROWS"), (matrices, "_BLOCK")):
            monkeypatch.setattr(module, name, block)
        made = run(job(direction, METHODS), model, rows, tmp_path / str(block))[1]
        ranks[block] = [(row.method, row.query_id, row.rank) for row in made]
    assert len(ranks[2]) == 5 * len(METHODS)
    assert ranks[2] == ranks[3] == ranks[10**6]


def test_a_seed_draws_the_order_of_queries_and_ranks_keep_their_ids(
    model: Path, rows: list[CompleteSource], tmp_path: Path
) -> None:
    results, ranks = run(job("v2t", ["none", "hatvtr"], [42, 7]), model, rows, tmp_path)
    assert [(row.seed, row.order) for row in results] == [(42, "listed"), (7, "seed 7")] * 2
    of_runs = {
        (row.method, row.seed): [(rank.query_id, rank.rank) for rank in ranks if key_of(rank) == key_of(row)]
        for row in results
    }
    assert of_runs["none", 42] == of_runs["none", 7]
    drawn = places_of("abcde", 7)
    assert sorted(drawn) == [0, 1, 2, 3, 4] != drawn
    in_order = [rows[place] for place in drawn]
    renamed = [replace(row, item_id=name) for row, name in zip(in_order, "abcde", strict=True)]
    captions = [replace(CAPTIONS[place], item_id=name) for place, name in zip(drawn, "abcde", strict=True)]
    listed = run(job("v2t", ["hatvtr"]), model, renamed, tmp_path, "renamed", captions=captions)[1]
    assert [rank.rank for rank in listed] == [dict(of_runs["hatvtr", 7])["abcde"[place]] for place in drawn]


def test_an_interrupted_job_goes_on_where_it_was(
    model: Path, rows: list[CompleteSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = job("v2t", ["none", "tcr", "hatvtr"])
    whole = run(settings, model, rows, tmp_path, "whole")
    runs: list[str] = []
    finished = runner._finished

    def counted(*arguments: Any, **columns: Any) -> Any:
        runs.append(arguments[1].label)
        if len(runs) == 3:
            raise KeyboardInterrupt
        return finished(*arguments, **columns)

    monkeypatch.setattr(runner, "_finished", counted)
    with pytest.raises(KeyboardInterrupt):
        run(settings, model, rows, tmp_path)
    with (tmp_path / "journal/runs.jsonl").open("a") as file:
        file.write('{"key": "cut sh')
    again = run(settings, model, rows, tmp_path)
    assert again[1] == whole[1]
    assert run(settings, model, rows, tmp_path) == again
    assert runs == ["no adaptation", "TCR", "HAT-VTR", "HAT-VTR"]
    run([replace(own, steps=2) for own in settings], model, rows, tmp_path)
    assert runs[4:] == ["no adaptation", "TCR", "HAT-VTR"], "what changes a result runs again"


def test_clips_are_read_once_for_all_methods_and_give_the_ranks_of_each_method_alone(
    model: Path, rows: list[CompleteSource], tmp_path: Path, reads: list[str]
) -> None:
    methods = ["none", "tcr", "dsl"]
    results, ranks = run(job("v2t", methods), model, rows, tmp_path, "together")
    assert sorted(reads) == sorted(2 * [row.item_id for row in rows])  # once as queries, once as the gallery of t2v
    alone = [run(job("v2t", [name]), model, rows, tmp_path, name) for name in methods]
    assert ranks == [rank for single in alone for rank in single[1]]
    assert [row.recipe_id for row in results] == [row.recipe_id for single in alone for row in single[0]]


SWAPPED = {"side": "gallery", "suite": "mm_robustness", "perturbation": "word_swap", "severity": 3}


def test_a_perturbed_gallery_is_encoded_once_and_its_clean_queries_not_again(
    model: Path, rows: list[CompleteSource], tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Perturbed captions that say what the clean ones do give the clean ranks, also to a method that adapts."""
    same = [perturbed_caption(name, name) for name in "abcde"]
    names = ["none", "dsl", "tcr"]
    _, clean_ranks = run(job("v2t", names, [1, 2]), model, rows, tmp_path, "clean")
    encode, encoded = query_encoding.encoded, []

    def counted(given: Any, items: Sequence[Any], *arguments: Any) -> Any:
        encoded.append([type(item).__name__ for item in items])
        return encode(given, items, *arguments)

    monkeypatch.setattr(query_encoding, "encoded", counted)
    reads.clear()
    given = job("v2t", names, [1, 2], **SWAPPED)
    results, ranks = run(given, model, rows, tmp_path, "gallery", lambda run, modality: (same, modality))
    assert encoded == [["CompleteSource"] * 5, ["CaptionRow"] * 5, ["TextRow"] * 5]
    assert sorted(reads) == sorted(2 * [row.item_id for row in rows])  # for the clean side, and for the pixels of TCR
    assert [row.rank for row in ranks] == [row.rank for row in clean_ranks]
    assert {(row.side, row.manifest_sha256) for row in results} == {("gallery", "captions")}
    assert [row.encode_ms_p50 is None for row in results] == [True] * 4 + [False] * 2
    assert {row.updates + row.empty for row in results if row.method == "tcr"} == {3}


@pytest.mark.parametrize("direction", ["v2t", "t2v"])
def test_both_sides_of_a_combination_are_perturbed(
    direction: str, model: Path, rows: list[CompleteSource], tmp_path: Path
) -> None:
    videos = [clips.made_row("msrvtt_p/jumble", tiers.UNSTORED, row, tmp_path / row.item_id) for row in rows]
    texts = [perturbed_caption(name, name, accepted=name != "c") for name in "abcde"]
    scenario = {"side": "both", "suite": "msrvtt_p", "perturbation": "jumble", "severity": 3}
    given = job(direction, ["none"], **scenario, text_perturbation="word_swap", text_severity=3)
    held = {"clips": videos, "captions": texts}
    results, ranks = run(given, model, rows, tmp_path, perturbed=lambda run, modality: (held[modality], modality))
    (row,) = results
    assert (row.queries, row.missing_queries, row.manifest_sha256) == (4, 1, "clips captions")
    assert row.gallery == (4 if direction == "v2t" else 5)
    assert (row.text_perturbation, row.text_severity) == ("word_swap", 3)
    assert {rank.query_id for rank in ranks} == set("abde")


def test_perturbed_captions_that_the_model_reads_as_the_clean_ones_are_counted(
    model: Path, rows: list[CompleteSource], tmp_path: Path
) -> None:
    long = " ".join(["a man is playing a cat"] * 3)  # more than the model's 12 tokens
    pairs = {
        "a": (long, f"{long} [UNK]"),  # behind the last token
        "b": (long, f"cat {long}"),
        "c": ("a man", "a cat"),
        "d": (long, long),  # not changed, and so not counted
        "e": ("a man", "a  man"),
    }
    texts = [replace(perturbed_caption(id_, id_), source_text=old, text=new) for id_, (old, new) in pairs.items()]
    scenario = {"side": "query", "suite": "mm_robustness", "perturbation": "word_swap", "severity": 3}
    given = job("t2v", ["none"], **scenario)
    ((row,), *_) = run(given, model, rows, tmp_path, perturbed=lambda run, modality: (texts, ""))
    assert (row.queries, row.clean_input_queries) == (5, 2)
    ((clean,), *_) = run(job("t2v", ["none"]), model, rows, tmp_path, name="clean")
    assert clean.clean_input_queries is None


def test_an_evaluation_without_a_complete_clip_stops_with_one_message(tmp_path: Path) -> None:
    rows = [SourceRow(dataset="d", split="test", item_id=name, status="quarantined", error="x") for name in "ab"]
    files.write(tmp_path / "s.parquet", SOURCES, rows)
    with pytest.raises(ManifestError, match=r"s\.parquet has no complete clip: all 2 are quarantined or missing"):
        clean_rows(tmp_path / "s.parquet", None)


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({}, {}),
        (
            {"params": '{"sigma":0.5}'},
            {"severities": "own parameters", "corpus": "parameters are not the published ones: gaussian_noise"},
        ),
    ],
)
def test_results_say_whose_severities_they_have(changed: dict[str, str], facts: dict[str, str]) -> None:
    wanted = recipe.make(suite_registry.get("mlvp/gaussian_noise"), 3, seed=0, storage=tiers.UNSTORED)
    published = manifest_rows.expected_video(wanted, source("a"), None, Known())
    backends = run_journal.backends("work/demo_encoder", [published, replace(published, **changed)])
    assert backends == {"retrieval": "demo_encoder"} | facts


# --- features of other weights: those in a folder may be replaced ----------------------------------------------------


def of_weights(sha256: str) -> Any:
    return SimpleNamespace(sha256=sha256, model=SimpleNamespace(device=torch.device("cpu")))


def test_a_gallery_of_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.arange(12.0).reshape(2, 3, 2)
    monkeypatch.setattr(query_encoding, "encoded", lambda *_: Gallery("t2v", rows))
    path = tmp_path / "clips.safetensors"
    query_encoding.write(path, of_weights("old"), retrieval_of_scenario.Clean([source("a")], []), "clips", 3)
    assert torch.equal(query_encoding.read(path, of_weights("old"), "clips").features, rows)
    with pytest.raises(ManifestError, match="encoded with other weights.*run snakemake again, which encodes"):
        query_encoding.read(path, of_weights("new"), "clips")
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ManifestError, match="holds no encoded clips"):
        query_encoding.read(path, of_weights("old"), "clips")
