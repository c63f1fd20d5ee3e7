"""Ids, options and lists of a stranger, of any length and depth, end in an order or in one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from perturbations.base import limits
from perturbations.base.errors import ConfigError, ManifestError
from perturbations.exports.writing import caption_texts
from perturbations.manifest.companions import numbered

DEEP = "[" * 100_000


def test_captions_are_ordered_by_their_numbers_however_long() -> None:
    ids = ["a#-", "a#0", "a#2", "a#10", "a#" + "9" * 5000, "a#1" + "0" * 5000]
    assert sorted(set(ids), key=numbered) == ids


def test_limits_that_are_nested_too_deep_are_one_message() -> None:
    with pytest.raises(ConfigError, match="limits: a JSON object such as"):
        limits.parse(DEEP)


def test_a_split_that_is_nested_too_deep_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text(f'{{"clip_id": {DEEP}', encoding="utf-8")
    with pytest.raises(ManifestError, match="does not list the videos of a test split"):
        caption_texts.split_order(tmp_path / "test.jsonl")
