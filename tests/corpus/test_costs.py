"""The time and memory that jobs request, from the largest clip of a plan."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clips import DATASET
from workflow_project import tiny_clip

from perturbations.config import file as config_file
from perturbations.corpus.plan import corpus_rules, resources, sharding
from perturbations.corpus.plan.clip_lists import ListedClip

MSRVTT, WHOLE, LARGE = (320 * 240, 350), (320 * 240, 30_000), (3840 * 2160, 350)


def listed_clip(path: Path, **span: float) -> ListedClip:
    size = path.stat().st_size if path.exists() else None
    return ListedClip(item_id=path.stem, source_video_id=path.stem, path=str(path), bytes=size, **span)


def test_a_request_grows_with_clips_frames_and_pixels() -> None:
    assert resources.minutes(MSRVTT, 100) == 60
    assert resources.minutes(MSRVTT, 5000) == 480  # 2 x 5000 x (0.02 + 2.688) s
    assert (
        resources.minutes(MSRVTT, 5000) < resources.minutes(MSRVTT, 5000, models=True) < resources.minutes(WHOLE, 5000)
    )
    assert resources.memory_mb(MSRVTT, 1000) == resources.memory_mb(WHOLE, 1000) == 1000
    assert resources.memory_mb(LARGE, 1000) == resources.memory_mb(LARGE, 0) == 2474
    assert resources.memory_mb(LARGE, 4000) == 4000


def test_the_largest_clip_is_that_of_the_largest_file_or_the_longest_span(tmp_path: Path) -> None:
    for name, frames in (("a", 10), ("b", 30)):
        tiny_clip(tmp_path / f"{name}.mp4", seed=1, frames=frames)
    clips = [listed_clip(tmp_path / f"{name}.mp4") for name in "ab"]
    assert resources.largest(clips) == resources.largest(clips[::-1]) == (24 * 32, 30)
    spans = [listed_clip(tmp_path / "a.mp4", start_s=0.1, end_s=end_s) for end_s in (0.2, 0.6)]
    assert resources.largest(spans) == (24 * 32, pytest.approx(5))
    (tmp_path / "c.mp4").write_bytes(bytes(10_000))
    assert resources.largest([*clips, listed_clip(tmp_path / "c.mp4")]) == resources.largest([]) == resources.UNKNOWN


STYLE = {"encoder": "e.pth", "encoder_sha256": "0" * 64, "decoder": "d.pth", "decoder_sha256": "0" * 64}


@pytest.mark.parametrize(("device", "gpus"), [("cpu", 0), ("cuda:1", 1)])
def test_pretrained_models_need_memory_time_and_a_gpu(device: str, gpus: int) -> None:
    roles: dict[str, Any] = {name: {"backend": "pretrained"} for name in ("main_object", "embedding", "captions")}
    roles["style"] = {"backend": "pretrained", **STYLE}
    raw = {"datasets": {"demo": DATASET}, "suites": {"mlvp": {}}, "shard_size": 1000}
    offline = corpus_rules.CorpusRules(config_file.parse(raw))
    pretrained = corpus_rules.CorpusRules(config_file.parse({**raw, "backends": {**roles, "device": device}}))
    video = {"suite": "mlvp", "perturbation": "style_transfer", "severity": "1"}
    for names, more in (
        (video, True),
        ({**video, "perturbation": "fog"}, False),
        ({"analysis": "main_object"}, True),
        ({"analysis": "embedding"}, True),
        ({"analysis": "motion"}, False),
        ({}, False),
    ):
        wildcards = SimpleNamespace(dataset="demo", shard="s0", **names)
        assert offline.clips_mb(wildcards) == 1000
        assert (pretrained.clips_mb(wildcards) > 1000) == more
        assert (pretrained.clips_minutes(wildcards) > offline.clips_minutes(wildcards)) == more
        assert pretrained.clips_gpus(wildcards) == gpus * more
        assert offline.clips_gpus(wildcards) == 0
    assert pretrained.text_mb(None) > offline.text_mb(None)
    assert pretrained.text_minutes(None) > offline.text_minutes(None)


def test_what_is_requested_follows_the_plan_and_doubles_at_each_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sharding.resources, "largest", lambda clips: LARGE)
    Path("videos").mkdir()
    Path("captions.csv").write_text("item_id,caption\na,b\n")
    dataset = {"adapter": "folder", "annotations": "captions.csv", "videos": "videos"}
    of_rules = corpus_rules.CorpusRules(config_file.parse({"datasets": {"d": dataset}, "suites": {"mlvp": {}}}))
    wildcards = SimpleNamespace(dataset="d", suite="mlvp", perturbation="fog", severity="1", shard="s0")
    assert of_rules.clips_mb(wildcards) == 1000, "a job of its own process does not plan"
    of_rules.plan("d")
    assert of_rules.clips_mb(wildcards) == 2474
    for value in (of_rules.clips_mb, of_rules.text_mb, 94):
        amount = corpus_rules.megabytes(value)
        first, *more = (amount(wildcards, attempt, "videos") for attempt in (1, 2, 3))
        assert more == [2 * first, 4 * first]
