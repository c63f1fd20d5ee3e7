"""EgoCVR: Sec. 5. A clip and an instruction ask for other clips; nothing is perturbed. A hit is any target."""

from __future__ import annotations

from typing import Any

from perturbations.evaluation.protocols.registry import EvaluationProtocol, PaperProtocols

_COMPOSED = {
    "galleries": ["global_rows", "local_released"],
    "strategies": ["text", "visual", "average", "two_stage"],
    "words": ["instruction", "tfcvr", "gt"],
    "average": ["released"],
    "shortlist": 15,
    "first_stage": ["visual"],
    "frames": "mean",
    "suites": [],
    "text_suites": [],
}


def _protocol(table: str, summary: str, **changed: Any) -> EvaluationProtocol:
    return EvaluationProtocol(
        name=f"egocvr_table_{table}",
        paper="egocvr",
        tables=(table,),
        summary=f"composed: {summary}",
        datasets=("egocvr",),
        evaluation={"num_frames": 15, "suites": [], "methods": ["none"]},
        suites={"mlvp": {}},
        composed={**_COMPOSED, **changed},
        needs={"pretrained": "CLIP ViT-L/14 (DataComp-1B) or BLIP-Large; EgoVLPv2 and LanguageBind: `perturb score`"},
        unstated=("the local galleries: those that give the paper's mean size and chance",),
    )


PROTOCOLS = PaperProtocols(
    paper="egocvr",
    title="EgoCVR",
    suite=None,
    metric="recall_at_1",
    scores=(),
    source="",
    protocols=(
        _protocol("1", "all strategies, global and local"),
        _protocol("2", "whole clips, or with `composed.frames: middle` the middle frame"),
        _protocol("3", "the stages of TFR-CVR"),
        _protocol("4", "instruction, predicted and ground-truth caption"),
    ),
)
