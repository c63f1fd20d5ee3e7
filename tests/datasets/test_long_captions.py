"""Sets of long captions: what is read of each, and what is said where a model reads only their beginning."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from perturbations.config import file as config_file
from perturbations.corpus.plan import items
from perturbations.datasets.listing import Item, Listing
from perturbations.evaluation.page import page_sections
from perturbations.manifest import files
from perturbations.manifest.rows import TEXT_STATISTICS, TextStatisticsRow


def listed(folder: Path, adapter: str, text: str, name: str, **keys: Any) -> Listing:
    (folder / name).write_text(text)
    settings = {"adapter": adapter, "annotations": str(folder / name), "videos": str(folder), **keys}
    config = config_file.parse({"datasets": {"long": settings}, "suites": {"mlvp": {}}})
    return items.read("long", config.datasets["long"])


@pytest.mark.parametrize(("captions", "text"), [("caption", "all"), ("spatial", "what"), ("temporal", "how")])
def test_carebench_has_three_captions_of_each_clip(captions: str, text: str, tmp_path: Path) -> None:
    entry = {"video": "a b.mp4", "caption": "all", "spatial_caption": "what ", "temporal_caption": "how"}
    entries = json.dumps([entry, {"video": "lacks.mp4"}])
    listing = listed(tmp_path, "carebench", entries, "metadata.json", captions=captions)
    assert [(item.item_id, item.files, item.texts) for item in listing.items] == [("a b", ("a b.mp4",), (text,))]
    assert "entry 1" in listing.rejected[0].reason


def test_lovr_lists_scenes_of_which_the_first_have_captions_or_whole_videos(tmp_path: Path) -> None:
    names = (*(f"long_video_clip/v1/v1-Scene-00{n}.mp4" for n in (1, 2)), "v1-Scene-003.mp4")
    scenes = [{"path": name, "cap": f"scene {n}"} for n, name in enumerate(names, start=1)]
    lines = "".join(json.dumps(scene) + "\n" for scene in scenes)
    first, second, last = listed(tmp_path, "lovr", lines, "all_clip.jsonl", captioned=2).items
    assert (first.item_id, first.source_video_id, first.files[0]) == (
        "v1-Scene-001",
        "v1-Scene-001",
        "v1/v1-Scene-001.mp4",
    )
    assert (second.texts, last.texts, last.files[0]) == (("scene 2",), (), "v1/v1-Scene-003.mp4")
    wrong = "{}\n" + lines
    assert [item.texts for item in listed(tmp_path, "lovr", wrong, "all_clip.jsonl", captioned=2).items][1:] == [(), ()]
    whole = listed(tmp_path, "lovr", '{"vid": "v1", "cap": "a day"}\n', "all_video.jsonl", items="videos")
    assert whole.items == (Item("v1", "v1", ("v1.mp4",), ("a day",)),)


def test_dream_1k_has_the_reference_as_caption(tmp_path: Path) -> None:
    asked = {"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "Describe it."}]}
    answer = {"role": "assistant", "content": [{"type": "text", "reference": " A cat runs. "}]}
    rows = [{"vid": "1", "messages": [asked, answer]}, {"vid": "2", "messages": [asked]}, {"vid": "3", "messages": "?"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    listing = listed(tmp_path, "dream_1k", lines, "DREAM-1k.jsonl")
    assert [(item.item_id, item.files, item.texts) for item in listing.items] == [("1", ("1.mp4",), ("A cat runs.",))]
    assert [entry.item_id for entry in listing.rejected] == ["2", "3"]


def test_captions_that_a_model_does_not_read_to_their_end_are_counted_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("torch")
    from perturbations.evaluation.models.preprocessing import TokenizedTexts
    from perturbations.evaluation.run import query_encoding

    def tokenizer(texts: list[str]) -> dict[str, list[list[int]]]:
        return {"input_ids": [[0] * len(text.split()) for text in texts]}

    backbone: Any = SimpleNamespace(texts=TokenizedTexts(tokenizer, 3))
    with caplog.at_level(logging.WARNING, "perturbations"):
        assert query_encoding.truncated(backbone, ["a b c", "a"]) == 0
        assert query_encoding.truncated(backbone, []) is None
        assert not caplog.text
        assert query_encoding.truncated(backbone, ["a b c", "a b c d"]) == 1
    assert "1 of 2 captions (50.0 %) have more than the 3 tokens that the model reads" in caplog.text


def test_the_page_says_what_is_not_read_and_what_the_gate_accepts(tmp_path: Path) -> None:
    columns = {"dataset": "long", "model": "clip", "suite": "s", "perturbation": "p", "queries": 4}
    frame = pd.DataFrame([{**columns, "truncated_queries": number, "clean_input_queries": 2} for number in (2, 3)])
    about: dict[str, Any] = {"dataset": "long", "suite": "s", "level": "word", "variant": "released", "backend": "{}"}
    counts = {"captions": 10, "changed": 9, "effectively_changed": 9, "attempts_max": 1}
    rows = [
        TextStatisticsRow(**about, **counts, perturbation=name, severity=2, accepted=accepted, similarity_mean=gate)
        for name, accepted, gate in (("ocr", 9, 0.9), ("formal", 4, 0.7), ("keyboard", 10, None))
    ]
    path = tmp_path / "manifests/long/s/caption_statistics.parquet"
    files.write(path, TEXT_STATISTICS, rows, {"root": "../../.."})
    section = page_sections.corpora(frame, [path], [], [])
    assert section.parts == [
        "s on long: the fidelity gate accepts 65.0 % of the captions, least 40.0 % (formal 2).",
        "clip does not read 50.0 to 75.0 % of the captions of long to their end: what a perturbation changes there "
        "changes no result.",
        "clip reads up to 50.0 % of the perturbed captions of s on long as the clean ones (p): they differ only behind "
        "its last token, or in what its tokenizer leaves out.",
    ]
