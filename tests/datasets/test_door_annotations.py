"""The fourth door: files of annotations. A message names the file and the line, and is short."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from annotation_files import WRITERS, dataset, folder_dataset
from looping import each

from perturbations.base.errors import AnnotationError
from perturbations.corpus.plan import items as reading
from perturbations.datasets import listing as listings
from perturbations.datasets import parsing, usual_columns
from perturbations.datasets.adapter_registry import Dataset

# --- what is wrong with a file -----------------------------------------------------------------------------------


@each(
    ("name", "content", "message"),
    [
        ("a.csv", b"\xff\xfe\x00", "not a UTF-8 text file"),
        (
            "a.csv",
            b"key,video_id,sentence\n1,v,\xff\n",
            "not a UTF-8 text file: line 2, byte 26 of the file; save",
        ),
        ("a.csv", "item_id,caption\nx,y\n".encode("utf-16"), "byte 0 of the file; it is UTF-16: save it as UTF-8"),
        ("a.json", b"[" * 200_000, "is not JSON"),
        ("b.csv/a.csv", b"", "a.csv cannot be read: Is a directory; name the file in it"),
    ],
)
def test_a_malformed_file_says_where(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.mkdir(parents=True) if "/" in name else path.write_bytes(content)
    with pytest.raises(AnnotationError, match=r"a\.") as caught:
        list(parsing.rows_of(path, ()))
    assert message in str(caught.value)


def test_several_wrong_lines_are_told_at_once(tmp_path: Path) -> None:
    config = dataset(tmp_path, "activitynet", "x\n" * 30, "a.jsonl")
    with pytest.raises(AnnotationError) as caught:
        reading.read("d", config)
    assert str(caught.value).count("\n  line") == 10
    assert "and 20 more" in str(caught.value)


# --- files that are large, deep, or of another kind -------------------------------------------------------------------


MEGABYTES = "x" * 3_000_000
OF_GARBAGE = 200_000


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


@each(
    ("name", "content", "problem"),
    [
        ("a.csv", "x" * 200_000, "no column is called item_id"),  # longer than the csv module's own limit
        ("a.tsv", "\t".join(map(str, range(100_000))), "no column is called item_id"),
        ("a.csv", '"item_id', "unexpected end of data"),
        ("a.jsonl", f'{{"{MEGABYTES}": 1}}', "no column is called item_id"),
    ],
)
def test_columns_that_cannot_be_guessed_are_named_in_few_words(
    tmp_path: Path, name: str, content: str, problem: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(AnnotationError, match=problem) as caught:
        usual_columns.choose_columns(tmp_path / name, ())
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


def test_a_column_of_a_parquet_table_holds_texts_or_lists_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"item_id": ["a"], "caption": pa.array([[["c"] * 9]])}), path)
    with pytest.raises(AnnotationError, match="row 0, caption 0: 'caption' must be text, not a list"):
        reading.read("d", Dataset(adapter="folder", annotations=path, videos=tmp_path))
    pd.DataFrame({"item_id": [], "text": []}).to_parquet(path)
    with pytest.raises(AnnotationError, match=r"a\.parquet has no column 'caption'; its header is \['item_id'"):
        reading.read("d", Dataset(adapter="folder", annotations=path, videos=tmp_path))
