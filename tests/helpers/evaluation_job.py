"""Five clips with captions, and an evaluation's job on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import clips
import numpy as np

from perturbations.corpus.plan import caption_recipes
from perturbations.corpus.store import clip_rows as manifest_rows
from perturbations.evaluation.models import encoder_loading
from perturbations.evaluation.plan import planned_runs as evaluation
from perturbations.evaluation.plan.method_settings import parameters_of
from perturbations.evaluation.result_rows import (
    RankRow,
    ResultRow,
    Run,
    order_of,
)
from perturbations.evaluation.run import query_encoding, retrieval_of_scenario, runner
from perturbations.manifest.rows import CaptionRow, CompleteSource, SourceRow, TextRow
from perturbations.suites import suite_registry
from perturbations.tta.methods.method_registry import title_of


def source(item_id: str) -> CompleteSource:
    return clips.made_up_source(item_id, split="", width=32, height=24, frame_count=6, duration_s=0.24)


def caption(caption_id: str, item_id: str) -> CaptionRow:
    return CaptionRow(dataset="data", caption_id=caption_id, item_id=item_id, text=f"text {caption_id}")


def perturbed_caption(caption_id: str, item_id: str, *, accepted: bool = True) -> TextRow:
    wanted = caption_recipes.make(suite_registry.get("mm_robustness/word_swap"), 3)
    columns = {"caption_id": caption_id, "item_id": item_id, "text": f"text {caption_id}", "recipe_id": caption_id}
    return clips.text_row(wanted, **columns, accepted=accepted)


def five_clips(folder: Path) -> list[CompleteSource]:
    scenes = np.random.default_rng(0).integers(0, 256, (5, 3, 24, 32, 3), np.uint8)
    return [
        clips.source_row(clips.write_scene(folder / f"{name}.mp4", scene), name)
        for name, scene in zip("abcde", scenes, strict=True)
    ]


CAPTIONS = [caption(name, name) for name in "abcde"]


CLEAN = {"side": "none", "suite": "clean", "perturbation": "clean", "severity": 0}


def job(direction: Any, methods: Sequence[str], seeds: Sequence[int] = (42,), **columns: Any) -> list[Run]:
    """The runs of a job of one scenario."""
    shared = {
        "dataset": "data",
        "pooling": "clip4clip",
        "model": "clip",
        "num_frames": 3,
        "model_key": "clip4clip-clip-qs-0",
        "setting": "qs",
        "batch_size": 2,
        "steps": 1,
        "precision": "float32",
        "adapter": "folder",
        "gallery_name": "dataset",
    }
    return [
        Run(
            direction=direction,
            **{**shared, **CLEAN, **columns},
            method=name,
            label=title_of(name),
            parameters=parameters_of(name, {}, direction),
            seed=seed,
            order=order_of(seed),
        )
        for name in methods
        for seed in seeds
    ]


def run(
    runs: Sequence[Run],
    model: Path,
    rows: Sequence[CompleteSource],
    folder: Path,
    name: str = "journal",
    perturbed: retrieval_of_scenario.Perturbed | None = None,
    captions: Sequence[CaptionRow] = CAPTIONS,
) -> tuple[list[ResultRow], list[RankRow]]:
    loaded = encoder_loading.load(str(model), num_frames=3)
    clean = retrieval_of_scenario.Clean(rows, captions)
    encoded: dict[evaluation.Modality, Any] = {}
    for modality in evaluation.MODALITIES:
        path = folder / f"{modality}.safetensors"
        query_encoding.write(path, loaded, clean, modality, 3)
        encoded[modality] = query_encoding.read(path, loaded, modality)
    given = runner.EvaluationJob(loaded, clean, encoded, perturbed or (lambda run, modality: ([], "")))
    return given.evaluate(runs, folder / name / "runs.jsonl")


def bad_source(item_id: str) -> SourceRow:
    return manifest_rows.quarantined_source("data", clips.listed(Path("bad.mp4"), item_id), "no frames")
