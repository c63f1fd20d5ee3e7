"""A clip is planned once: nothing that is random is drawn twice while it is made, checked and measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import clips
import pytest

from perturbations.base import rng
from perturbations.engine import render_clip, shards
from perturbations.plan import recipe
from perturbations.suites import registry

FRAMES = 11


@pytest.mark.parametrize("kept_bytes", [2**28, 0], ids=["kept", "rendered twice"])
@pytest.mark.parametrize(
    "tier", [recipe.stored_video("high"), recipe.StoredFrames(num_frames=12)], ids=["video", "frames"]
)
@pytest.mark.parametrize(
    ("key", "variant", "realizations"),
    [
        ("msrvtt_p/translate", "released", FRAMES),  # whose shape depends on every frame's draw
        ("msrvtt_p/translate", "released_online", 1),
        ("msrvtt_p/rotate", "released", FRAMES),
        ("mlvp/fog", "released", 1),
        ("msrvtt_p/jumble", "released", 1),
        ("mlvp/temporal_scrambling", "released", 1),  # of which models read other frames than the clip's
        ("msrvtt_p/sampling", "released", 0),
        ("transmission/bit_error", "paper", 1),
        ("mlvp/event_insertion", "paper", 1),
        ("mlvp/style_transfer", "released", 0),
        ("mm_robustness/frost", "released", 1),
    ],
)
def test_each_realization_is_drawn_once(
    key: str,
    variant: str,
    realizations: int,
    tier: recipe.Storage,
    kept_bytes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not kept_bytes and key == "msrvtt_p/rotate":
        pytest.skip("what is drawn for a frame is not kept for a second pass: of noise it is as large as the frame")
    row, other = (
        clips.source_row(clips.written(tmp_path / f"{item}.mp4", clips.noise(FRAMES, seed=seed)), item)
        for seed, item in enumerate(("it", "other"))
    )
    wanted = recipe.make(registry.get(key, variant), 5, seed=0, storage=tier, donors="data")
    source = shards.source_with_facts(wanted, row, [other])
    drawn: Counter[Any] = Counter()
    generator = rng.generator
    monkeypatch.setattr(rng, "generator", lambda *args: drawn.update([args]) or generator(*args))
    monkeypatch.setattr(render_clip, "_KEPT_BYTES", kept_bytes)
    render_clip.produce(wanted, source, tmp_path / "clip")
    assert sorted(drawn.values()) == [1] * realizations
