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
from perturbations.datasets import adapter_registry, lsmdc
from perturbations.datasets.adapter_registry import Dataset
from perturbations.datasets.listing import Rejected
from perturbations.exports import export_columns
from perturbations.manifest import attributes


def test_didemo_joins_descriptions_in_order_and_has_1004_videos_of_one_file(reference: Path, tmp_path: Path) -> None:
    path = reference / "data/didemo/test_data.json"
    entries = json.loads(path.read_text())
    assert len(entries) == 4021
    config = Dataset(adapter="didemo", annotations=path, videos=tmp_path)
    paragraphs = {item.source_video_id: item.texts[0] for item in reading.read("didemo", config).items}
    expected: dict[str, list[str]] = {}
    for entry in entries:
        expected.setdefault(entry["video"], []).append(entry["description"].strip())
        (tmp_path / f"{os.path.splitext(entry['video'])[0]}.mp4").touch()
    assert paragraphs == {video: " ".join(sentences) for video, sentences in expected.items()}
    listing = reading.read("didemo", config)
    matches, missing = reading.locate(config, listing)
    assert len({match.path for match in matches}) == len(matches) == len(listing.items) == 1004
    assert missing == []


# --- each format -------------------------------------------------------------------------------------------------


def test_msrvtt(tmp_path: Path) -> None:
    text = 'key,vid_key,video_id,sentence\nret0,m,v1,"a ""b"", c"\nret1,m,v2,\nret2,m,v1,again\nret3,m,,no id\n'
    listing = reading.read("d", dataset(tmp_path, "msrvtt", "\ufeff" + text, "a.csv"))
    assert [(item.item_id, item.texts[0]) for item in listing.items] == [("v1", 'a "b", c'), ("v2", "")]
    assert [entry.reason for entry in listing.rejected] == [
        "duplicate id, first seen at line 2 (a.csv, line 4)",
        "the id is empty (a.csv, line 5)",
    ]


def test_msvd(tmp_path: Path) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text("b\nb\nnowhere\n\na\n")
    content = json.dumps({"a": ["one", "two"], "b": ["three"]})
    listing = reading.read("d", dataset(tmp_path, "msvd", content, "a.json", ids=ids, captions="all"))
    assert [(item.item_id, item.files, len(item.texts)) for item in listing.items] == [
        ("b", ("b.avi",), 1),
        ("a", ("a.avi",), 2),
    ]
    assert listing.rejected == (
        Rejected("b", "duplicate id, first seen at line 1 (ids.txt, line 2)"),
        Rejected("nowhere", "no list of captions in a.json (ids.txt, line 3)"),
    )


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


def test_youcook2_reads_both_of_its_files_alike(tmp_path: Path) -> None:
    table = "end,start,task,text,video_id\n60,47,226,pick,v1\n89,67.5,226,mix,v1\n9,9,1,nothing,v1\nx,1,1,odd,v2\n"
    official = {
        "v1": {
            "subset": "validation",
            "annotations": [
                {"segment": [47, 60], "sentence": "pick", "id": 0},
                {"segment": [67.5, 89], "sentence": "mix", "id": 1},
                {"segment": [9, 9], "sentence": "nothing", "id": 2},
            ],
        },
        "v2": {"subset": "validation", "annotations": [{"segment": [1], "sentence": "odd"}]},
        "v3": {"subset": "training", "annotations": [{"segment": [1, 2], "sentence": "no"}]},
    }
    of_csv = reading.read("d", dataset(tmp_path, "youcook2", table, "a.csv"))
    of_json = reading.read("d", dataset(tmp_path, "youcook2", json.dumps({"database": official}), "a.json"))
    assert of_csv.items == of_json.items
    assert [(item.item_id, item.start_s, item.end_s) for item in of_csv.items] == [
        ("v1_47_60", 47, 60),
        ("v1_67.5_89", 67.5, 89),
    ]
    assert of_csv.items[0].files == ("v1.mp4", "v1.mkv", "v1.webm")
    training = dataset(tmp_path, "youcook2", json.dumps({"database": official}), "a.json", split="training")
    assert [item.item_id for item in reading.read("d", training).items] == ["v3_1_2"]
    assert (
        [entry.item_id for entry in of_csv.rejected]
        == [entry.item_id for entry in of_json.rejected]
        == ["v1_9_9", "v2"]
    )


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


def test_texts_of_a_list_are_checked_one_by_one(tmp_path: Path) -> None:
    rows = [{"item_id": "x", "caption": ["one", 2, ["three"]]}]
    listing = reading.read("d", dataset(tmp_path, "folder", json.dumps(rows), "a.json"))
    assert listing.items[0].texts == ("one",)
    assert [entry.reason for entry in listing.rejected] == [
        f"'caption' must be text, not a {kind} (a.json, entry 0, caption {place})"
        for kind, place in (("int", 1), ("list", 2))
    ]


CAPTIONS = {"x": ["one", "two"], "y": "three"}


@pytest.mark.parametrize(
    ("adapter", "content", "keys"),
    [
        ("folder", CAPTIONS, {}),
        ("pictures", CAPTIONS, {}),
        ("folder", {"train": {"z": "four"}, "test": CAPTIONS}, {}),
        ("folder", {"test": {"z": "four"}, "val": CAPTIONS}, {"split": "val"}),
        (
            "folder",
            {key: {"said": texts, "id": 7} for key, texts in CAPTIONS.items()},
            {"columns": {"caption": "said"}},
        ),
        ("msvd", CAPTIONS, {"ids": "ids.txt", "captions": "all"}),
    ],
)
def test_ids_are_the_keys_of_their_captions(adapter: str, content: Any, keys: Any, tmp_path: Path) -> None:
    if "ids" in keys:
        (tmp_path / "ids.txt").write_text("x\ny\n")
        keys = {**keys, "ids": tmp_path / "ids.txt"}
    listing = reading.read("d", dataset(tmp_path, adapter, json.dumps(content), "a.json", **keys))
    assert {item.item_id: item.texts for item in listing.items} == {"x": ("one", "two"), "y": ("three",)}
    assert listing.rejected == ()


def test_a_caption_below_its_id_is_checked_alone(tmp_path: Path) -> None:
    content = json.dumps({"x": ["one", 2, "one"], "y": {"en": "two"}, "z": [], "../w": "four"})
    listing = reading.read("d", dataset(tmp_path, "folder", content, "a.json"))
    assert {item.item_id: item.texts for item in listing.items} == {"x": ("one",), "z": ("",)}
    assert sorted(entry.reason.split(" (")[0] for entry in listing.rejected) == [
        "'caption' must be text, not a dict",
        "'caption' must be text, not a int",
        "duplicate: id 'x', caption 0 has the same id and caption",
        "its path leaves the videos directory: '../w.mp4'",
    ]


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
    with pytest.raises(AnnotationError, match="entries below 'train', 'validate', none below 'test'"):
        reading.read(
            "d", dataset(tmp_path, adapter, json.dumps(videodatainfo("train", "validate")), "a.json", **columns)
        )


def test_the_split_names_the_key_of_its_entries(tmp_path: Path) -> None:
    rows = [{"item_id": "x", "caption": "one"}, {"item_id": "y", "caption": "two"}]
    content = json.dumps({"train": rows[:1], "test": rows[1:]})
    for keys, name in (({}, "y"), ({"split": "train"}, "x")):
        listing = reading.read("d", dataset(tmp_path, "folder", content, "a.json", **keys))
        assert [item.item_id for item in listing.items] == [name]
    for content, problem in (
        ('{"annotations": []}', "entries below 'annotations', none below 'test': the dataset's `split` says"),
        ('{"test": [], "info": {}}', "below 'info' is a dict, not a list"),
        ('{"test": [], "test": []}', "the key 'test' twice"),
        ('{"x": {"y": 1}}', "from ids to captions, .*: below 'x' is a dict, not a list"),
        (
            "3",
            "must be a list of objects, an object from ids to captions, or an object of these, one per split, not",
        ),
    ):
        with pytest.raises(AnnotationError, match=problem):
            reading.read("d", dataset(tmp_path, "folder", content, "a.json"))


# --- what is wrong with one entry --------------------------------------------------------------------------------


MSRVTT = "key,video_id,sentence\n0,good,x\n"
LINE = '{"clip_id":"good","text":"x"}\n'
YOUCOOK2 = "end,start,text,video_id\n5,1,x,good\n"
GOOD = {"item_id": "good", "caption": "c", "end": 10_000_000, "file": "good.mp4"}


def after_good(**columns: Any) -> str:
    return json.dumps([GOOD, {"item_id": "v", "end": 5, "file": "v.mp4", **columns}])


@each(
    ("adapter", "name", "content", "item_id", "reason"),
    [
        ("msrvtt", "a.csv", MSRVTT + "1,v,a man, a dog\n", "v", "4 fields, where the header has 3"),
        ("msrvtt", "a.csv", MSRVTT + "1,v\n", "v", "no 'sentence'"),
        ("msrvtt", "a.csv", MSRVTT + "0,v,y\n", "v", "duplicate caption id '0'"),
        ("activitynet", "a.jsonl", LINE + '{"clip_id":"v"}', "v", "no 'text'"),
        ("activitynet", "a.jsonl", LINE + '{"clip_id":null,"text":"x"}', "", "the id is empty"),
        ("activitynet", "a.jsonl", LINE + '{"clip_id":"v","text":[]}', "v", "'text' must be text"),
        ("activitynet", "a.jsonl", LINE + "[]", "", "an object is expected, not a list"),
        ("activitynet", "a.jsonl", LINE + '{"clip_id":"v","text":"\\ud800"}', "v", "not valid"),
        ("activitynet", "a.jsonl", LINE + '{"clip_id":"\\ud800/v","text":""}', r"\ud800/v", "not v"),
        ("lsmdc", "a.csv", "1012_good.1\t1\t2\t3\t4\tx\nv\tx\n", "v", "2 fields, not 6"),
        ("didemo", "a.json", '[{"video":"good","description":"x"},\n{"video":"v"}]', "v", "no 'description'"),
        ("youcook2", "a.csv", YOUCOOK2 + "inf,1,x,v\n", "v", "two numbers of seconds"),
        ("youcook2", "a.csv", YOUCOOK2 + "nan,1,x,v\n", "v", "two numbers of seconds"),
        ("youcook2", "a.csv", YOUCOOK2 + "5,-3,x,v\n", "v_-3_5", "starts at -3 s"),
        ("youcook2", "a.csv", YOUCOOK2 + "5,1,x,good\n", "good_1_5", "duplicate id, first seen at line 2"),
        ("folder", "a.json", after_good(caption="c", end=10**400), "v", "not in seconds"),
        ("folder", "a.json", after_good(caption="c", end=True), "v", "not in seconds"),
        *(
            ("folder", "a.json", after_good(caption="c", end=seconds), "v", "its span is not in seconds")
            for seconds in (1e300, 10_000_001, -1e300, "1e9", "nan", "-inf")
        ),
        ("folder", "a.json", after_good(caption="c", file="/x.mp4"), "v", "is not relative to the videos directory"),
        *(
            ("folder", "a.json", after_good(caption="c", file=file), "v", "its path leaves the videos directory")
            for file in ("../outside", "a/../../b", "..", "nul\0", ".")
        ),
        ("folder", "a.json", after_good(item_id="good", caption="b"), "good", "names another video or span"),
        ("folder", "a.json", after_good(caption="c", end=0), "v", "ends at 0 s"),
        ("folder", "a.json", after_good(end=1), "v", "no 'caption'"),
    ],
)
def test_one_bad_entry_is_rejected_and_the_others_stay(
    tmp_path: Path, adapter: str, name: str, content: str, item_id: str, reason: str
) -> None:
    keys = {"columns": {"end_s": "end", "video": "file"}} if adapter == "folder" else {}
    listing = reading.read("d", dataset(tmp_path, adapter, content, name, **keys))
    assert len(listing.items) == 1
    assert "good" in listing.items[0].item_id
    (rejected,) = listing.rejected
    assert rejected.item_id == item_id
    assert reason in rejected.reason
    assert f"({name}, " in rejected.reason


def test_youcook2_numbers_further_descriptions_and_needs_no_other_subsets(tmp_path: Path) -> None:
    rows = "".join(f"5,1,{text},v\n" for text in "xyzy")
    listing = reading.read("d", dataset(tmp_path, "youcook2", "end,start,text,video_id\n" + rows, "a.csv"))
    assert [item.item_id for item in listing.items] == ["v_1_5", "v_1_5_2", "v_1_5_3"]
    assert [entry.item_id for entry in listing.rejected] == ["v_1_5_2"]
    clips = [{"segment": [1, 2], "sentence": "x"}]
    database = {"t": {"subset": "testing"}, "v": {"subset": "validation", "annotations": clips}}
    listing = reading.read("d", dataset(tmp_path, "youcook2", json.dumps({"database": database}), "a.JSON"))
    assert ([item.item_id for item in listing.items], listing.rejected) == (["v_1_2"], ())


def test_didemo_twins_do_not_share_a_file(tmp_path: Path) -> None:
    rows = [{"video": video, "description": "c"} for video in ("x.mov", "x.mp4", "y.mov")]
    config = dataset(tmp_path, "didemo", json.dumps(rows), "a.json")
    for name in ("x.mp4", "y.mp4"):
        (tmp_path / "videos" / name).touch()
    matches, missing = reading.locate(config, reading.read("d", config))
    assert [(entry.item_id, Path(entry.path).name) for entry in matches] == [("x.mp4", "x.mp4"), ("y", "y.mp4")]
    assert missing == []  # one of the two files is all that a complete copy has
    (tmp_path / "videos" / "x.mov").touch()
    matches, missing = reading.locate(config, reading.read("d", config))
    assert [Path(entry.path).name for entry in matches] == ["x.mov", "x.mp4", "y.mp4"]
    for name in ("x.mov", "x.mp4"):
        (tmp_path / "videos" / name).unlink()
    assert [entry.item_id for entry in reading.locate(config, reading.read("d", config))[1]] == ["x.mov", "x.mp4"]


def test_a_table_keeps_line_ends_inside_its_fields_and_says_which_column_is_missing(tmp_path: Path) -> None:
    text = 'key,video_id,sentence\r\nr,"a\r\nb\u2028c\x85","x"\r\n'
    listing = reading.read("d", dataset(tmp_path, "msrvtt", text, "a.csv"))
    assert [item.item_id for item in listing.items] == ["a\r\nb\u2028c\x85"]
    path = tmp_path / "a.parquet"
    pd.DataFrame({"item_id": [], "text": []}).to_parquet(path)
    with pytest.raises(
        AnnotationError, match=r"a\.parquet has no column 'caption'; its header is \['item_id', 'text'\]"
    ):
        reading.read("d", Dataset(adapter="folder", annotations=path, videos=tmp_path))


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
    matches, missing = reading.locate(config, reading.read("d", config))
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
    located, missing = reading.locate(config, reading.read("d", config))
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
        reasons = [entry.reason for entry in reading.locate(config, reading.read("d", config))[1]]
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
    matches, missing = reading.locate(config, reading.read("d", config))
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
    matches, missing = reading.locate(config, reading.read("d", config))
    assert missing == []
    assert [(entry.item_id, entry.bytes) for entry in matches] == [(names[0], 1), (names[1], 2)]
    (videos / f"{listed}.mp4").write_bytes(b"123")
    (_, (rejected,)) = reading.locate(config, reading.read("d", config))
    assert rejected.reason == f"two files are called '{COMPOSED}.mp4', in two Unicode forms: rename one"


def test_an_id_in_another_unicode_form_is_no_other_item(tmp_path: Path) -> None:
    rows = [{"item_id": name, "caption": name} for name in (COMPOSED, DECOMPOSED)]
    listing = reading.read("d", folder_dataset(tmp_path, rows))
    assert [item.item_id for item in listing.items] == [COMPOSED]
    assert "duplicate id, in another Unicode form than at entry 0" in listing.rejected[0].reason


def test_a_folder_that_cannot_be_listed_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    config = folder_dataset(tmp_path, [{"item_id": "x", "caption": "c"}])
    listing = reading.read("d", config)
    monkeypatch.setattr(os, "listdir", refuse)
    (_, (rejected,)) = reading.locate(config, listing)
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
    matches, missing = reading.locate(config, listing)
    assert len(matches) + len(missing) == len(listing.items)
    for item in listing.items:
        for file in item.files:
            path = os.path.normpath(folder / "videos" / file)
            assert path.startswith(f"{folder / 'videos'}/")


def test_odd_ids_are_items_or_rejected(tmp_path: Path) -> None:
    ids = [
        "new\nline",
        "quo\"te'",
        "a/../b",
        "é\u2028",
        " ",
        "$(id)",
        "..",
        "../x",
        "/etc/passwd",
        "nul\0",
        "\ud800",
        "",
    ]
    rows = [{"item_id": name, "caption": "c", "file": f"{number}.mp4"} for number, name in enumerate(ids)]
    listing = reading.read("d", folder_dataset(tmp_path, rows, columns={"video": "file"}))
    assert [item.item_id for item in listing.items] == ids[:9]  # with a file of its own, an id may be any text
    reasons = [entry.reason for entry in listing.rejected]
    for reason, expected in zip(reasons, ("holds a NUL", "a lone surrogate", "the id is empty"), strict=True):
        assert expected in reason


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([("k", "a"), ("k", "b")], "duplicate caption id 'k'"),
        ([("", "a"), ("a#0", "b")], "duplicate caption id 'a#0'"),
        ([("a#0", "b"), ("", "a")], "duplicate caption id 'a#0'"),
        ([("a#1", "b"), ("", "a")], ""),
        ([("b", "b"), ("b#0", "a")], ""),
    ],
)
def test_caption_ids_are_unique(tmp_path: Path, rows: list[tuple[str, str]], problem: str) -> None:
    table = "key,video_id,sentence\n" + "".join(f"{key},{video},x\n" for key, video in rows)
    listing = reading.read("d", dataset(tmp_path, "msrvtt", table, "a.csv"))
    assert len({item.caption_id(number) for item in listing.items for number in range(len(item.texts))}) == len(
        listing.items
    )
    assert [problem in entry.reason for entry in listing.rejected] == ([True] if problem else [])


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


def test_a_column_that_differs_within_an_item_is_a_list_in_every_item(tmp_path: Path) -> None:
    rows = [
        {"item_id": "x", "caption": "one", "annotator": 1, "tags": {"indoor": True}},
        {"item_id": "x", "caption": "two", "annotator": 2, "tags": {"indoor": True}},
        {"item_id": "y", "caption": "three"},
    ]
    listing = reading.read("d", folder_dataset(tmp_path, rows))
    assert listing.attributes == {
        "x": {"annotator": [1, 2], "tags": {"indoor": True}},
        "y": {"annotator": [None], "tags": None},
    }


@each(
    ("header", "ids", "captions"),
    [
        ("video,label", ["a.mp4", "b"], 0),
        ("file,label", ["a.mp4", "b"], 0),
        ("item_id,label", ["a.mp4", "b"], 0),
        ("video,caption", ["a.mp4", "b"], 2),
    ],
)
def test_a_table_needs_neither_ids_nor_captions(header: str, ids: list[str], captions: int, tmp_path: Path) -> None:
    """The files' names are the ids then; a column that is usual for captions is not passed over."""
    listing = reading.read("d", dataset(tmp_path, "folder", f"{header}\na.mp4,run\nb,jump\n", "a.csv"))
    assert [item.item_id for item in listing.items] == ids
    assert [any(item.texts) for item in listing.items] == [captions > 0] * 2
    assert listing.rejected_captions() == []
    with pytest.raises(AnnotationError, match="has no column 'caption'.*columns"):
        reading.read("d", dataset(tmp_path, "folder", "item_id,sentence\na,run\n", "b.csv"))


def test_the_name_of_a_further_column_does_not_depend_on_its_row(tmp_path: Path) -> None:
    rows = [{"item_id": "x", "width": 1}, {"item_id": "y", "own_width": 2, "width": 3, "own_own_width": 4}]
    listing = reading.read("d", folder_dataset(tmp_path, rows))
    names = ("own_width", "own_own_width", "own_own_own_width")
    assert [[listing.attributes[item][name] for name in names] for item in "xy"] == [[1, None, None], [3, 2, 4]]


def test_a_rejected_row_says_nothing_of_its_item(tmp_path: Path) -> None:
    rows = [{"item_id": "x", "video": "a", "label": 1}, {"item_id": "x", "video": "b", "label": 2}]
    listing = reading.read("d", folder_dataset(tmp_path, rows, columns={"video": "video"}))
    assert listing.attributes == {"x": {"label": 1}}
    assert "names another video" in listing.rejected[0].reason


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
