"""Ids and captions of a file of annotations, and the look for their videos."""

from __future__ import annotations

import json
import os
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from looping import each
from test_datasets import dataset

from perturbations.base.errors import ConfigError
from perturbations.datasets.registry import Dataset
from perturbations.plan import items as reading


def folder_dataset(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> Dataset:
    return dataset(folder, "folder", json.dumps(rows), "captions.json", **keys)


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
