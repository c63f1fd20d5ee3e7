"""MLVP with pretrained backends, from config to rows: tiny random models of the same classes in the models' places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pytest
import tiny_models
from pipeline_rows import scene

import perturbations
from perturbations.config import file as config_file
from perturbations.config import sections as config
from perturbations.corpus.plan import recipe, tiers
from perturbations.manifest.rows import CompleteSource
from perturbations.models.guides import guide_registry as guides
from perturbations.models.guides.guide_registry import Known
from perturbations.suites import suite_registry


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("models")
    return {
        "main_object": {
            "backend": "pretrained",
            "captioner": str(tiny_models.save_qwen(root / "qwen")),
            "owlv2": str(tiny_models.save_owlv2(root / "owlv2")),
            "nouns": str(tiny_models.save_nouns(root / "nouns")),
        },
        "style": {"backend": "pretrained", **tiny_models.save_adain(root / "adain")},
        "embedding": {"backend": "pretrained", "clip": str(tiny_models.save_clip(root / "clip"))},
    }


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[CompleteSource]:
    root = tmp_path_factory.mktemp("clips")
    return [
        clips.source_row(clips.write_scene(root / f"{name}.mp4", scene(9, 48, 64, seed)), name)
        for seed, name in enumerate("abc")
    ]


def of_config(raw: dict[str, Any], key: str, variant: str = "released", severity: int = 3) -> recipe.VideoRecipe:
    parsed = config_file.parse({"datasets": {"data": clips.DATASET}, "suites": {"mlvp": {}}, "backends": raw})
    return recipe.make(
        suite_registry.get(key),
        severity,
        variant=variant,
        seed=0,
        storage=tiers.UNSTORED,
        backends=parsed.backends,
        donors="data",
    )


def analysis_of(raw: dict[str, Any], key: str, variant: str = "released") -> recipe.AnalysisRecipe:
    wanted = of_config(raw, key, variant).analysis
    assert wanted is not None
    return wanted


def test_a_main_object_is_captioned_detected_tracked_and_ranked(
    backends: dict[str, Any], sources: list[CompleteSource], tmp_path: Path
) -> None:
    rows = clips.analysed(analysis_of(backends, "mlvp/main_object_occlusion"), sources, tmp_path)
    assert [row.status for row in rows] == ["complete"] * 3
    for row in rows:
        result = json.loads(row.result)
        assert isinstance(result["caption"], str)
        assert len(result["positions"]) == len(result["objects"]) == len(result["boxes"]) == 12
        assert all(len(objects) <= 3 for objects in result["objects"])
        assert all(detection["label"] in result["keywords"] for objects in result["objects"] for detection in objects)
        for objects in result["objects"]:
            scores = [detection["score"] for detection in objects]
            assert scores == sorted(scores, reverse=True)
        used = json.loads(row.backend)["main_object"]
        assert used["backend"] == "pretrained"
        assert {role: used[role]["name"] for role in ("captioner", "detector", "nouns")} == {
            "captioner": "qwen",
            "detector": "owlv2",
            "nouns": "nouns",
        }
        assert all(used[role]["revision"].startswith("sha256:") for role in ("captioner", "detector", "nouns"))


def test_the_whole_way_with_pretrained_backends(
    backends: dict[str, Any], sources: list[CompleteSource], tmp_path: Path
) -> None:
    """Captions of the captioner are embedded, donors are looked up by them, and rows name every model."""
    objects = analysis_of(backends, "mlvp/main_object_occlusion")
    captions = {row.item_id: row for row in clips.analysed(objects, sources, tmp_path)}
    query = analysis_of(backends, "mlvp/event_insertion")
    assert query.analysis == "caption_embedding"
    by_caption = clips.analysed(query, sources, tmp_path, before=captions)
    paper = analysis_of(backends, "mlvp/event_insertion", "paper")
    assert paper.analysis == "embedding"
    assert of_config(backends, "mlvp/event_insertion").donors == ("data", "features")
    assert of_config(backends, "mlvp/event_insertion", "paper").donors == ("data", "embedding")
    settings = guides.GuideSettings(backends=config.Backends.model_validate(backends))
    features = guides.analysis("features").recipe(settings)
    by_frames = clips.analysed(features, sources, tmp_path)
    # A sentence may be empty with random weights, but it has a vector, and that is not the frames'.
    assert by_caption[0].vector != by_frames[0].vector
    for row in (*by_caption, *by_frames):
        assert abs(np.linalg.norm(row.vector) - 1) > 1e-3  # their lengths count
    for row in clips.analysed(paper, sources, tmp_path):
        assert np.linalg.norm(row.vector) == pytest.approx(1, abs=1e-6)
    for key, known in (
        ("mlvp/main_object_occlusion", Known(captions)),
        ("mlvp/event_insertion", Known({row.item_id: row for row in by_caption}, by_frames)),
        ("mlvp/style_transfer", Known()),
    ):
        wanted = of_config(backends, key)
        folder = tmp_path / key
        (tmp_path / key).mkdir(parents=True)
        rows = clips.video_rows(
            wanted,
            sources[:1],
            root=folder,
            folder=folder,
            known=known,
        )
        assert [row.status for row in rows] == ["complete"], rows[0].error
        used = json.loads(rows[0].backend)
        assert used
        assert {entry["backend"] for entry in used.values()} == {"pretrained"}
        if key == "mlvp/event_insertion":
            products = [np.dot(by_caption[0].vector, row.vector) for row in by_frames[1:]]
            assert rows[0].donor_similarity == pytest.approx(max(products), abs=1e-5)
        opened = perturbations.open_clip(rows[0])
        assert len(opened) == rows[0].frame_count == 9
    assert used["style"]["encoder_sha256"] == backends["style"]["encoder_sha256"]


def test_a_missing_model_stops_the_run_at_once(
    backends: dict[str, Any], sources: list[CompleteSource], tmp_path: Path
) -> None:
    gone = {**backends, "embedding": {"backend": "pretrained", "clip": "nobody/nothing"}}
    with pytest.raises(perturbations.base.errors.ConfigError, match="hf download nobody/nothing"):
        clips.analysed(analysis_of(gone, "mlvp/event_insertion", "paper"), sources, tmp_path)


def test_other_weights_make_another_recipe(backends: dict[str, Any], sources: list[CompleteSource]) -> None:
    style = of_config(backends, "mlvp/style_transfer")
    changed = {**backends, "style": {**backends["style"], "decoder_sha256": "0" * 64}}
    moved = {**backends, "style": {**backends["style"], "decoder": "/elsewhere/decoder.pth"}}
    ids = [
        recipe.recipe_id(of_config(settings, "mlvp/style_transfer"), sources[0])
        for settings in (backends, changed, moved)
    ]
    assert ids[0] == ids[2] != ids[1]
    assert style.guide is not None
    assert style.guide["device"] == "cpu"
