"""`perturb encode` and `perturb score`: the ranks, counts and hubs of an evaluation of the same manifests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny_models
from evaluation_job import bad_source, encoded_of, job

from perturbations import read_manifest
from perturbations.cli.main import main
from perturbations.corpus.captions import mixes
from perturbations.corpus.plan import caption_recipes, clip_lists, tiers
from perturbations.evaluation.models import encoder_loading
from perturbations.evaluation.result_rows import RankRow, ResultRow
from perturbations.evaluation.run import retrieval_of_scenario, runner
from perturbations.manifest import files, sets
from perturbations.manifest.rows import (
    CAPTIONS,
    MIXES,
    QRELS,
    SOURCES,
    TEXTS,
    VIDEOS,
    CaptionRow,
    CompleteSource,
    QrelRow,
    SourceRow,
    TextRow,
    VideoRow,
)
from perturbations.suites import suite_registry
from perturbations.tta.gallery import Gallery

pytestmark = pytest.mark.usefixtures("in_this_process")

METHODS = ["none", "dsl", "csls", "sinkhorn", "qbnorm", "dual_is", "dual_dis", "dual_sinkhorn", "invgc"]
NAMES = "abcdefgh"
BROKEN, REJECTED = "quarantined", "e 1"
JUMBLE = {"suite": "msrvtt_p", "perturbation": "jumble", "severity": 3}
APPEND = {"suite": "msrvtt_p", "perturbation": "append_irr", "severity": 1}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_clip(tmp_path_factory.mktemp("model") / "clip")


class Corpus:
    """Eight clips and one without a frame, two captions of each, perturbed ones, and their manifests.

    A perturbed clip is quarantined, the gate rejected a perturbed caption, one clip has no caption, and two captions
    were not usable from the beginning.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        scenes = np.random.default_rng(0).integers(0, 256, (len(NAMES), 3, 24, 32, 3), np.uint8)
        self.sources = [
            clips.source_row(clips.write_scene(folder / f"{name}.mp4", scene), name)
            for name, scene in zip(NAMES, scenes, strict=True)
        ]
        names = [f"{name} {n}" for name in [*NAMES[:-1], BROKEN] for n in (1, 2)]
        words = tiny_models.WORDS
        texts = {name: f"{words[place]} {words[(3 * place + 1) % len(words)]}" for place, name in enumerate(names)}
        self.captions = [
            CaptionRow(dataset="data", caption_id=key, item_id=key[:-2], text=text) for key, text in texts.items()
        ]
        self.videos = [self._jumbled(source) for source in self.sources]
        self.videos[3] = replace(self.videos[3], status="quarantined", stage="video", error="no")
        wanted = caption_recipes.make(suite_registry.get("msrvtt_p/append_irr"), 1)
        self.texts: list[TextRow] = [
            clips.text_row(
                wanted,
                caption_id=row.caption_id,
                item_id=row.item_id,
                text=f"{row.text} playing",
                recipe_id=row.caption_id,
                accepted=row.caption_id != REJECTED,
            )
            for row in self.captions
        ]
        self.mixed = list(mixes.mixed_types(self.videos, self.sources))
        self.clean = retrieval_of_scenario.Clean([*self.sources, bad_source(BROKEN)], self.captions, rejected=2)
        manifests = folder / "manifests/data"
        self._write(manifests / "sources.parquet", SOURCES, self.clean.sources, "../..")
        about = {"dataset": "data", sets.SET: sets.of_sources(self.clean.sources).columns()}
        files.write(manifests / "captions.parquet", CAPTIONS, self.captions, {"root": "../..", **about})
        empty = SourceRow(dataset="data", split="test", item_id="h", error="the caption is empty", status="quarantined")
        clip_lists.write(folder / "work/data/rejected_captions.jsonl", [empty] * 2)
        self._write(manifests / "msrvtt_p/mixed_types.parquet", MIXES, self.mixed, "../../..")
        self._write(manifests / "qrels.parquet", QRELS, [QrelRow(query_id="a 1", corpus_id="a", score=1)], "../..")
        # As jobs leave them: parts, which name no root.
        for half in (slice(0, 5), slice(5, None)):
            part = folder / f"work/data/msrvtt_p/jumble/3/s{half.start}.parquet"
            files.write(part, VIDEOS, self.videos[half])
            files.write(
                folder / f"work/data/msrvtt_p/captions/append_irr/1/s{half.start}.parquet", TEXTS, self.texts[half]
            )

    def _write(self, path: Path, kind: Any, rows: Sequence[Any], root: str) -> None:
        files.write(path, kind, rows, {"root": root})

    def _jumbled(self, source: CompleteSource) -> VideoRow:
        return clips.made_row("msrvtt_p/jumble", tiers.UNSTORED, source, self.folder / "made" / source.item_id)

    def rows(self, run: Any, modality: str) -> tuple[Sequence[Any], str]:
        """The perturbed rows of a run, as the jobs of an evaluation read them."""
        if modality == "captions":
            return self.texts, "captions"
        return (self.mixed if run.mix else self.videos), "clips"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def features(corpus: Corpus, model: Path) -> Path:
    """What `perturb encode` makes of the manifests, and of the parts that `tta_<dataset>` leaves."""
    paths = [str(corpus.folder / name) for name in ("manifests", "work/data/msrvtt_p")]
    output = corpus.folder / "features"
    assert main(["encode", *paths, "--model", str(model), "--num-frames", "3", "-o", str(output)]) == 0
    return output


def cases(direction: str) -> list[dict[str, Any]]:
    clips_ask = direction == "v2t"
    of_clips, of_texts = ("query", "gallery") if clips_ask else ("gallery", "query")
    both = {**JUMBLE, "side": "both", "text_perturbation": "append_irr", "text_severity": 1}
    mixed = {"suite": "msrvtt_p", "perturbation": "all", "severity": None, "mix": "mixed_types"}
    return [
        {"side": "none"},
        {**JUMBLE, "side": of_clips},
        {**APPEND, "side": of_texts},
        both,
        *({**mixed, "side": of_clips, "share": share} for share in mixes.SHARES),
    ]


def evaluated(corpus: Corpus, model: Path, direction: str) -> tuple[list[ResultRow], list[RankRow]]:
    runs = [run for own in cases(direction) for run in job(direction, METHODS, **own)]
    loaded = encoder_loading.load(str(model), num_frames=3)
    encoded = encoded_of(loaded, corpus.clean, corpus.folder)
    bank = encoded["clips" if direction == "v2t" else "captions"]
    items = encoded["captions" if direction == "v2t" else "clips"]
    few = Gallery(items.direction, items.features[:5].roll(1, -1))
    banks = {"bank": bank, "gallery_bank": few}
    given = runner.EvaluationJob(loaded, corpus.clean, encoded, corpus.rows, banks=banks, top_k=3)
    return given.evaluate(runs, corpus.folder / direction / "runs.jsonl")


def test_features_of_two_models_share_no_folder(
    corpus: Corpus, model: Path, features: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["encode", str(corpus.folder / "manifests"), "--model", str(model), "-o", str(features)]
    assert main([*words, "--num-frames", "2"]) == 1
    assert "captions/clean.npz is of another model or number of frames: delete" in capsys.readouterr().err


@pytest.mark.parametrize("direction", ["v2t", "t2v"])
def test_scored_features_are_an_evaluations(
    direction: str, corpus: Corpus, model: Path, features: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, ranks = evaluated(corpus, model, direction)
    sides = [str(features / name) for name in ("clips", "captions")][:: 1 if direction == "v2t" else -1]
    output = corpus.folder / f"scored {direction}"
    words = ["--direction", direction, "--relevant", str(features / f"captions/{direction}.csv"), "-o", str(output)]
    words += ["--sides", "query", "gallery", "both", "--top-k", "3", "--methods", *METHODS]
    words += ["--bank", f"{sides[0]}/clean.npz"]
    with np.load(f"{sides[1]}/clean.npz") as held:
        np.savez(corpus.folder / "few.npz", ids=held["ids"][:5], features=np.roll(held["features"][:5], 1, -1))
    assert main(["score", *sides, *words, "--gallery-bank", str(corpus.folder / "few.npz")]) == 0
    scenario = ["side", "suite", "perturbation", "severity", "text_perturbation", "text_severity", "mix", "share"]
    counts = ["category", "queries", "missing_queries", "gallery", "recall_at_1", "hub_skewness", "hub_robin_hood"]
    own = read_manifest(output / "results.parquet")
    assert len(own) == len(rows) == len(METHODS) * 8
    theirs = {tuple(getattr(row, name) for name in [*scenario, "method"]): row for row in rows}
    for row in own.astype(object).where(own.notna(), None).to_dict("records"):
        expected = theirs[tuple(row[name] for name in [*scenario, "method"])]
        assert [row[name] for name in counts] == pytest.approx([getattr(expected, name) for name in counts], abs=1e-6)
    places = read_manifest(output / "ranks.parquet")
    places = places.astype(object).where(places.notna(), None)
    key = [*scenario, "method", "query_id"]
    ours = {tuple(row[name] for name in key): row["rank"] for row in places.to_dict("records")}
    first = {tuple(row[name] for name in key): row["retrieved"] for row in places.to_dict("records")}
    for row in ranks:
        of_ours = json.loads(first[tuple(getattr(row, name) for name in key)])
        assert [score for _, score in of_ours] == pytest.approx(
            [score for _, score in json.loads(row.retrieved or "[]")], abs=1e-4
        )
    expected_ranks = {tuple(getattr(row, name) for name in key): row.rank for row in ranks}
    assert ours.keys() == expected_ranks.keys()
    assert [(name, rank, ours[name]) for name, rank in expected_ranks.items() if ours[name] != rank] == []
    assert f"{len(NAMES) - 1 if direction == 'v2t' else 14} queries, " in capsys.readouterr().out
