"""The size of shards that is derived from clips, and the time and memory that jobs request."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clips import DATASET
from test_workflow import tiny_clip

from perturbations.config import file as config_file
from perturbations.config import sections as configuration
from perturbations.plan import costs, paths, recipe, rules, sharding
from perturbations.plan.costs import Workload
from perturbations.plan.listed import ListedClip

MSRVTT, WHOLE = 27_000_000, 7_000_000_000
"""Pixels of a clip of MSR-VTT, and of a video of 20 minutes."""


def config(**settings: Any) -> configuration.Config:
    return config_file.parse({"datasets": {"demo": DATASET}, "suites": {"mlvp": {}}, **settings})


def of(clips: int, pixels: int) -> Workload:
    return Workload(clips, clips * pixels, 320 * 240)


@pytest.mark.parametrize(
    ("clips", "pixels", "size"),
    [(1, MSRVTT, 100), (1000, MSRVTT, 100), (10_000, MSRVTT, 207), (30, WHOLE, 1), (100, WHOLE, 7), (0, MSRVTT, 100)],
)
def test_a_job_has_a_hundred_clips_unless_jobs_become_too_long_or_too_many(clips: int, pixels: int, size: int) -> None:
    assert costs.shard_size(config(), "demo", of(clips, pixels)) == size
    assert costs.shard_size(config(shard_size=7), "demo", of(clips, pixels)) == 7


@pytest.mark.parametrize("clips", [1000, 50_000, 2_500_000])
@pytest.mark.parametrize("pixels", [MSRVTT, 20 * MSRVTT])
def test_a_target_has_few_jobs_and_they_are_short_where_both_can_be(clips: int, pixels: int) -> None:
    size = costs.shard_size(config(), "demo", of(clips, pixels))
    names = [str(name) for name in range(clips)] if clips <= 50_000 else []
    shards = len(sharding.shards_of(names, size, str, str)) or clips / size
    jobs = shards * (len(recipe.scenarios(config(), "mlvp")) + 4)
    longest_h = costs.seconds(of(size, pixels), 0.2) / 3600
    assert jobs <= (5000 if longest_h < 3 else 20_000)
    assert longest_h <= 0.5 or jobs > 2500, "neither is near its bound"


def test_a_request_grows_with_clips_and_pixels() -> None:
    few, many, large = of(100, MSRVTT), of(5000, MSRVTT), Workload(100, 100 * MSRVTT, 3840 * 2160)
    motion = [paths.analysis_minutes(config(), "motion", clips) for clips in (few, many)]
    assert motion[0] < 7.2 * 60 < motion[1]
    fog = recipe.from_config(config(), "demo", "mlvp", "fog", 1)
    assert paths.video_minutes(fog, few) < paths.video_minutes(fog, many)
    assert paths.video_memory_mb(fog, few) == paths.video_memory_mb(fog, many) < paths.video_memory_mb(fog, large)


def test_clips_are_as_large_as_their_headers_spans_and_bytes_say(tmp_path: Path) -> None:
    paths_of = [tmp_path / name for name in ("a.mp4", "b.mp4")]
    for path, frames in zip(paths_of, (10, 30), strict=True):
        tiny_clip(path, seed=1, frames=frames)
    listed = [
        ListedClip(item_id=path.stem, source_video_id=path.stem, path=str(path), bytes=os.path.getsize(path))
        for path in paths_of
    ]
    survey = costs.Survey(listed)
    (header, _) = costs.headers(listed)
    assert survey.of(listed).clips == 2
    assert survey.of(listed).pixels == pytest.approx(40 * header.frame_pixels, abs=1)
    assert survey.of(listed[:1]).pixels < survey.of(listed[1:]).pixels
    cut = [ListedClip(item_id="c", source_video_id="a", path=str(paths_of[0]), bytes=9, start_s=0.1, end_s=0.2)]
    assert costs.Survey(cut).of(cut).pixels == pytest.approx(header.pixels / header.seconds * 0.1, rel=0.01)


def test_of_unreadable_clips_a_size_is_assumed_and_of_undrawn_ones_it_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"no video")
    for size in (8, None):
        listed = [ListedClip(item_id="a", source_video_id="a", path=str(tmp_path / "a.mp4"), bytes=size)]
        assert costs.Survey(listed).of(listed) == Workload(1, 30_000_000, 640 * 360)
    assert costs.Survey(listed, drawn=(320, 180, 72)).of(listed) == Workload(1, 320 * 180 * 72, 320 * 180)
    assert costs.together([]) == costs.NOTHING


def test_what_is_requested_doubles_at_each_attempt() -> None:
    settings = config(datasets={"demo": {"adapter": "demo", "clips": 1}})
    of_rules = rules.CorpusRules(settings, lambda: False)
    wildcards = SimpleNamespace(dataset="demo", suite="mlvp", perturbation="fog", severity="1", shard="s0")
    for amount in (of_rules.video_mb, of_rules.video_minutes, of_rules.source_mb, of_rules.merge_minutes):
        first, *more = (amount(wildcards, attempt) for attempt in (1, 2, 3))
        assert more == [2 * first, 4 * first]
    assert [rules.doubled(94)(wildcards, attempt) for attempt in (1, 2, 3)] == [94, 188, 376]
