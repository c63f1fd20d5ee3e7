"""Clips that are cut from perturbed videos: the same frames, whatever the tier, the shards and the memory."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_scenes import scene
from workflow_project import Project

from perturbations import open_clip, perturb, read_manifest
from perturbations.base.errors import MediaError
from perturbations.config import file as config_file
from perturbations.corpus.plan import recipe, sharding, tiers
from perturbations.corpus.render import frame_orders, rendering
from perturbations.corpus.render.clean_clips import cut_of, source_of
from perturbations.media import decoding, encoding
from perturbations.media.clean_clip import CleanClip, Cut
from perturbations.media.clip import Image, MediaClip, uniform_indices
from perturbations.suites import suite_registry

NTSC = Fraction(30000, 1001)
NAMES = ["gaussian_noise", "rotate", "translate", "mpeg1", "mpeg2", "jumble", "sampling", "reverse_sampling", "freeze"]
PARTS = "manifests/cooking/msrvtt_p/videos.parquet"
BOTH = (PARTS, "manifests/cooking/whole/msrvtt_p/videos.parquet")
FAR = {"reach": 40, "window": "lost"}
"""So far that frames are lost."""
SPANS = {"one": [(0.0, 1.0), (0.5, 1.3), (1.0, 2.002)], "two words": [(0.4, 0.9)]}


def new_project(root: Path, **changes: Any) -> Project:
    for index, (name, frames, rate) in enumerate((("one", 60, NTSC), ("two words", 25, Fraction(25)))):
        clips.write_scene(root / "videos" / f"{name}.mp4", scene(frames, 48, 64, seed=index), rate)
    with (root / "captions.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["start", "end", "task", "text", "video_id"])
        writer.writerows(
            [start, end, 1, f"stir {start}", name] for name, spans in SPANS.items() for start, end in spans
        )
    settings = {
        "datasets": {"cooking": {"adapter": "youcook2", "annotations": "captions.csv", "videos": "videos"}},
        "suites": {"msrvtt_p": {"perturbations": NAMES, "severities": [2], "parameters": {"translate": {2: FAR}}}},
        "storage": {"tier": "video", "profile": "lossless"},
        **changes,
    }
    return Project(root, settings)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose run has ended well. Not to be changed."""
    project = new_project(tmp_path_factory.mktemp("finished"))
    project.snakemake(*BOTH)
    return project


def rows(project: Project, collection: str = "cooking") -> pd.DataFrame:
    return read_manifest(project.root / f"manifests/{collection}/msrvtt_p/videos.parquet")


def test_regenerated_from_its_recipes_it_checks_out(finished: Project, tmp_path: Path) -> None:
    finished.check_published("msrvtt_p", tmp_path, dataset="cooking")


def test_a_clip_is_a_part_of_its_perturbed_video(finished: Project) -> None:
    parts, whole = rows(finished), rows(finished, "cooking/whole")
    assert (len(parts), len(whole)) == (4 * len(NAMES), 2 * len(NAMES))
    assert set(parts["status"]) == set(whole.status) == {"complete"}
    for _, row in parts.iterrows():
        cut = json.loads(row.cut)
        (video,) = (
            candidate
            for _, candidate in whole.iterrows()
            if (candidate.item_id, candidate.perturbation) == (cut["video_id"], row.perturbation)
        )
        frames = open_clip(video)
        assert frames.shape[:3] == (video["frame_count"], video["height"], video["width"])
        assert video["source_frame_count"] == cut["num_frames"]
        part = frames[cut["first"] : cut["first"] + row.source_frame_count]
        assert part.shape[:3] == (row.frame_count, row.height, row.width)
        assert np.array_equal(open_clip(row), part), (row.item_id, row.perturbation)
        assert np.array_equal(open_clip(row, [3, 0]), part[[3, 0]])


def test_videos_of_another_size_or_length(finished: Project) -> None:
    whole = rows(finished, "cooking/whole").query("item_id == 'one'").set_index("perturbation")
    assert set(whole.source_frame_count) == {60}
    assert (whole.loc["sampling", "frame_count"], whole.loc["rotate", "frame_count"]) == (60, 60)
    assert whole.loc["freeze", "frame_count"] < 60
    moved = whole.loc["translate"]
    assert 40 < moved.frame_count < 60
    assert (moved.height, moved.width, whole.loc["freeze", "height"]) == (224, 224, 48)
    assert moved[["psnr_db", "ssim"]].isna().all()
    assert moved.duration_s == pytest.approx(moved.frame_count / NTSC)


def test_frames_are_cut_where_the_annotation_says(finished: Project) -> None:
    """At 30000/1001 frames per second, second 1 comes 0.03 frames before frame 30."""
    table = rows(finished)
    places = {
        row.item_id: (json.loads(row.cut)["first"], row.frame_count)
        for _, row in table[table["perturbation"] == "jumble"].iterrows()
    }
    assert places == {
        "one_0_1": (0, 30),
        "one_0.5_1.3": (15, 24),
        "one_1_2.002": (30, 30),
        "two words_0.4_0.9": (10, 13),
    }


def test_the_video_is_perturbed_as_by_the_api(finished: Project) -> None:
    clean = clips.images(finished.root / "videos/one.mp4")
    whole = rows(finished, "cooking/whole")
    for _, row in whole[(whole.item_id == "one") & ~whole.perturbation.isin(["mpeg1", "mpeg2"])].iterrows():
        key = f"msrvtt_p/{row.perturbation}"
        if row.perturbation != "translate":  # which has other parameters
            expected = perturb(clean, key, 2, seed=0, item_id="one", fps=float(NTSC), dataset="cooking")
            assert np.array_equal(open_clip(row), expected), key


def test_an_encoded_clip_loses_nothing_more(finished: Project, tmp_path: Path) -> None:
    project = new_project(tmp_path, storage={"tier": "video", "profile": "high"})
    project.config["suites"]["msrvtt_p"] = {"perturbations": ["mpeg1", "freeze"], "severities": [2]}
    project.snakemake(*BOTH)
    table = rows(project).set_index("perturbation")
    assert set(table.loc["mpeg1", "storage"]) == {"video/lossless"}
    assert set(table.loc["freeze", "storage"]) == {"video/high"}
    assert (table.loc["mpeg1", "storage_psnr_db"] == np.inf).all()
    whole = rows(project, "cooking/whole").set_index("perturbation")
    assert set(whole.loc["mpeg1", "codec"]) == {"mpeg2video"}  # the encoder's own stream
    same = rows(finished)
    same = same[same["perturbation"] == "mpeg1"]
    assert sorted(table.loc["mpeg1", "frames_sha256"]) == sorted(same["frames_sha256"])


def test_every_tier_holds_the_same_frames(finished: Project, tmp_path: Path) -> None:
    """Also where none are stored: then they are made again."""
    project = new_project(tmp_path, storage={"tier": "frames", "num_frames": 5})
    project.config["suites"]["msrvtt_p"]["perturbations"] = ["translate", "mpeg2", "jumble"]
    project.snakemake(PARTS)
    # Whole videos are a matter of full-length files.
    assert not (tmp_path / "manifests/cooking/whole/msrvtt_p").exists()
    full = rows(finished).set_index(["item_id", "perturbation"], drop=False)
    for _, row in rows(project).iterrows():
        stored = full.loc[(row.item_id, row.perturbation)].to_dict()
        frames = open_clip(stored)
        assert np.array_equal(open_clip(row), frames[uniform_indices(5, len(frames))]), (row.item_id, row.perturbation)
        assert np.array_equal(open_clip({**stored, "storage": "recipe"}), frames), (row.item_id, row.perturbation)
    project.output_of("verify", "--render")


def test_results_do_not_depend_on_how_the_work_is_cut_and_a_new_video_touches_its_own_neighbours_only(
    finished: Project, tmp_path: Path
) -> None:
    project = new_project(tmp_path, shard_size=1)
    some = ["mpeg2", "jumble"]
    project.config["suites"]["msrvtt_p"] = {"perturbations": some, "severities": [2]}
    project.snakemake(*BOTH, cores=1)
    assert len({path.stem for path in (tmp_path / "work/cooking/shards").iterdir()}) == 4
    assert_rows_are_those_of(finished, project, some, "cooking", "cooking/whole")
    clips.write_scene(tmp_path / "videos/new.mp4", scene(30, 48, 64, seed=9), Fraction(25))
    with (tmp_path / "captions.csv").open("a", newline="") as file:
        csv.writer(file).writerow([0.0, 1.0, 1, "serve", "new"])
    remade = {name for name in project.rerun(*BOTH) if any(f"/{perturbed}/" in name for perturbed in some)}
    assert len(remade) == 2 * len(some)  # the video and its clip
    assert_rows_are_those_of(finished, project, some, "cooking")


def assert_rows_are_those_of(finished: Project, project: Project, perturbations: list[str], *collections: str) -> None:
    names = ["item_id", "perturbation", "recipe_id", "frames_sha256", "sha256", "cut"]
    for collection in collections:
        old, new = (rows(folder, collection) for folder in (finished, project))
        old = old[old.perturbation.isin(perturbations)]
        new = new[new.item_id.isin(old.item_id)]
        pd.testing.assert_frame_equal(new[names].reset_index(drop=True), old[names].reset_index(drop=True))


def test_a_video_that_is_damaged_after_a_clip_takes_that_clip_with_it(tmp_path: Path) -> None:
    """The clip decodes; the video, whose draws it has, does not."""
    project = new_project(tmp_path, max_failed_items=9)
    project.config["suites"]["msrvtt_p"] = {"perturbations": ["freeze"], "severities": [2]}
    sound = clips.make(tmp_path / "sound.mp4", *clips.X264_B, frames=75)
    clips.overwritten(sound, tmp_path / "videos/one.mp4", 0.7, 0.8)
    project.snakemake(*BOTH)
    table = rows(project).set_index("item_id")
    assert table.loc["one_0_1", "status"] == "quarantined"
    assert "its whole video cannot be used" in table.loc["one_0_1", "error"]
    assert table.loc["two words_0.4_0.9", "status"] == "complete"


def test_only_suites_of_whole_videos_cut_them() -> None:
    dataset = {"adapter": "youcook2", "annotations": "a.csv", "videos": "v"}
    parsed = config_file.parse(
        {"datasets": {"y": dataset}, "suites": {"msrvtt_p": {}, "mm_robustness": {}, "mlvp": {}}}
    )
    assert recipe.from_config(parsed, "y", "msrvtt_p", "freeze", 1).whole_videos
    assert not recipe.from_config(parsed, sharding.whole("y"), "msrvtt_p", "freeze", 1).whole_videos
    assert not recipe.from_config(parsed, "y", "mm_robustness", "fog", 1).whole_videos
    assert not recipe.from_config(parsed, "y", "mlvp", "fog", 1).whole_videos
    plain = config_file.parse({"datasets": {"d": clips.DATASET}, "suites": {"msrvtt_p": {}}})
    assert not recipe.from_config(plain, "d", "msrvtt_p", "freeze", 1).whole_videos


# --- plans in little memory ------------------------------------------------------------------------------------------

GOP = ("-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "12", "-pix_fmt", "yuv420p")
TEMPORAL = [entry for entry in suite_registry.perturbations("msrvtt_p", "video") if entry.method == "temporal"]


@pytest.fixture(scope="module")
def long_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clips.make(tmp_path_factory.mktemp("long") / "long.mp4", *GOP, frames=200)


def assert_rendered(
    wanted: recipe.VideoRecipe, source: CleanClip, expected: list[Image], only: set[int] | None
) -> None:
    frames = list(rendering.planned_clip(wanted, source).frames(only=only))
    assert [frame.position for frame in frames] == sorted(range(len(expected)) if only is None else only)
    assert all(np.array_equal(expected[frame.position], frame.image) for frame in frames)


@pytest.mark.parametrize("held", [1, 7, 40])
@pytest.mark.parametrize("entry", TEMPORAL, ids=lambda entry: entry.name)
def test_memory_changes_no_frame(
    entry: suite_registry.Perturbation, held: int, long_clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few frames held: what goes back and forth, and what goes through a scratch file."""
    source = source_of(clips.source_row(long_clip))
    wanted = recipe.make(entry, 2, variant="paper", seed=1, storage=tiers.UNSTORED)
    expected = [frame.image for frame in rendering.planned_clip(wanted, source).frames()]
    monkeypatch.setattr(frame_orders, "_HELD_BYTES", held * source.height * source.width * 3)
    monkeypatch.setattr(frame_orders, "_KEY_FRAMES", 12)
    assert_rendered(wanted, source, expected, None)
    assert_rendered(wanted, source, expected, {3, 50, 199})


@settings(max_examples=20)
@given(plan=st.lists(st.integers(-30, 199), min_size=1, max_size=30), held=st.integers(1, 9))
def test_a_plan_may_mix_two_clips_in_any_order(long_clip: Path, plan: list[int], held: int) -> None:
    source = source_of(clips.source_row(long_clip))
    images = clips.images(long_clip)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_orders, "_HELD_BYTES", held * source.height * source.width * 3)
        for only in (None, set(range(0, len(plan), 2))):
            frames = list(frame_orders.arranged(plan, source, lambda: source.clip, only, lambda: None))
            assert [frame.position for frame in frames] == sorted(only or range(len(plan)))
            for frame in frames:
                position = plan[frame.position]
                assert np.array_equal(frame.image, images[max(position, ~position)])


def test_a_scattered_plan_decodes_its_video_once(long_clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(clips.source_row(long_clip))
    wanted = recipe.make(suite_registry.get("msrvtt_p/box_jumble"), 1, seed=1, storage=tiers.UNSTORED)
    monkeypatch.setattr(frame_orders, "_HELD_BYTES", 7 * source.height * source.width * 3)
    decoded = []
    decode = decoding.decode

    def counted(clip: MediaClip, **options: Any) -> Any:
        for frame in decode(clip, **options):
            decoded.append(frame.position)
            yield frame

    monkeypatch.setattr(decoding, "decode", counted)
    assert len(list(rendering.planned_clip(wanted, source).frames())) == 200
    assert decoded == list(range(200))


def test_clips_of_one_video_share_what_was_made_of_it(
    long_clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = recipe.make(suite_registry.get("msrvtt_p/mpeg2"), 1, seed=0, storage=tiers.UNSTORED, whole_videos=True)
    encoded = []
    encode = encoding.encode_with_ffmpeg
    monkeypatch.setattr(
        encoding, "encode_with_ffmpeg", lambda *args, **kept: encoded.append(1) or encode(*args, **kept)
    )
    whole = source_of(clips.source_row(long_clip))
    for first in (0, 31, 150):
        cut = Cut(video_id="it", first=first, num_frames=200)
        clip = MediaClip(long_clip, first / 25, (first + 20) / 25)
        source = replace(whole, clip=clip, num_frames=20, cut=cut, scratch=tmp_path)
        assert len(list(rendering.planned_clip(wanted, source).frames())) == 20
    assert len(encoded) == 1
    assert len(list(tmp_path.iterdir())) == 1


@settings(max_examples=20)
@given(st.lists(st.integers(0, 199), min_size=1, max_size=12))
def test_frames_are_found_by_their_times(long_clip: Path, positions: list[int]) -> None:
    frames = clips.images(long_clip)
    times = decoding.frame_times(MediaClip(long_clip), 200)
    assert times == pytest.approx([index / 25 for index in range(200)])
    for position in positions:
        assert np.array_equal(clips.images(long_clip, start_s=times[position])[0], frames[position])


@pytest.mark.parametrize("suffix", [".mkv", ".avi", ".mov", ".webm"])
def test_times_are_those_of_decoding(suffix: str, tmp_path: Path) -> None:
    """Also where packets do not tell them: then the clip is decoded."""
    path = clips.make(tmp_path / f"clip{suffix}", *(clips.VP9 if suffix == ".webm" else clips.X264_B), frames=30)
    assert decoding.frame_times(MediaClip(path), 30) == pytest.approx(
        [float(time) for time in clips.times(path)], abs=1e-6
    )
    part = MediaClip(path, 0.4, 0.8)
    inside = clips.times(path, start_s=0.4, end_s=0.8)
    assert decoding.frame_times(part, len(inside)) == pytest.approx([0.4 + float(time) for time in inside], abs=2e-3)


def test_a_clip_that_is_not_in_its_video_is_said_so(long_clip: Path) -> None:
    row = replace(clips.source_row(long_clip), start_s=1.0, end_s=2.0)
    with pytest.raises(MediaError, match="25 frames in the clip's span, the clip has 200"):
        cut_of(row, source_of(clips.source_row(long_clip)))


def test_clips_of_one_video_stand_in_one_shard() -> None:
    items = [(f"v{index % 7}", f"v{index % 7}_{index}") for index in range(70)]
    shards = sharding.shards_of(items, 20, lambda item: item[1], lambda item: item[0])
    homes = {
        video: {name for name, members in shards.items() if any(item[0] == video for item in members)}
        for video, _ in items
    }
    assert all(len(home) == 1 for home in homes.values())
    assert sum(map(len, shards.values())) == 70
    # A video with more clips than fit is split all the same.
    small = sharding.shards_of(items, 3, lambda item: item[1], lambda item: item[0])
    assert sorted(item for members in small.values() for item in members) == sorted(items)
    assert all(len(members) <= 3 for members in small.values())


def test_the_real_lists_count_as_published(reference: Path, tmp_path: Path) -> None:
    """1,000 x 90 videos; 436 videos and 3,350 clips x 90, as the CSV lists them."""
    with (reference / "data/youcook2/validation_youcook.csv").open() as file:
        cooking = {row["video_id"] for row in csv.DictReader(file)}
    with (reference / "data/msrvtt/MSRVTT_JSFUSION_test.csv").open() as file:
        talking = {row["video_id"] for row in csv.DictReader(file)}
    for folder, names in (("cooking", cooking), ("talking", talking)):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / f"{name}.mp4").write_bytes(b"a video")
    lists = {
        "msrvtt": ("data/msrvtt/MSRVTT_JSFUSION_test.csv", "talking"),
        "youcook2": ("data/youcook2/validation_youcook.csv", "cooking"),
    }
    datasets = {
        name: {"adapter": name, "annotations": str(reference / path), "videos": videos}
        for name, (path, videos) in lists.items()
    }
    project = Project(tmp_path, {"datasets": datasets, "suites": {"msrvtt_p": {}}})
    output = project.snakemake("msrvtt_p", "youcook2_p", "--dry-run").stderr
    assert "msrvtt_p on msrvtt: 1,000 videos x 90 = 90,000 videos" in output
    assert "3,350 clips x 90 = 301,500 clips, cut from 436 videos x 90 = 39,240 videos" in output
    more = [f"more{index}" for index in range(21)]
    (tmp_path / "val_list.txt").write_text("".join(f"101/{name}\n" for name in [*sorted(cooking), *more]))
    project.config["datasets"]["youcook2"]["ids"] = "val_list.txt"
    output = project.snakemake("youcook2_p", "--dry-run").stderr
    assert "301,500 clips, cut from 457 videos x 90 = 41,130 videos" in output
    assert not {name for name in more if name in (tmp_path / "work/youcook2/lists/captions.jsonl").read_text()}
