"""Items to shards, and their list files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from manifest_rows import filled

from perturbations.base import storage
from perturbations.config import file as config_file
from perturbations.config import sections as config
from perturbations.corpus.plan import clip_lists, sharding
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.manifest import files
from perturbations.manifest.rows import SOURCES, CaptionRow, SourceRow

ids = st.lists(st.text(max_size=6), unique=True, max_size=40)


def split(names: list[str], shard_size: int) -> dict[str, list[str]]:
    return sharding.shards_of(names, shard_size, lambda name: name, lambda name: name)


@given(names=ids.filter(bool), shard_size=st.integers(1, 9))
@example(names=[str(number) for number in range(3000)], shard_size=2)
def test_a_new_item_changes_only_the_shard_it_falls_in(names: list[str], shard_size: int) -> None:
    *before, new = names
    old, now = split(before, shard_size), split(names, shard_size)
    changed = {name for name in now if old.get(name) != now[name]}
    gone = {item for name in set(old) - set(now) for item in old[name]}
    moved = {item for name in changed for item in now[name]} - {new}
    assert all(members == sorted(members) for members in now.values())
    # The new item and its shard's old members: nothing else gets another list.
    assert any(new in now[name] for name in changed)
    assert len(moved) <= shard_size
    assert gone <= moved


def test_a_shards_name_is_a_plain_file_name_and_one_id_too_often_an_error() -> None:
    with pytest.raises(ValueError, match="more than 2 items have the id 'a'"):
        split(["a", "a", "a"], 2)
    for name in split([str(index) for index in range(200)], 3):
        assert name.isalnum()
        assert len(name) < 20


def project(root: Path, names: list[str], rows: list[dict[str, Any]] | None = None) -> config.Config:
    """A dataset of these clips; without rows of captions each has one, and so has a clip that is gone."""
    (root / "videos").mkdir(exist_ok=True)
    for name in names:
        if not (root / "videos" / f"{name}.mp4").exists():
            (root / "videos" / f"{name}.mp4").write_bytes(b"x")
    rows = rows or [{"item_id": name, "caption": "c\u2028d"} for name in [*names, "gone"]]
    (root / "captions.json").write_text(json.dumps(rows))
    raw: dict[str, Any] = {"adapter": "folder", "annotations": root / "captions.json", "videos": root / "videos"}
    return config_file.parse({"datasets": {"d": raw}, "suites": {"mlvp": {}}, "shard_size": 2}, place=root)


def clips_of(root: Path, plan: sharding.DatasetPlan) -> list[str]:
    """The items of all shards' lists, sorted."""
    lists = [clip_lists.read(clip_lists.list_in(root / "shards", shard), ListedClip) for shard in plan.shards]
    return sorted(clip.item_id for members in lists for clip in members)


def test_list_files_are_written_once_and_stale_ones_removed(tmp_path: Path) -> None:
    root = tmp_path / "work/d"
    plan = sharding.plan_clips(project(tmp_path, ["a", "b", "c", "new\nline"]), "d")
    files = {path.stem: path.stat().st_mtime_ns for path in (root / "shards").iterdir()}
    assert sorted(files) == sorted(plan.shards)
    assert plan.listed == 5
    assert clips_of(root, plan) == ["a", "b", "c", "new\nline"]
    assert [line.item_id for line in clip_lists.read(root / "lists/rejected.jsonl", SourceRow)] == ["gone"]
    assert clip_lists.read(root / "lists/captions.jsonl", CaptionRow)[0].text == "c\u2028d"

    sharding.plan_clips(project(tmp_path, ["a", "b", "c", "new\nline"]), "d")
    assert {path.stem: path.stat().st_mtime_ns for path in (root / "shards").iterdir()} == files

    again = sharding.plan_clips(project(tmp_path, ["a"]), "d")
    assert {path.stem for path in (root / "shards").iterdir()} == set(again.shards)


NAN = float("nan")
ROWS: list[dict[str, Any]] = [
    {"item_id": "a", "caption": "first"},
    {"item_id": "a", "caption": "first"},
    {"item_id": "a", "caption": " "},
    {"item_id": "a", "caption": "second"},
    {"item_id": "b", "caption": None},
    {"item_id": "c", "caption": NAN},
    {"item_id": "d", "caption": 3},
    {"item_id": "e", "caption": {"x": 1}},
    {"item_id": "", "caption": "no id"},
    {"item_id": "", "caption": "no id either"},
    {"item_id": "f", "caption": "x" * 100_001},
]


def test_every_listed_caption_is_usable_or_rejected_with_a_reason(tmp_path: Path) -> None:
    settings = project(tmp_path, list("abcdef"), ROWS)
    root = tmp_path / "work/d"
    plan = sharding.plan_clips(settings, "d")
    usable = clip_lists.read(root / "lists/captions.jsonl", CaptionRow)
    # The number of a caption does not depend on whether those before it can be used.
    assert [(caption.caption_id, caption.text) for caption in usable] == [("a#0", "first"), ("a#2", "second")]
    rejected = clip_lists.read(root / "rejected_captions.jsonl", SourceRow)
    assert len(usable) + len(rejected) == len(ROWS)
    assert (plan.captions, plan.rejected_captions) == (2, 9)
    assert "the caption 'a#1' is empty, null or NaN (captions.json, entry 2)" in [row.error for row in rejected]
    assert sorted((row.item_id, row.error.partition(" (captions.json, ")[0]) for row in rejected) == [
        ("", "the id is empty"),
        ("", "the id is empty"),
        ("a", "duplicate: entry 0 has the same id and caption"),
        ("a", "the caption 'a#1' is empty, null or NaN"),
        ("b", "the caption 'b#0' is empty, null or NaN"),
        ("c", "the caption 'c#0' is empty, null or NaN"),
        ("d", "'caption' must be text, not a int"),
        ("e", "'caption' must be text, not a dict"),
        ("f", "a caption has 100,001 characters, more than 100,000"),
    ]
    # A clip whose captions cannot be used is perturbed all the same; no id is there twice.
    unusable = clip_lists.read(root / "lists/rejected.jsonl", SourceRow)
    assert clips_of(root, plan) == ["a", "b", "c"]
    assert sorted(row.item_id for row in unusable) == ["", "d", "e", "f"]
    assert next(row.error for row in unusable if not row.item_id).endswith("; 1 more entries with this id")
    assert plan.listed == 7
    # Captions alone are listed in the same way.
    shard_names = sharding.plan_captions(settings, "d")
    lists = [clip_lists.read(root / "captions" / f"{shard}.jsonl", CaptionRow) for shard in shard_names]
    assert sorted(caption.caption_id for members in lists for caption in members) == ["a#0", "a#2"]
    assert clip_lists.read(root / "rejected_captions.jsonl", SourceRow) == rejected


def test_a_duplicate_key_is_a_rejected_caption_and_its_clip_stays(tmp_path: Path) -> None:
    annotations = tmp_path / "a.csv"
    annotations.write_text("key,video_id,sentence\nk0,a,one\nk0,b,two\nk1,a,three\n")
    (tmp_path / "videos").mkdir()
    for name in "ab":
        (tmp_path / "videos" / f"{name}.mp4").write_bytes(b"x")
    raw = {"adapter": "msrvtt", "annotations": annotations, "videos": tmp_path / "videos"}
    plan = sharding.plan_clips(config_file.parse({"datasets": {"d": raw}, "suites": {"mlvp": {}}}, place=tmp_path), "d")
    rejected = clip_lists.read(tmp_path / "work/d/rejected_captions.jsonl", SourceRow)
    assert [(row.item_id, row.error) for row in rejected] == [
        ("b", "duplicate caption id 'k0' (a.csv, line 3)"),
        ("a", "duplicate id, first seen at line 2 (a.csv, line 4)"),
    ]
    assert (plan.listed, plan.captions, plan.rejected_captions) == (2, 1, 2)
    assert [row.item_id for row in clip_lists.read(tmp_path / "work/d/lists/rejected.jsonl", SourceRow)] == ["b"]


def written(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in root.rglob("*.jsonl")}


CHANGES: dict[str, tuple[Callable[[Path], object], bool]] = {
    "touched": (lambda path: os.utime(path, (1, 1)), False),
    "copied": (lambda path: path.write_bytes(path.read_bytes()), False),
    "larger": (lambda path: path.write_bytes(b"longer"), True),
    "another of its size": (lambda path: path.write_bytes(b"y"), True),
    "an older one of its size": (lambda path: (path.write_bytes(b"y"), os.utime(path, (1, 1))), True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_replaced_video_changes_its_list_and_a_touched_one_does_not(change: str, tmp_path: Path) -> None:
    root, video = tmp_path / "work/d", tmp_path / "videos/a.mp4"
    config_of = project(tmp_path, ["a", "b", "c"])
    plan = sharding.plan_clips(config_of, "d")
    for shard in plan.shards:
        clips = clip_lists.read(clip_lists.list_in(root / "shards", shard), ListedClip)
        rows = [filled(SourceRow, item_id=clip.item_id, sha256=storage.sha256(clip.path)) for clip in clips]
        files.write(root / f"sources/{shard}.parquet", SOURCES, rows)
    before = written(root)
    edit, is_other = CHANGES[change]
    edit(video)
    for _ in range(2):
        sharding.plan_clips(config_of, "d")
    changed = {name for name, when in written(root).items() if before.get(name) != when}
    lines = [line for name in changed for line in clip_lists.read(root / name, ListedClip)]
    assert [(line.bytes, line.path) for line in lines if line.item_id == "a"] == [
        (video.stat().st_size, str(video)) for _ in range(is_other)
    ]
    assert len(changed) == is_other


@pytest.mark.parametrize(("items", "size"), [(1, 100), (10_000, 100), (10_001, 200), (20_000, 200), (20_001, 400)])
def test_a_larger_dataset_has_larger_shards(items: int, size: int) -> None:
    assert sharding.derived_size(items) == size
    assert items / size <= 100


def test_captions_are_listed_by_their_ids_and_written_once(tmp_path: Path) -> None:
    names = ["b", "a", "a#0", 'q"', "é", "z\x01"]
    rows = [{"item_id": name, "caption": f".{text}{name}"} for text in ("", "new\nline", "\u2028") for name in names]
    parsed, path = project(tmp_path, [], rows), tmp_path / "work/d/lists/captions.jsonl"
    sharding.plan_clips(parsed, "d")
    captions = clip_lists.read(path, CaptionRow)
    expected = [(f"{name}#{number}", name) for name in names for number in range(3)]
    assert [(caption.caption_id, caption.item_id) for caption in captions] == sorted(expected)
    content = path.read_bytes()
    os.utime(path, (1, 1))
    sharding.plan_clips(parsed, "d")
    assert path.stat().st_mtime == 1, "the same content is not written again"
    for other in (content[:-1], content + b"\n", b""):
        path.write_bytes(other)
        sharding.plan_clips(parsed, "d")
        assert path.read_bytes() == content
    shards = sharding.plan_captions(parsed, "d")
    assert list(shards) == sorted(shards)
    lists = clip_lists.read_folder(tmp_path / "work/d/captions", CaptionRow)
    assert sorted(caption.caption_id for members in lists.values() for caption in members) == sorted(dict(expected))


CAPTION = CaptionRow(dataset="d", caption_id="a#0", item_id="a", text="a dog")


def lists_of(folder: Path, *names: str) -> Path:
    """A folder of lists of one caption each."""
    for name in names:
        clip_lists.write(folder / name, [CAPTION])
    return folder


def test_what_is_being_written_is_not_read(tmp_path: Path) -> None:
    lists = lists_of(tmp_path / "captions", "s1.jsonl", "s0.jsonl", storage.temporary_path(Path("s0.jsonl")).name)
    assert clip_lists.shards(lists) == ["s0", "s1"]
    assert clip_lists.read_folder(lists, CaptionRow) == {"s0": [CAPTION], "s1": [CAPTION]}


def test_two_plans_may_remove_the_same_stale_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = lists_of(tmp_path, "s0.jsonl", "s1.jsonl")
    unlink = Path.unlink

    def second(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=True)  # the other plan was first
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", second)
    clip_lists.write_shards(lists, {"s1": [CAPTION], "s2": [CAPTION]})
    assert clip_lists.shards(lists) == ["s1", "s2"]
