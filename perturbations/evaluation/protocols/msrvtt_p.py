"""MSRVTT-P and YouCook2-P (Schiappa et al., NeurIPS version): Sec. 4 and 5. t2v alone: videos are the gallery.

The robustness scores are of R@5 (Fig. 2, 4, 5, 7, 8; the tables do not say k). A table's sigma is the sample deviation
over all cells of perturbation x severity, as its numbers show; the paper does not define it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perturbations.evaluation.protocols.registry import EvaluationProtocol, PaperProtocols

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
    table: str, sides: Sequence[str], summary: str, *, videos: Any = "all", captions: Any = "all"
) -> EvaluationProtocol:
    return EvaluationProtocol(
        name=f"msrvtt_p_table_{table}",
        paper="msrvtt_p",
        tables=(table,),
        summary=f"t2v: {summary}",
        datasets=("msrvtt", "youcook2"),
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


PROTOCOLS = PaperProtocols(
    paper="msrvtt_p",
    title="MSRVTT-P and YouCook2-P",
    suite="msrvtt_p",
    metric="recall_at_5",
    scores=("gamma_a", "gamma_r"),
    source="MSRVTT-P, Sec. 4.3",
    protocols=(
        _protocol("2", ["gallery"], "18 perturbations of videos x 5 severities, gamma_r"),
        _protocol("3", ["query"], "35 perturbations of captions, gamma_r"),
        _protocol("4", ["gallery", "query"], "videos and captions by the way of training", captions=list(_TABLE_4)),
        _protocol("7", ["query"], "35 perturbations of captions, gamma_a"),
        _protocol("8", ["gallery"], "18 perturbations of videos x 5 severities, gamma_a"),
        _protocol("9", ["gallery", "query", "both"], "videos, captions, and 66 combinations of both at severity 3"),
        _protocol("12", ["query"], "natural, machine and synthetic perturbations of captions"),
    ),
)
