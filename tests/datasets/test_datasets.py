"""Adapters: annotation files become items, and every entry is accounted for."""

from __future__ import annotations

import json
import os
import re
import string
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from annotation_files import WRITERS, dataset, folder_dataset, videodatainfo
from hypothesis import given
from hypothesis import strategies as st
from looping import each

from perturbations.base.errors import AnnotationError, ConfigError
from perturbations.corpus.plan import items as reading
from perturbations.corpus.plan import video_files
from perturbations.datasets import adapter_registry, lsmdc
from perturbations.datasets.adapter_registry import Dataset
from perturbations.exports import export_columns
from perturbations.manifest import attributes


def test_didemo_joins_descriptions_in_order_and_has_1004_videos_of_one_file(reference: Path, tmp_path: Path) -> None:
    path = reference / "data/didemo/test_data.json"
    entries = json.loads(path.read_text())
    assert len(entries) == 4021
    config = adapter_registry.get("didemo").settings(adapter="didemo", annotations=path, videos=tmp_path)
    paragraphs = {item.source_video_id: item.texts[0] for item in reading.read("didemo", config).items}
    expected: dict[str, list[str]] = {}
    for entry in entries:
        expected.setdefault(entry["video"], []).append(entry["description"].strip())
        (tmp_path / f"{os.path.splitext(entry['video'])[0]}.mp4").touch()
    assert paragraphs == {video: " ".join(sentences) for video, sentences in expected.items()}
    listing = reading.read("didemo", config)
    matches, missing = video_files.locate(config, listing)
    assert len({match.path for match in matches}) == len(matches) == len(listing.items) == 1004
    assert missing == []


# --- each format -------------------------------------------------------------------------------------------------


def test_lsmdc_leaves_out_the_clip_that_everybody_leaves_out(tmp_path: Path) -> None:
    names = [f"1012_Film_00.{minute:02}.{second:02}.100-00.05.21.941" for minute in range(37) for second in range(27)]
    rows = [f'{name}\t1\t2\t3\t4\tSOMEONE says "well".' for name in names]
    rows.append(f"{lsmdc.LEFT_OUT}\t1\t2\t3\t4\tA sentence.")
    assert len(rows) == 1000
    listing = reading.read("d", dataset(tmp_path, "lsmdc", "\n".join(rows) + "\n", "a.csv"))
    assert len(listing.items) == 999
    assert listing.rejected == ()  # a complete copy has no failure
    assert listing.items[0].files == (f"1012_Film/{names[0]}.avi",)
    assert listing.items[0].texts[0] == 'SOMEONE says "well".'


@pytest.mark.parametrize("kind", WRITERS)
def test_folder_reads_every_kind_of_table(tmp_path: Path, kind: str) -> None:
    rows = [
        ("x", "x.mov", "one", None, None),
        ("x", "x.mov", 'two, "three"', None, None),
        ("y", "sub/y.mkv", "fünf", 1.5, 2.0),
        ("x", "x.mov", "one", None, None),
    ]
    path = tmp_path / f"captions.{kind}"
    WRITERS[kind](pd.DataFrame(rows, columns=["name", "file", "said", "from", "to"]), path)
    columns = {"item_id": "name", "video": "file", "caption": "said", "start_s": "from", "end_s": "to"}
    config = Dataset(adapter="folder", annotations=path, videos=tmp_path, columns=columns)
    listing = reading.read("d", config)
    assert [(item.item_id, item.files, item.start_s, item.end_s) for item in listing.items] == [
        ("x", ("x.mov",), None, None),
        ("y", ("sub/y.mkv",), 1.5, 2.0),
    ]
    assert listing.items[0].texts == ("one", 'two, "three"')
    (rejected,) = listing.rejected
    assert "duplicate" in rejected.reason


@pytest.mark.parametrize("kind", ["json", "jsonl", "parquet"])
def test_a_list_holds_several_captions_of_an_item(tmp_path: Path, kind: str) -> None:
    rows = [("x", ["one", "two "]), ("y", ["three"]), ("z", []), ("x", ["one", "four"])]
    path = tmp_path / f"captions.{kind}"
    WRITERS[kind](pd.DataFrame(rows, columns=["item_id", "caption"]), path)
    listing = reading.read("d", Dataset(adapter="folder", annotations=path, videos=tmp_path))
    texts = {item.item_id: item.texts for item in listing.items}
    assert texts == {"x": ("one", "two", "four"), "y": ("three",), "z": ("",)}
    (rejected,) = listing.rejected
    assert re.search(r"duplicate: .*, caption 0 has the same id and caption \(.*, caption 0\)", rejected.reason)


def test_numbers_are_ids_also_where_a_gap_made_them_floats(tmp_path: Path) -> None:
    pd.DataFrame({"item_id": [7, None, 8.5], "caption": ["a", "b", "c"]}).to_parquet(path := tmp_path / "a.parquet")
    listing = reading.read("d", Dataset(adapter="folder", annotations=path, videos=tmp_path))
    assert [item.item_id for item in listing.items] == ["7", "8.5"]
    assert [entry.reason for entry in listing.rejected] == ["the id is empty (a.parquet, row 1)"]


@pytest.mark.parametrize("info", [{}, {"info": {"year": "2016"}}])
@pytest.mark.parametrize(("adapter", "columns"), [("msrvtt", {}), ("folder", {"columns": {"item_id": "video_id"}})])
def test_msrvtts_official_json_has_its_sentences_by_the_splits_of_their_videos(
    adapter: str, columns: Any, info: Any, tmp_path: Path
) -> None:
    for splits, key, names in (
        (("test", "test"), None, ["video0", "video1"]),
        (("train", "validate", "test"), None, ["video2"]),
        (("train", "validate"), "validate", ["video1"]),
        ((None, None), None, ["video0", "video1"]),
    ):
        content = json.dumps(info | videodatainfo(*splits))
        config = dataset(tmp_path, adapter, content, "a.json", **({"split": key} if key else {}), **columns)
        listing = reading.read("d", config)
        texts = {name: (f"a {name[-1]}", f"b {name[-1]}") for name in names}
        assert {item.item_id: item.texts for item in listing.items} == texts
        assert all((item.start_s, item.files[0]) == (None, f"{item.item_id}.mp4") for item in listing.items)
        assert adapter_registry.split_of(config) == (key or "test")
    damaged = info | videodatainfo("test", "train")
    damaged["sentences"] += [None, {"caption": "of no video"}]
    listing = reading.read("d", dataset(tmp_path, adapter, json.dumps(damaged), "a.json", **columns))
    assert [item.item_id for item in listing.items] == ["video0"]
    assert len(listing.rejected) == 2
    with pytest.raises(AnnotationError, match="entries below 'train', 'validate', none below 'test'"):
        reading.read(
            "d", dataset(tmp_path, adapter, json.dumps(videodatainfo("train", "validate")), "a.json", **columns)
        )


# --- what is wrong with one entry --------------------------------------------------------------------------------


def test_didemo_twins_do_not_share_a_file(tmp_path: Path) -> None:
    rows = [{"video": video, "description": "c"} for video in ("x.mov", "x.mp4", "y.mov")]
    config = dataset(tmp_path, "didemo", json.dumps(rows), "a.json")
    for name in ("x.mp4", "y.mp4"):
        (tmp_path / "videos" / name).touch()
    matches, missing = video_files.locate(config, reading.read("d", config))
    assert [(entry.item_id, Path(entry.path).name) for entry in matches] == [("x.mp4", "x.mp4"), ("y", "y.mp4")]
    assert missing == []  # one of the two files is all that a complete copy has
    (tmp_path / "videos" / "x.mov").touch()
    matches, missing = video_files.locate(config, reading.read("d", config))
    assert [Path(entry.path).name for entry in matches] == ["x.mov", "x.mp4", "y.mp4"]
    for name in ("x.mov", "x.mp4"):
        (tmp_path / "videos" / name).unlink()
    assert [entry.item_id for entry in video_files.locate(config, reading.read("d", config))[1]] == ["x.mov", "x.mp4"]


# --- ids and captions, and the look for the videos --------------------------------------------------------------------


def test_subset(tmp_path: Path) -> None:
    rows = [{"item_id": name, "caption": "c"} for name in "abc"]
    listing = reading.read("d", folder_dataset(tmp_path, rows, subset=("c", "a")))
    assert [item.item_id for item in listing.items] == ["a", "c"]
    with pytest.raises(ConfigError, match=r"datasets\.d\.subset: not in the annotations: 'z'"):
        reading.read("d", folder_dataset(tmp_path, rows, subset=("a", "z")))


# --- looking for videos ------------------------------------------------------------------------------------------


def test_locate_says_what_is_there_instead(tmp_path: Path) -> None:
    names = ["there", "gone", "folder", "pipe", "loop", "broken", "link", "deep/er"]
    config = folder_dataset(tmp_path, [{"item_id": name, "caption": "c"} for name in names])
    videos = tmp_path / "videos"
    (videos / "there.mp4").write_bytes(b"12345")
    (videos / "folder.mp4").mkdir()
    os.mkfifo(videos / "pipe.mp4")
    (videos / "loop.mp4").symlink_to("loop.mp4")
    (videos / "broken.mp4").symlink_to("nowhere.mp4")
    (videos / "link.mp4").symlink_to("there.mp4")
    (videos / "deep").mkdir()
    (videos / "deep" / "er.webm").write_bytes(b"1")
    matches, missing = video_files.locate(config, reading.read("d", config))
    assert [(entry.item_id, entry.bytes) for entry in matches] == [("there", 5), ("link", 5), ("deep/er", 1)]
    reasons = {entry.item_id: entry.reason for entry in missing}
    assert reasons["gone"].startswith("missing: no gone.mp4 or gone.mkv")
    assert "folder.mp4 is a directory, not a regular file" in reasons["folder"]
    assert "pipe.mp4 is a pipe, not a regular file" in reasons["pipe"]
    assert "cannot be read" in reasons["loop"]
    assert reasons["broken"].endswith("broken.mp4 is a broken symbolic link")
    assert not [reason for reason in reasons.values() if str(tmp_path) in reason]  # reasons are published


def test_two_files_of_one_name_are_both_named(tmp_path: Path) -> None:
    config = dataset(tmp_path, "folder", json.dumps(dict.fromkeys("abc", "c") | {"d.mkv": "c"}), "a.json")
    for name in ("a.mkv", "a.mp4", "a.txt", "b.MP4", "b.mp4", "c.x.mp4", "c.webm", "c.txt", "d.mkv", "d.mp4"):
        (tmp_path / "videos" / name).touch()
    located, missing = video_files.locate(config, reading.read("d", config))
    assert [Path(clip.path).name for clip in located] == ["c.webm", "d.mkv"]
    assert [entry.reason.split(":")[0] for entry in missing] == [
        "several files may be it, a.mkv and a.mp4",
        "several files may be it, b.MP4 and b.mp4",
    ]


def test_the_adapter_of_the_other_medium_is_named(tmp_path: Path) -> None:
    rows = [{"item_id": name, "caption": "c"} for name in ("a", "b.png", "c")]
    for adapter, name, other in (("folder", "a.jpg", "pictures"), ("pictures", "a.mp4", "folder")):
        config = dataset(tmp_path, adapter, json.dumps(rows), "captions.json")
        (tmp_path / "videos" / name).touch()
        reasons = [entry.reason for entry in video_files.locate(config, reading.read("d", config))[1]]
        assert reasons[0].startswith(f"{name} is ")
        assert f"the adapter `{other}` reads" in reasons[0]
        assert reasons[-1].startswith("missing: ")
        (tmp_path / "videos" / name).unlink()


def test_the_file_read_is_the_file_looked_for_when_a_link_leads_out(tmp_path: Path) -> None:
    config = folder_dataset(
        tmp_path, [{"item_id": "link/../x", "caption": "c"}, {"item_id": "gone/../x", "caption": "c"}]
    )
    (tmp_path / "outside" / "sub").mkdir(parents=True)
    (tmp_path / "outside" / "x.mp4").write_bytes(b"outside")
    (tmp_path / "videos" / "link").symlink_to(tmp_path / "outside" / "sub")
    (tmp_path / "videos" / "x.mp4").write_bytes(b"in")
    matches, missing = video_files.locate(config, reading.read("d", config))
    assert [Path(entry.path).read_bytes() for entry in matches] == [b"in", b"in"]
    assert missing == []


COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


@each(("listed", "there"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
def test_a_file_is_found_in_either_unicode_form_of_its_name(listed: str, there: str, tmp_path: Path) -> None:
    names = [f"{listed}/{listed}", listed]
    rows = [{"item_id": name, "caption": "c"} for name in names]
    config = folder_dataset(tmp_path, rows, subset=(there, f"{there}/{there}"))
    videos = tmp_path / "videos"
    (videos / there).mkdir()
    (videos / there / f"{there}.MP4").write_bytes(b"1")
    (videos / f"{there}.mp4").write_bytes(b"12")
    matches, missing = video_files.locate(config, reading.read("d", config))
    assert missing == []
    assert [(entry.item_id, entry.bytes) for entry in matches] == [(names[0], 1), (names[1], 2)]
    (videos / f"{listed}.mp4").write_bytes(b"123")
    (_, (rejected,)) = video_files.locate(config, reading.read("d", config))
    assert rejected.reason == f"two files are called '{COMPOSED}.mp4', in two Unicode forms: rename one"


def test_a_folder_that_cannot_be_listed_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    config = folder_dataset(tmp_path, [{"item_id": "x", "caption": "c"}])
    listing = reading.read("d", config)
    monkeypatch.setattr(os, "listdir", refuse)
    (_, (rejected,)) = video_files.locate(config, listing)
    assert rejected.reason.endswith("cannot be listed: Permission denied")


odd_text = st.text(st.sampled_from("/.\\\n\0 ~$'\"") | st.sampled_from(string.printable) | st.characters(), max_size=12)


@given(rows=st.lists(st.tuples(odd_text, odd_text, odd_text), min_size=1, max_size=8))
def test_every_entry_is_accounted_for_and_none_escapes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("d")
    table = [{"item_id": name, "video": file, "caption": text} for name, file, text in rows]
    config = folder_dataset(folder, table, columns={"video": "video"})
    listing = reading.read("d", config)
    captions = sum(len(item.texts) for item in listing.items)
    assert captions + len(listing.rejected) == len(rows)
    matches, missing = video_files.locate(config, listing)
    assert len(matches) + len(missing) == len(listing.items)
    for item in listing.items:
        for file in item.files:
            path = os.path.normpath(folder / "videos" / file)
            assert path.startswith(f"{folder / 'videos'}/")


# --- further columns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WRITERS)
def test_further_columns_stay_with_their_items_in_every_kind_of_table(tmp_path: Path, kind: str) -> None:
    rows = [("x", "one", "run", "3"), ("x", "two", "run", "3"), ("y", "three", "jump", None)]
    path = tmp_path / f"captions.{kind}"
    WRITERS[kind](pd.DataFrame(rows, columns=["item_id", "caption", "label", "width"]), path)
    listing = reading.read("d", Dataset(adapter="folder", annotations=path, videos=tmp_path))
    assert listing.attributes["x"]["label"] == "run"
    assert str(listing.attributes["x"]["own_width"]).removesuffix(".0") == "3", "width is a column of manifests"
    assert listing.attributes["y"] == {"label": "jump", "own_width": None}
    assert listing.rejected == ()


NESTED = json.loads("[" * 20 + "]" * 20)


@each("value", ["\ud800", {"\ud800": 1}, "x" * 200_000, NESTED])
def test_a_further_value_that_no_manifest_can_hold_rejects_its_row_alone(value: Any, tmp_path: Path) -> None:
    rows = [{"item_id": "x", "caption": "one", "label": value}, {"item_id": "y", "caption": "two", "label": "run"}]
    listing = reading.read("d", folder_dataset(tmp_path, rows))
    assert list(listing.attributes) == [item.item_id for item in listing.items] == ["y"]
    assert [entry.item_id for entry in listing.rejected] == ["x"]


def test_columns_of_exports_are_reserved() -> None:
    own = {*export_columns.CLIP.names, *export_columns.PAIRED.names, *export_columns.CAPTION.names}
    assert own - {"id"} <= attributes.RESERVED
    assert attributes.column_name("split") == "split"
