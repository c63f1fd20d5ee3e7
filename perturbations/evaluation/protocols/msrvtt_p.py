"""MSRVTT-P and YouCook2-P (Schiappa et al., NeurIPS version): Sec. 4 and 5. t2v alone: videos are the gallery.

The robustness scores are of R@5 (Fig. 2, 4, 5, 7, 8; the tables do not say k). A table's sigma is the sample deviation
over all cells of perturbation x severity, as its numbers show; the paper does not define it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from perturbations.evaluation.keys import CHOICES
from perturbations.evaluation.protocols.registry import EvaluationProtocol, PaperProtocols
from perturbations.evaluation.rows import WHOLE_GALLERY, ScenarioKey
from perturbations.evaluation.stated import (
    StatedCell,
    StatedKey,
    StatedModel,
    StatedPart,
    needs_features,
    runs_of,
)
from perturbations.suites import registry
from perturbations.suites.published import Published

_TABLE_4 = (
    *("insert_adv", "append_irr"),
    *("gender_female", "gender_male", "gender_neutral", "gender_swap"),
    *("keyboard", "ocr", "prefix_swap", "punctuation", "spelling_error", "typos"),
    *("active_to_passive", "casual_to_formal", "formal_to_casual", "reverse_neg", "tense"),
)
"""AddText, Bias, ChangeChar and TextStyle, as the table's numbers show; its caption excludes only two others."""

_MODELS = {"pretrained": "a dual encoder; the paper's MIL NCE, VideoClip, UniVL, COOT and FIT need `perturb score`"}
_UNSTATED = ("k of R@k in the tables: 5, as in the figures", "which of the authors' two programs made which table")


def _protocol(
    table: str,
    sides: Sequence[str],
    summary: str,
    *,
    videos: Any = "all",
    captions: Any = "all",
    datasets: tuple[str, ...] = ("msrvtt", "youcook2"),
) -> EvaluationProtocol:
    return EvaluationProtocol(
        name=f"msrvtt_p_table_{table}",
        paper="msrvtt_p",
        tables=(table,),
        summary=f"t2v: {summary}",
        datasets=datasets,
        evaluation={
            "setting": "qgs_zero_shot",
            "directions": ["t2v"],
            "sides": list(sides),
            "suites": ["msrvtt_p"],
            "severities": [1, 2, 3, 4, 5],
            "methods": ["none"],
        },
        suites={
            "msrvtt_p": {
                "variant": "released",
                "perturbations": videos,
                "severities": [1, 2, 3, 4, 5],
                "captions": {"perturbations": captions, "severities": "all"},
            }
        },
        needs=_MODELS,
        unstated=_UNSTATED,
    )


_CHOICES_OF = "msrvtt_qa"


def _multiple_choice(table: str, side: str, summary: str) -> EvaluationProtocol:
    """App. E.7: a video and five captions, one of them right; gamma_r of the accuracy."""
    protocol = _protocol(table, [side], summary, datasets=(_CHOICES_OF,))
    return replace(
        protocol,
        evaluation={**protocol.evaluation, "directions": ["v2t"]},
        summary=f"v2t, multiple choice: {summary}, gamma_r of the accuracy; `perturb score --choices`",
        unstated=("which captions are perturbed: all five", *_UNSTATED[1:]),
    )


_SEVERITIES = range(1, 6)
_SETTINGS = {"zero-shot": "zs", "fine-tuned": "ft"}
_WITHOUT_BIAS = ("youcook2",)
"""The datasets whose captions say nothing of gender."""

_GROUPS: dict[str, tuple[str, ...]] = {
    "all but DropText and Positional": ("AddText", "Bias", "ChangeChar", "TextStyle"),
    "Machine": ("AddText", "Bias", "ChangeChar", "TextStyle"),
    "Synthetic": ("DropText", "Positional"),
}
"""The categories of Table 4's and Table 12's groups. The heads Natural and Machine of Table 12 are exchanged: what is
printed below Machine equals Table 4's captions, which hold no perturbation by a model but those of ChangeChar."""

_BY_MODELS = ("ocr", "prefix_swap", "punctuation")
"""Perturbations of ChangeChar that the paper calls machine-based (App. A.2), as all of SwapText are."""


def stated(cell: Published) -> StatedCell:
    """What a cell states (Sec. 4.3): t2v; perturbed videos are the gallery, perturbed captions the queries."""
    if cell.metric in ("bleu4", "meteor", "rouge_f1"):
        return StatedCell(status="shown", reason="no retrieval: on the page of the corpus' captions, captions.md")
    model = StatedModel(name=" ".join(filter(None, (cell.model, _SETTINGS.get(cell.setting, cell.setting)))))
    by_choice = cell.dataset == _CHOICES_OF
    key = StatedKey(
        dataset=cell.dataset,
        parts=(StatedPart(cell.direction, cell.side, _runs(cell)),),
        metric=cell.metric,
        of="recall_at_1" if by_choice else "recall_at_5",
        model=model,
        gallery=CHOICES if by_choice else WHOLE_GALLERY,
    )
    return needs_features(key)


def _runs(cell: Published) -> tuple[ScenarioKey, ...]:
    """The scenarios that a cell is the mean of."""
    entries = {entry.name: entry.category for entry in registry.perturbations("msrvtt_p")}
    left_out = {name for name, level in entries.items() if level == "Bias" and cell.dataset in _WITHOUT_BIAS}
    if cell.side == "both":
        combined = registry.suite("msrvtt_p").combined
        assert combined is not None
        return tuple(
            ScenarioKey("msrvtt_p", video, combined.severity, text, 1)
            for video in combined.video
            for text in combined.text
            if text not in left_out
        )
    by_text = cell.modality == "text"
    every = runs_of("msrvtt_p", "text", [1]) if by_text else runs_of("msrvtt_p", "video", _SEVERITIES)
    runs = [run for run in every if run.perturbation not in left_out]
    if cell.perturbation == "all":
        return tuple(runs)
    if cell.perturbation == "Natural":
        return tuple(run for run in runs if entries[run.perturbation] == "SwapText" or run.perturbation in _BY_MODELS)
    levels = _GROUPS.get(cell.perturbation, (cell.perturbation,))
    return tuple(run for run in runs if entries[run.perturbation] in levels)


PROTOCOLS = PaperProtocols(
    paper="msrvtt_p",
    title="MSRVTT-P and YouCook2-P",
    suite="msrvtt_p",
    metric="recall_at_5",
    scores=("gamma_a", "gamma_r"),
    source="MSRVTT-P, Sec. 4.3",
    stated=stated,
    protocols=(
        _protocol("2", ["gallery"], "18 perturbations of videos x 5 severities, gamma_r", datasets=("msrvtt",)),
        _protocol("3", ["query"], "35 perturbations of captions, gamma_r"),
        _protocol("4", ["gallery", "query"], "videos and captions by the way of training", captions=list(_TABLE_4)),
        _protocol("7", ["query"], "35 perturbations of captions, gamma_a"),
        _protocol("8", ["gallery"], "18 perturbations of videos x 5 severities, gamma_a"),
        _protocol("9", ["gallery", "query", "both"], "videos, captions, and 66 combinations of both at severity 3"),
        _protocol("12", ["query"], "natural, machine and synthetic perturbations of captions"),
        _multiple_choice("10", "gallery", "35 perturbations of captions"),
        _multiple_choice("11", "query", "18 perturbations of videos x 5 severities"),
    ),
)
