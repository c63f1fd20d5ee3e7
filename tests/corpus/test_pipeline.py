"""One clip through every perturbation of every suite, into every storage tier."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pytest
from pipeline_rows import ENTRIES, FRAMES, LOSSLESS, RECIPE, donor_frames, made_row, row_of, scene, source_row

import perturbations
import perturbations.base.errors
from perturbations.base import rng
from perturbations.corpus.plan import recipe, tiers
from perturbations.corpus.render import clean_clips, rendering
from perturbations.corpus.render.frame_orders import fitted
from perturbations.corpus.store import stored_clip
from perturbations.manifest import sets
from perturbations.media import decoding, probing
from perturbations.media.clip import MediaClip, uniform_indices
from perturbations.suites import suite_registry

KEYS = [entry.key for entry in ENTRIES]
KERNELS = [*{(entry.kernel, entry.guide, entry.draw): entry.key for entry in ENTRIES}.values()]
"""One perturbation per kernel, which several suites may share."""
HIGH = tiers.stored_video("high")
COMPATIBLE = tiers.stored_video("compatible")

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module", params=[(11, 37, 53), (1, 16, 16)], ids=["odd", "one-frame"])
def clip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    frames = scene(*request.param)
    return clips.write_scene(tmp_path_factory.mktemp("clip") / "clip.mp4", frames), frames


@pytest.fixture(scope="module", params=[None, "91/68"], ids=["square", "wide"])
def shaped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str | None]:
    """A clip and what it says of the shape of its pixels."""
    filters = () if request.param is None else ("-vf", f"setsar={request.param}")
    return clips.make(tmp_path_factory.mktemp("shaped") / "clip.mp4", *filters, *clips.X264), request.param


@pytest.mark.parametrize("key", ["mlvp/impulse_noise", "mlvp/h264_compression", "msrvtt_p/mpeg2", "msrvtt_p/jumble"])
@pytest.mark.parametrize("profile", ["compatible", "lossless", "released"])
def test_pixels_keep_their_shape(key: str, profile: str, shaped: tuple[Path, str | None], tmp_path: Path) -> None:
    """In the clean row, the perturbed row and the stored file; of square ones nothing is said."""
    path, aspect = shaped
    source = source_row(path)
    row = clips.made_row(key, tiers.stored_video(profile), source, tmp_path)
    assert source.sample_aspect_ratio == row.sample_aspect_ratio == aspect
    assert row.path is not None
    assert probing.probe(Path(row.path)).sample_aspect == Fraction(aspect or 1)


SINE = ("-f", "lavfi", "-i", "sine=frequency=440:duration=0.2")
TEXT = "1\n00:00:00,000 --> 00:00:00,100\na word\n"


@pytest.mark.parametrize(
    ("name", "inputs", "output", "lost"),
    [
        ("8 bits.mp4", (), clips.X264, None),
        ("sound.mp4", SINE, (*clips.X264, "-c:a", "aac"), None),
        (
            "hdr.mp4",
            (),
            ("-vf", "format=yuv420p10le,setparams=color_trc=smpte2084", *clips.X264_10),
            "PQ, 10 bits",
        ),
        ("hlg.mkv", (), ("-vf", "format=yuv420p,setparams=color_trc=arib-std-b67", *clips.X264), "HLG"),
        ("alpha.mov", (), ("-c:v", "qtrle", "-pix_fmt", "argb"), "alpha"),
        (
            "tracks.mkv",
            (*SINE, *SINE, "-i", "words.srt"),
            (*clips.X264, "-c:a", "aac", "-c:s", "srt", *(word for place in range(4) for word in ("-map", str(place)))),
            "subtitles, further audio tracks",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_what_a_video_has_and_no_clip_is_said(
    name: str,
    inputs: tuple[str, ...],
    output: tuple[str, ...],
    lost: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.srt").write_text(TEXT)
    row = source_row(clips.make(tmp_path / name, *output, inputs=inputs))
    assert row.source_losses == lost
    counted = sets.losses_of([row, row])
    assert counted == dict.fromkeys(lost.split(", ") if lost else (), 2)
    sentence = sets.losses_sentence({sets.LOSSES: counted})
    assert all(f"{word} of 2 clips" in sentence for word in counted)
    assert bool(sentence) == bool(lost)


@pytest.mark.parametrize("key", KERNELS)
def test_all_tiers_hold_the_same_frames(key: str, clip: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    path, clean = clip
    severity = min(5 if len(clean) == 1 else 3, suite_registry.get(key).severities[-1])
    rows = {
        str(tier): made_row(key, severity, tier, path, tmp_path / str(index))
        for index, tier in enumerate([LOSSLESS, RECIPE, FRAMES])
    }
    exact, on_demand, sampled = (perturbations.open_clip(row) for row in rows.values())
    assert exact.dtype == np.uint8
    assert {(row.height, row.width) for row in rows.values()} == {exact.shape[1:3]}
    if suite_registry.get(key).shape is None:
        assert exact.shape[1:] == clean.shape[1:]
        if suite_registry.get(key).method != "temporal":  # the tests of the plans say how long these are
            assert len(exact) == len(clean)
    assert all(row.frame_count == len(exact) for row in rows.values())
    assert all(row.source_frame_count == len(clean) for row in rows.values())
    assert np.array_equal(exact, on_demand)
    assert np.array_equal(exact[uniform_indices(5, len(exact))], sampled)
    for row, frames in zip(rows.values(), (exact, on_demand, sampled), strict=True):
        assert row.frames_sha256 == hashlib.sha256(frames.tobytes()).hexdigest()
        assert row.storage_psnr_db == math.inf
    in_memory = perturbations.perturb(
        clean, key, severity, seed=0, item_id="it", dataset="data", fps=25, donors=[donor_frames()]
    )
    assert np.array_equal(exact, in_memory)
    of_file = perturbations.corrupt(path, key, severity, item_id="it", dataset="data", donors=[donor_frames()])
    assert np.array_equal(exact, of_file)


SHAPED = [form for entry in ENTRIES for form in entry.forms() if form.shape is not None]


@pytest.mark.parametrize("form", SHAPED, ids=lambda form: f"{form.key}-{form.variant}")
def test_frames_of_another_size(form: suite_registry.Perturbation, tmp_path: Path) -> None:
    clean = scene(11, 37, 53)
    path = clips.write_scene(tmp_path / "clip.mp4", clean)
    rows = [
        made_row(form.key, 5, tier, path, tmp_path / str(index), variant=form.variant)
        for index, tier in enumerate([LOSSLESS, COMPATIBLE, RECIPE, FRAMES])
    ]
    exact, lossy, on_demand, sampled = (perturbations.open_clip(row) for row in rows)
    again = {"seed": 0, "item_id": "it", "dataset": "data", "fps": 25, "variant": form.variant}
    assert np.array_equal(exact, perturbations.perturb(clean, form.key, 5, **again))
    assert np.array_equal(exact, on_demand)
    assert np.array_equal(exact[uniform_indices(5, len(exact))], sampled)
    assert exact.shape == lossy.shape != clean.shape
    for row in rows:
        assert (row.frame_count, row.height, row.width) == exact.shape[:3]
        assert row.duration_s == pytest.approx(len(exact) / 25)
        assert (row.psnr_db, row.ssim) == (None, None)
        assert (row.source_frame_count, row.fps) == (11, 25)
    assert rows[0].storage_psnr_db == math.inf > rows[1].storage_psnr_db
    last = len(exact) - 1
    assert np.array_equal(perturbations.open_clip(rows[2], [last, 0]), exact[[last, 0]])


def test_frames_that_are_lost_leave_no_gap(tmp_path: Path) -> None:
    path = clips.write_scene(tmp_path / "clip.mp4", scene(40, 48, 64))
    row = made_row("msrvtt_p/translate", 5, LOSSLESS, path, tmp_path / "out")
    assert 20 < row.frame_count < 40
    times = [frame.pts for frame in decoding.decode(MediaClip(Path(row.path)))]
    steps = {second - first for first, second in pairwise(times)}
    assert (len(times), len(steps)) == (row.frame_count, 1)
    assert probing.probe(Path(row.path)).frame_rate == 25


@pytest.mark.parametrize("severity", [1, 4])
def test_a_clip_of_which_nothing_is_left_is_quarantined(severity: int, tmp_path: Path) -> None:
    clean = scene(1, 16, 16)
    path = clips.write_scene(tmp_path / "clip.mp4", clean)
    row = row_of("msrvtt_p/freeze", severity, LOSSLESS, path, tmp_path / "out")
    assert (row.status, row.stage, row.path) == ("quarantined", "video", None)
    assert ("leaves no frame of this clip" if severity == 1 else "2 frames are to be chosen of 1") in row.error
    with pytest.raises(perturbations.base.errors.MediaError):
        perturbations.perturb(clean, "msrvtt_p/freeze", severity, seed=0, item_id="it", fps=25)


@pytest.mark.parametrize("num_frames", [1, 7, 13, 40])
@pytest.mark.parametrize("key", [entry.key for entry in ENTRIES if entry.sampled])
def test_twelve_stored_frames_are_those_that_the_papers_models_read(key: str, num_frames: int, tmp_path: Path) -> None:
    path = clips.write_scene(tmp_path / "clip.mp4", clean := scene(num_frames, 24, 32))
    whole = made_row(key, 4, RECIPE, path, tmp_path / "whole")
    row = made_row(key, 4, tiers.stored_frames(12), path, tmp_path / "frames")
    stored = perturbations.open_clip(row)
    assert (row.frame_count, row.duration_s, row.stored_frames) == (whole.frame_count, whole.duration_s, 12)
    plan = rendering.planned_clip(recipe.parse(row.recipe), clean_clips.source_of(row)).order
    assert len(plan) == len(stored) == 12
    donor = [fitted(frame, (32, 24), antialiased=False) for frame in donor_frames()]
    assert np.array_equal(stored, np.stack([clean[place] if place >= 0 else donor[~place] for place in plan]))
    # Any other number of frames is sampled uniformly from the full-length clip.
    five = perturbations.open_clip(made_row(key, 4, FRAMES, path, tmp_path / "five"))
    full = perturbations.open_clip(whole)
    assert np.array_equal(five, full[uniform_indices(5, len(full))])


@pytest.mark.parametrize("key", KEYS)
def test_the_high_profile_keeps_40_db_and_a_row_differs_by_its_key(key: str, tmp_path: Path) -> None:
    path = clips.write_scene(tmp_path / "clip.mp4", scene(10, 48, 64))
    severities = suite_registry.get(key).severities[2::2] or (1,)  # the 3rd and the 5th
    first, *_ = rows = [made_row(key, severity, HIGH, path, tmp_path / str(severity)) for severity in severities]
    assert all(row.storage_psnr_db >= 40 for row in rows)
    other_seed = made_row(key, severities[0], HIGH, path, tmp_path / "other", seed=1)
    assert other_seed.recipe_id != first.recipe_id
    entry = suite_registry.get(key)
    random = entry.realization is not None
    if entry.guide == "style":  # the seed chooses the style, which may be the same one
        assert (other_seed.frames_sha256 != first.frames_sha256) == (other_seed.guide != first.guide)
    elif entry.method == "temporal":
        pass  # of a few frames, two draws may choose the same
    else:
        assert (other_seed.frames_sha256 != first.frames_sha256) == random


def test_the_released_substitute_shows_a_second_of_any_other_clip(tmp_path: Path) -> None:
    path = clips.write_scene(tmp_path / "clip.mp4", clean := scene(30, 48, 64))
    row = made_row("tampering/substitute", 1, LOSSLESS, path, tmp_path, variant="released")
    assert (row.donor_id, row.donor_similarity, row.backend) == ("other", None, "{}")
    donor = [fitted(frame, (64, 48)) for frame in donor_frames()]  # nine frames, which are repeated
    expected = [donor[(at - 3) % 9] if 3 <= at < 28 else clean[at] for at in range(30)]
    assert np.array_equal(perturbations.open_clip(row), np.stack(expected))


@pytest.mark.parametrize(
    "key", ["mlvp/fog", "mlvp/impulse_noise", "mlvp/h264_compression", "msrvtt_p/jumble", "tampering/substitute"]
)
def test_the_measured_psnr_is_the_real_one(key: str, tmp_path: Path) -> None:
    path = clips.write_scene(tmp_path / "clip.mp4", scene(10, 48, 64))
    row = made_row(key, 3, COMPATIBLE, path, tmp_path / "out")
    stored = perturbations.open_clip(row).astype(float)
    intended = perturbations.open_clip(replace(row, storage="recipe")).astype(float)
    error = np.mean((stored - intended) ** 2)
    expected = math.inf if error == 0 else 10 * math.log10(255**2 / error)
    assert row.storage_psnr_db == pytest.approx(expected)


def test_a_long_clip_is_measured_like_a_short_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = clips.write_scene(tmp_path / "clip.mp4", scene(9, 48, 64))
    kept = made_row("mlvp/snow", 2, HIGH, path, tmp_path / "kept")
    monkeypatch.setattr(stored_clip, "_KEPT_BYTES", 3 * 48 * 64 * 3)
    again = made_row("mlvp/snow", 2, HIGH, path, tmp_path / "again")
    assert replace(kept, path=None) == replace(again, path=None)


def test_h264_reaches_its_bitrate_in_both_variants(tmp_path: Path) -> None:
    frames = scene(100, 96, 128)
    noise = np.random.default_rng(1).integers(0, 40, frames.shape, dtype=np.uint8)
    path = clips.write_scene(tmp_path / "clip.mp4", frames // 2 + noise)
    for variant, pix_fmt in (("released", "yuv444p"), ("paper", "yuv420p")):
        row = made_row("mlvp/h264_compression", 1, HIGH, path, tmp_path / variant, variant=variant)
        assert row.bitrate_bps == pytest.approx(500_000, rel=0.15)
        assert (row.codec, row.pix_fmt) == ("h264", pix_fmt)
        assert row.storage_psnr_db == math.inf


def test_real_clips_reach_40_db_in_the_high_profile(reference: Path, tmp_path: Path) -> None:
    """Fresh noise on every frame is the hardest to store; the other suites' standing ones are as MLVP's.

    The profile quantizes every frame alike, however long the clip is: two frames each of the beginning, the middle
    and the end stand for the rest.
    """
    for video in sorted((reference / "data" / "msrvtt" / "videos").glob("*.mp4")):
        frames = clips.images(video)
        starts = (0, len(frames) // 2, len(frames) - 2)
        path = clips.write_scene(tmp_path / video.name, np.concatenate([frames[start : start + 2] for start in starts]))
        for entry in (candidate for candidate in ENTRIES if candidate.suite == "mlvp" or candidate.draw == "frame"):
            for severity in (1, 5) if entry.suite == "mlvp" else (5,):
                folder = tmp_path / entry.name / str(severity)
                row = made_row(entry.key, severity, HIGH, path, folder)
                assert row.storage_psnr_db >= 40, (path.name, entry.key, severity)
                assert row.stored_frames == row.frame_count


@pytest.mark.parametrize("rate", [Fraction(7), Fraction(28), Fraction(2983, 100), Fraction(30000, 1001)], ids=str)
@pytest.mark.parametrize("name", ["mpeg1", "mpeg2"])
def test_mpeg_keeps_the_frames_of_any_rate(name: str, rate: Fraction, tmp_path: Path) -> None:
    """MPEG-2's header knows a few rates only: no frame is repeated or left out to have one of them."""
    path = clips.write_scene(tmp_path / "clip.mp4", scene(60, 48, 64), rate)
    row = made_row(f"msrvtt_p/{name}", 3, HIGH, path, tmp_path / "out")
    assert row.stored_frames == row.frame_count == 60
    assert float(probing.probe(Path(row.path)).frame_rate) == pytest.approx(float(rate), rel=1e-6)


LENGTH = 11


@pytest.mark.parametrize("kept_bytes", [2**28, 0], ids=["kept", "rendered twice"])
@pytest.mark.parametrize("tier", [tiers.stored_video("high"), tiers.stored_frames(12)], ids=["video", "frames"])
@pytest.mark.parametrize(
    ("key", "variant", "realizations"),
    [
        ("msrvtt_p/translate", "released", LENGTH),  # whose shape depends on every frame's draw
        ("msrvtt_p/translate", "released_online", 1),
        ("msrvtt_p/rotate", "released", LENGTH),
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
    tier: tiers.Storage,
    kept_bytes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not kept_bytes and key == "msrvtt_p/rotate":
        pytest.skip("what is drawn for a frame is not kept for a second pass: of noise it is as large as the frame")
    row, other = (
        clips.source_row(clips.written(tmp_path / f"{item}.mp4", clips.noise(LENGTH, seed=seed)), item)
        for seed, item in enumerate(("it", "other"))
    )
    wanted = recipe.make(suite_registry.get(key, variant), 5, seed=0, storage=tier, donors="data")
    source = clean_clips.source_with_facts(wanted, row, [other])
    drawn: Counter[Any] = Counter()
    generator = rng.generator
    monkeypatch.setattr(rng, "generator", lambda *args: drawn.update([args]) or generator(*args))
    monkeypatch.setattr(stored_clip, "_KEPT_BYTES", kept_bytes)
    stored_clip.make_clip(wanted, source, tmp_path / "clip")
    assert sorted(drawn.values()) == [1] * realizations
