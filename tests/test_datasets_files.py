"""Files of annotations that are malformed, large or of another kind, and the look for their videos."""

from __future__ import annotations

import json
import os
import string
import tracemalloc
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looping import each
from test_datasets import WRITERS, dataset

from perturbations.base.errors import AnnotationError, ConfigError
from perturbations.datasets import listing as listings
from perturbations.datasets import parsing
from perturbations.datasets.registry import Dataset
from perturbations.plan import items as reading


def folder_dataset(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> Dataset:
    return dataset(folder, "folder", json.dumps(rows), "captions.json", **keys)


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
    assert not [reason for reason in reasons.values() if str(tmp_path) in reason]  # reasons are published


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
    assert [(entry.item.item_id, entry.bytes) for entry in matches] == [(names[0], 1), (names[1], 2)]
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
    config = Dataset(adapter="folder", annotations=path, videos=tmp_path)
    for column in (repeated, pa.ListArray.from_arrays(pa.array(range(len(ids) + 1), pa.int32()), repeated)):
        pq.write_table(pa.table({"item_id": ids, "caption": column}), path)
        tracemalloc.start()
        try:
            assert len(reading.read("d", config).items) == len(ids)
            assert tracemalloc.get_traced_memory()[1] < 20_000_000
        finally:
            tracemalloc.stop()
    pq.write_table(pa.table({"item_id": ["a"], "caption": pa.array([[["c"] * 9]])}), path)
    with pytest.raises(AnnotationError, match="the column 'caption' holds list<.*list<.*not texts"):
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
