"""Merged parts, and what became of each listed item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from test_manifest import CAPTION, filled, part

from perturbations.base.errors import ManifestError
from perturbations.manifest import files, sets
from perturbations.manifest.kinds import CAPTIONS, MISSING, QUARANTINE, QUARANTINED, CompleteSource, SourceRow, VideoRow


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
    of_corpus = sets.of_corpus(listed_items(), videos, 2)
    assert (of_corpus.listed, of_corpus.complete, of_corpus.quarantined, of_corpus.missing) == (4, 1, 2, 1)
    assert of_corpus.scenarios == 2
    assert of_corpus.listed_sha256 == of_sources.listed_sha256 == sets.ids_sha256("dcba")
    assert sets.ids_sha256(["ab", "c"]) != sets.ids_sha256(["a", "bc"])
    assert sets.of_corpus(listed_items(), videos[:1], 1).complete == 1
    quarantine = sets.quarantine_of(listed_items(), videos)
    assert [(row.item_id, row.severity, row.status, row.error) for row in quarantine] == [
        ("c", None, "quarantined", "broken"),
        ("d", None, "missing", "no file"),
        ("b", 2, "quarantined", "failed"),
    ]
