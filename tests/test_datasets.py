"""Adapters: annotation files become items, and every entry is accounted for."""

from __future__ import annotations

import json
import os
import string
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looping import each

from perturbations.base.errors import AnnotationError, ConfigError
from perturbations.datasets import listing as listings
from perturbations.datasets import lsmdc, parsing
from perturbations.datasets.listing import Rejected
from perturbations.datasets.registry import Dataset
from perturbations.plan import items as reading


def dataset(folder: Path, adapter: str, annotations: str | bytes, name: str, **keys: Any) -> Dataset:
    path = folder / name
    path.write_bytes(annotations if isinstance(annotations, bytes) else annotations.encode())
    (folder / "videos").mkdir(exist_ok=True)
    return Dataset(adapter=adapter, annotations=path, videos=folder / "videos", **keys)


def folder_dataset(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> Dataset:
    return dataset(folder, "folder", json.dumps(rows), "captions.json", **keys)


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


WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "csv": lambda table, path: table.to_csv(path, index=False),
    "tsv": lambda table, path: table.to_csv(path, index=False, sep="\t"),
    "json": lambda table, path: table.to_json(path, orient="records"),
    "jsonl": lambda table, path: table.to_json(path, orient="records", lines=True),
    "parquet": lambda table, path: table.to_parquet(path),
}


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
        ("activitynet", "a.jsonl", LINE + '{"clip_id":"u","clip_id":"v","text":"x"}', "v", "the key 'clip_id' twice"),
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
        *(
            ("folder", "a.json", after_good(caption="c", file=file), "v", "its path leaves the videos directory")
            for file in ("../outside", "/etc/passwd", "a/../../b", "..", "nul\0", ".")
        ),
        ("folder", "a.json", after_good(item_id="good", caption="b"), "good", "names another video or span"),
        ("folder", "a.json", after_good(caption="c", end=0), "v", "ends at 0 s"),
        ("folder", "a.json", after_good(end=1), "v", "no 'caption'"),
        ("folder", "a.json", json.dumps([GOOD])[:-1] + ',{"item_id":"v","caption":"","caption":"c"}]', "v", "twice"),
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
    assert [(entry.item.item_id, Path(entry.path).name) for entry in matches] == [("x.mp4", "x.mp4"), ("y", "y.mp4")]
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


# --- what is wrong with a file -----------------------------------------------------------------------------------


@each(
    ("adapter", "name", "content", "message"),
    [
        ("msrvtt", "a.csv", b"", "is empty"),
        ("msrvtt", "a.csv", b"  \n", "is empty"),
        ("msrvtt", "a.csv", b"\xff\xfe\x00", "not a UTF-8 text file"),
        ("msrvtt", "a.csv", b"key,video_id,sentence\n1,v,\xff\n", "not a UTF-8 text file: line 2"),
        ("msrvtt", "a.csv", b"key,video_id,sentence,key\n1,v,x,1\n", "has the column 'key' twice"),
        ("folder", "a.json", b"[" * 200_000, "is not JSON"),
        ("msrvtt", "a.csv", b"key,sentence\n1,2\n", "no column 'video_id'"),
        ("msrvtt", "a.csv", b'key,video_id,sentence\n1,v,"open\n', "line 2"),
        ("msrvtt", "a.csv", b"key,video_id,sentence\n", "lists no item"),
        ("activitynet", "a.jsonl", b'{"clip_id": "a", "text": "b"}\n{"clip_id": "c", "te', "line 2"),
        ("activitynet", "a.jsonl", b'{"clip": "a", "text": "b"}\n', "line 1: no 'clip_id'"),
        ("didemo", "a.json", b'{"video": 1}', "must be a list"),
        ("didemo", "a.json", b"[1]", "entry 0"),
        ("lsmdc", "a.csv", b"a\tb\tc\n", "line 1: 3 fields"),
        ("youcook2", "a.json", b"{}", "no object 'database'"),
        ("youcook2", "a.json", b'{"database": {"v": 1}}', "database.v: no list 'annotations'"),
        ("msvd", "a.json", b'{"v": ["x"], "v": ["y"]}', "an object has the key 'v' twice"),
        ("youcook2", "a.json", b'{"database": {"v": {"annotations": [], "annotations": []}}}', "'annotations' twice"),
        ("folder", "a.txt", b"x", ".parquet file"),
        ("folder", "a.parquet", b"x" * 100, "not a Parquet file"),
        ("folder", "a.json", b'[{"item_id": "x"}]', "entry 0: no 'caption'"),
        ("folder", "a.json", b'{"item_id": "x", "caption": "y"}\n' * 2, "JSON lines have the extension .jsonl"),
        ("folder", "a.csv", b"item_id;caption\nx;y\n", "['item_id;caption'], in which ';' separates the fields"),
        ("folder", "a.csv", b"item_id\tcaption\nx\ty\n", "in which '\\t' separates the fields"),
        ("folder", "a.csv", "item_id,caption\nx,y\n".encode("utf-16"), "byte 0; it is UTF-16: save it as UTF-8"),
    ],
)
def test_a_malformed_file_says_where(tmp_path: Path, adapter: str, name: str, content: bytes, message: str) -> None:
    config = dataset(tmp_path, adapter, content, name)
    with pytest.raises(AnnotationError, match=r"a\.") as caught:
        reading.read("d", config)
    assert message in str(caught.value)


def test_several_wrong_lines_are_told_at_once(tmp_path: Path) -> None:
    config = dataset(tmp_path, "activitynet", "x\n" * 30, "a.jsonl")
    with pytest.raises(AnnotationError) as caught:
        reading.read("d", config)
    assert str(caught.value).count("\n  line") == 10
    assert "and 20 more" in str(caught.value)


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
    assert [(entry.item.item_id, entry.bytes) for entry in matches] == [("there", 5), ("link", 5), ("deep/er", 1)]
    reasons = {entry.item_id: entry.reason for entry in missing}
    assert reasons["gone"].startswith("missing: no gone.mp4 or gone.mkv")
    assert "folder.mp4 is a directory, not a regular file" in reasons["folder"]
    assert "pipe.mp4 is a pipe, not a regular file" in reasons["pipe"]
    assert "cannot be read" in reasons["loop"]
    assert reasons["broken"].endswith("broken.mp4 is a broken symbolic link")


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


# --- files that are large, deep, or of another kind -------------------------------------------------------------------


MEGABYTES = "x" * 3_000_000
OF_GARBAGE = 2_000_000


@each(
    ("adapter", "name", "content"),
    [
        ("msrvtt", "a.csv", MEGABYTES),
        ("msrvtt", "a.csv", "key,video_id," + MEGABYTES + "\n1,2,3\n"),
        ("msrvtt", "a.csv", 'key,video_id,sentence\n1,v,"' + MEGABYTES),
        ("msrvtt", "a.csv", "key,video_id,sentence\n1,v" + MEGABYTES),
        ("activitynet", "a.jsonl", MEGABYTES),
        ("activitynet", "a.jsonl", f'{{"clip_id": "v", "{MEGABYTES}": 1}}'),
        ("activitynet", "a.jsonl", "x\n" * OF_GARBAGE),
        ("activitynet", "a.jsonl", "0\n" * OF_GARBAGE),
        ("activitynet", "a.jsonl", "[" * OF_GARBAGE),
        ("lsmdc", "a.csv", MEGABYTES + "\tx"),
        ("didemo", "a.json", '"' + MEGABYTES + '"'),
        ("didemo", "a.json", '[{"' + MEGABYTES + '": 1}]'),
        ("didemo", "a.json", '{"a":' * 200_000),
        ("didemo", "a.json", "[" + "9" * 5000 + "]"),
        ("youcook2", "a.json", f'{{"database": {{"{MEGABYTES}": 1}}}}'),
        ("folder", "a.tsv", MEGABYTES),
        ("folder", "a.parquet", "PAR1" + MEGABYTES + "PAR1"),
        ("folder", "a.csv", b"PAR1" + bytes(range(256)) * 4000 + b"PAR1"),
        ("folder", "a.csv", b"\0" * 100_000),
        ("folder", "a.json", b"\0" * 100_000),
        ("folder", "a.csv", b"\x80\x04\x95" + b"c\nos\nsystem\n" * 1000),
        ("folder", "a.csv", "cos\nsystem\n(S'id'\ntR."),
    ],
)
def test_garbage_is_a_short_error_that_names_the_file(
    tmp_path: Path, adapter: str, name: str, content: str | bytes
) -> None:
    config = dataset(tmp_path, adapter, content, name)
    with pytest.raises(AnnotationError) as caught:
        reading.read("d", config)
    assert str(tmp_path / name) in str(caught.value)
    assert len(str(caught.value)) < 3000


def test_a_file_of_lines_of_another_kind_is_not_read_to_its_end(tmp_path: Path) -> None:
    config = dataset(tmp_path, "lsmdc", "x\n" * OF_GARBAGE, "a.csv")
    with pytest.raises(AnnotationError, match="is of another format:\n  line 1: 1 fields") as caught:
        reading.read("d", config)
    assert str(caught.value).endswith("and 99991 more")


def test_a_file_with_too_many_entries_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "_MOST_REJECTED", 3)
    rows = [{"item_id": "a", "caption": "c"}] * 6
    with pytest.raises(AnnotationError, match="more than 3 entries that cannot be used, the last: duplicate"):
        reading.read("d", folder_dataset(tmp_path, rows))


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl", "parquet"])
def test_a_caption_or_an_id_of_megabytes_is_rejected(tmp_path: Path, kind: str) -> None:
    rows = [
        ("good", "c"),
        ("long", "c" * 10_000_000),
        (MEGABYTES, "c"),
        ("good", "d" * 100_001),
        ("fits", "e" * 100_000),
    ]
    path = tmp_path / f"a.{kind}"
    WRITERS[kind](pd.DataFrame(rows, columns=["item_id", "caption"]), path)
    listing = reading.read("d", Dataset(adapter="folder", annotations=path, videos=tmp_path))
    assert [item.item_id for item in listing.items] == ["good", "fits"]
    reasons = [entry.reason.partition(" (")[0] for entry in listing.rejected]
    assert reasons == [
        "a caption has 10,000,000 characters, more than 100,000",
        "its id has 3,000,000 characters, more than 1,000",
        "a caption has 100,001 characters, more than 100,000",
    ]
    assert all(len(entry.item_id) < 1100 for entry in listing.rejected)


def test_a_small_parquet_table_takes_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    ids = [str(number) for number in range(1000)]
    repeated = pa.array(["c" * 90_000]).take(pa.array([0] * len(ids)))
    pq.write_table(pa.table({"item_id": ids, "caption": repeated}), path)
    config = Dataset(adapter="folder", annotations=path, videos=tmp_path)
    tracemalloc.start()
    try:
        assert len(reading.read("d", config).items) == len(ids)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    pq.write_table(pa.table({"item_id": ["a"], "caption": pa.array([["c"] * 9])}), path)
    with pytest.raises(AnnotationError, match="the column 'caption' holds list<.*not texts"):
        reading.read("d", config)
    monkeypatch.setattr(parsing, "_LEAST_TABLE_BYTES", 100_000)
    pq.write_table(pa.table({"item_id": ["a"], "caption": ["c" * 10**6]}), path, compression="zstd")
    with pytest.raises(AnnotationError, match="which no table of captions does"):
        reading.read("d", config)


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
