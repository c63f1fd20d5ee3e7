"""Sets of long captions: what is read of each, and what is said where a model reads only their beginning."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from perturbations.evaluation.page import page_sections
from perturbations.manifest import files
from perturbations.manifest.rows import TEXT_STATISTICS, TextStatisticsRow


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
