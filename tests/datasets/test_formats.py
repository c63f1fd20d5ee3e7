"""The formats of annotations: what is listed of small files, and what is said of entries and files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from annotation_files import dataset
from copies import ROOT

from perturbations.base.errors import AnnotationError
from perturbations.corpus.plan import items as reading
from perturbations.datasets.listing import Item, Listing

BY_ADAPTER = yaml.safe_load((ROOT / "tests/golden/annotations.yaml").read_text(encoding="utf-8"))
CASES = [
    pytest.param(adapter, case, id=f"{adapter}-{number}")
    for adapter, cases in BY_ADAPTER.items()
    for number, case in enumerate(cases)
]


def field_of(listing: Listing, item: Item, name: str, expected: Any) -> Any:
    """A field of an item as the file of cases writes it."""
    fields = {
        "texts": list(item.texts),
        "files": list(item.files[: len(expected or ())]),
        "span": [item.start_s, item.end_s],
        "video": item.source_video_id,
        "attributes": listing.attributes.get(item.item_id),
    }
    return fields[name]


@pytest.mark.parametrize(("adapter", "case"), CASES)
def test_a_file_is_listed_or_says_what_is_wrong(adapter: str, case: dict[str, Any], tmp_path: Path) -> None:
    beside = case.get("beside", {})
    for name, text in beside.items():
        (tmp_path / name).write_text(text if isinstance(text, str) else json.dumps(text))
    keys = {
        key: tmp_path / value if isinstance(value, str) and value in beside else value
        for key, value in case.get("keys", {}).items()
    }
    text = case["text"] if "text" in case else json.dumps(case["content"])
    config = dataset(tmp_path, adapter, text, case.get("file", "a.json"), **keys)
    if "error" in case:
        with pytest.raises(AnnotationError) as caught:
            reading.read("d", config)
        assert case["error"] in str(caught.value)
        assert case.get("file", "a.json") in str(caught.value)
        return
    listing = reading.read("d", config)
    expected = {name: own if isinstance(own, dict) else {"texts": own} for name, own in case["items"].items()}
    assert {
        item.item_id: {
            name: field_of(listing, item, name, value) for name, value in expected.get(item.item_id, {}).items()
        }
        for item in listing.items
    } == expected
    rejected = case.get("rejected", [])
    assert [entry.item_id for entry in listing.rejected] == [item_id for item_id, _ in rejected]
    for entry, (_, reason) in zip(listing.rejected, rejected, strict=True):
        assert reason in entry.reason
        assert f"({case.get('file', 'a.json')}, " in entry.reason or beside
    for question in listing.questions:
        wanted = case.get("questions", {})[question.question_id]
        assert {name: getattr(question, name) for name in wanted} == wanted
    assert {question.question_id for question in listing.questions} == {*case.get("questions", {})}
    if not listing.has_captions:
        assert listing.rejected_captions() == [*listing.rejected]
    ids = [item.caption_id(number) for item in listing.items for number in range(len(item.texts))]
    assert len({*ids}) == len(ids)
