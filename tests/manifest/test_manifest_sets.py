"""Merged parts, and what became of each listed item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from manifest_rows import CAPTION, edited, filled, part

from perturbations.base.errors import ManifestError
from perturbations.manifest import files, sets
from perturbations.manifest.rows import (
    CAPTIONS,
    MISSING,
    QRELS,
    QUARANTINE,
    QUARANTINED,
    CompleteSource,
    QrelRow,
    SourceRow,
    VideoRow,
)


@pytest.mark.parametrize("groups", [("ca", "", "b"), ("bcdefg", "a"), ("defg", "abc"), ("g", "abcdef")])
def test_parts_are_merged_to_the_bytes_of_the_whole(groups: Sequence[str], tmp_path: Path) -> None:
    parts = {part(tmp_path / f"part-{place}", *ids): ids for place, ids in enumerate(groups)}
    files.write(tmp_path / "merged", CAPTIONS, sets.merge(parts.items(), CAPTIONS, CAPTION))
    whole = part(tmp_path / "whole", *sorted("".join(groups)))
    assert (tmp_path / "merged").read_bytes() == whole.read_bytes()


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    files.write(tmp_path / "one", QUARANTINE, [])
    with pytest.raises(ManifestError, match="no such manifest: .*two"):
        list(sets.merge({tmp_path / "one": [], tmp_path / "two": []}.items(), QUARANTINE, ("item_id",)))
    with pytest.raises(ManifestError, match="is a manifest of quarantine, not of captions"):
        list(sets.merge({tmp_path / "one": []}.items(), CAPTIONS, CAPTION))


def test_what_became_of_a_dataset_is_a_sentence() -> None:
    listed = sets.Listed(listed=1000, listed_sha256="", complete=3, quarantined=0, missing=997)
    assert listed.sentence("clips") == "3 of 1,000 listed clips complete; 997 missing"
    both = replace(listed, complete=1, quarantined=2)
    assert both.sentence("captions") == "1 of 1,000 listed captions complete; 2 quarantined; 997 missing"
    assert replace(listed, complete=1000, missing=0).sentence("clips") == "1,000 of 1,000 listed clips complete"


def listed_items() -> list[SourceRow]:
    return [
        filled(CompleteSource, item_id="a"),
        filled(CompleteSource, item_id="b"),
        filled(SourceRow, item_id="c", status=QUARANTINED, stage="source", error="broken"),
        filled(SourceRow, item_id="d", status=MISSING, stage="annotation", error="no file"),
    ]


def test_each_listed_item_is_complete_quarantined_or_missing() -> None:
    of_sources = sets.of_sources(listed_items())
    assert (of_sources.listed, of_sources.complete, of_sources.quarantined, of_sources.missing) == (4, 2, 1, 1)
    videos = [
        filled(VideoRow, item_id="a", severity=1),
        filled(VideoRow, item_id="a", severity=2),
        filled(VideoRow, item_id="b", severity=1),
        filled(VideoRow, item_id="b", severity=2, status=QUARANTINED, stage="video", error="failed"),
    ]
    of_corpus = sets.of_sources(listed_items(), Counter(a=2, b=1), 2)
    assert (of_corpus.listed, of_corpus.complete, of_corpus.quarantined, of_corpus.missing) == (4, 1, 2, 1)
    assert of_corpus.scenarios == 2
    assert of_corpus.listed_sha256 == of_sources.listed_sha256 == sets.ids_sha256("dcba")
    assert sets.ids_sha256(["ab", "c"]) != sets.ids_sha256(["a", "bc"])
    assert sets.of_sources(listed_items(), Counter(a=1), 1).complete == 1
    quarantine = sets.quarantine_of(listed_items(), videos)
    assert [(row.item_id, row.severity, row.status, row.error) for row in quarantine] == [
        ("c", None, "quarantined", "broken"),
        ("d", None, "missing", "no file"),
        ("b", 2, "quarantined", "failed"),
    ]


@pytest.mark.parametrize("apart", [True, False])
def test_two_rows_with_one_key_are_named(apart: bool, tmp_path: Path) -> None:
    twins = [QrelRow(query_id="q7", corpus_id="c", score=score) for score in (1, 2)]
    files.write(tmp_path / "one", QRELS, twins[:1] if apart else twins)
    files.write(tmp_path / "two", QRELS, twins[1:] if apart else [])
    expected: Mapping[Path, Any] = {tmp_path / "one": [("q7", "c")], tmp_path / "two": []}
    problem = "two holds what was not requested:" if apart else "one holds twice"
    with pytest.raises(ManifestError, match=rf"{problem} \('q7', 'c'\)"):
        list(sets.merge(expected.items(), QRELS, QRELS.key))


def edited_part(path: Path) -> None:
    edited(part(path, "a", "b"), text=["other", "text"])


BAD_PARTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "damaged": (
        lambda path: path.write_bytes(part(path, "a", "b").read_bytes().replace(b"text of a", b"xxxx of a")),
        "bad was changed",
    ),
    "edited": (edited_part, "bad was changed after it was written"),
    "short": (lambda path: part(path, "a"), "bad lacks 'b'"),
    "other": (lambda path: part(path, "a", "c"), "bad lacks 'b'; holds what was not requested: 'c'"),
    "twice": (lambda path: part(path, "a", "a", "b"), "bad holds twice 'a'"),
}


@pytest.mark.parametrize("name", BAD_PARTS)
def test_a_part_that_cannot_be_used_is_removed_and_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    maker, reason = BAD_PARTS[name]
    for top, removed in (("work", True), ("manifests", False)):
        sound, bad = tmp_path / top / "sound", tmp_path / top / "bad"
        part(sound, "x")
        maker(bad)
        with pytest.raises(ManifestError, match=reason) as caught:
            list(sets.merge({sound: ["x"], bad: ["a", "b"]}.items(), CAPTIONS, CAPTION))
        assert str(bad) in str(caught.value)
        assert str(sound) not in str(caught.value)
        assert ("(removed)" in str(caught.value)) == removed
        assert "Run snakemake again" in str(caught.value)
        assert bad.exists() != removed
        assert sound.exists()


def test_every_bad_part_is_removed_and_the_first_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parts = {part(tmp_path / "work" / f"part-{number}"): ["a"] for number in range(7)}
    with pytest.raises(ManifestError) as caught:
        list(sets.merge(parts.items(), CAPTIONS, CAPTION))
    assert "part-4 lacks 'a' (removed); and 2 more. Run snakemake again" in str(caught.value)
    assert not any(path.exists() for path in parts)
