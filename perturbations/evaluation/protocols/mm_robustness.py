"""MM-Robustness (Qiu et al.): Sec. 5. One modality is perturbed in whole, and both directions are measured.

So it is the query in one direction and the gallery in the other. RSUM is the sum of R@1, 5 and 10 of both directions,
0 to 600; MMI is of that sum, of the plain mean over perturbations. Pictures are clips of one frame, so i2t
is v2t, and t2i is t2v.
"""

from __future__ import annotations

from collections.abc import Sequence

from perturbations.evaluation.protocols.registry import EvaluationProtocol, PaperProtocols
from perturbations.evaluation.stated import (
    CLEAN,
    StatedCell,
    StatedKey,
    StatedModel,
    StatedPart,
    named,
    needs_features,
    runs_of,
)
from perturbations.suites.published import Published

_SEVERITIES = {"character": [3, 4, 5, 6, 7], "word": [3, 4, 5, 6, 7], "sentence": [1]}
"""The paper's five levels, 0.15 to 0.35, are severities 3 to 7 of the suite."""

_NEEDS = {"pretrained": "CLIP weights; ALBEF, BLIP and TCL enter by `perturb score`"}
_UNSTATED = (
    "resolution, prompts, and how ALBEF, BLIP and TCL re-rank",
    "which captions of COCO's pictures with more than five: here the first five",
    "the fidelity gate's threshold, and whether rejected captions shrink N",
)


def _protocol(tables: Sequence[str], what: str, **kept: object) -> EvaluationProtocol:
    return EvaluationProtocol(
        name=f"mm_robustness_table_{tables[0]}",
        paper="mm_robustness",
        tables=tuple(tables),
        summary=f"both directions, {what} perturbed: query in one, gallery in the other; RSUM and MMI",
        datasets=("flickr30k", "coco"),
        evaluation={
            "setting": "qgs_zero_shot",
            "directions": ["v2t", "t2v"],
            "sides": ["query", "gallery"],
            "suites": ["mm_robustness"],
            "methods": ["none"],
            "num_frames": 1,
            **({"severities": [1, 2, 3, 4, 5]} if what == "images" else {"severities": _SEVERITIES}),
        },
        suites={"mm_robustness": {"variant": "released", **kept}},
        needs=_NEEDS,
        unstated=_UNSTATED,
    )


_SETTINGS = {"zero-shot": "qgs_zero_shot", "fine-tuned": "qs"}
_DIRECTIONS = {"i2t": ("v2t",), "t2i": ("t2v",), "i2t+t2i": ("v2t", "t2v")}


def stated(cell: Published) -> StatedCell:
    """What a cell states (Sec. 5.5 and 5.6), with pictures as clips of one frame.

    The modality that is perturbed is the query in one direction and the gallery in the other.
    """
    by_text = cell.modality == "text"
    runs = runs_of("mm_robustness", "text", _SEVERITIES) if by_text else runs_of("mm_robustness", "video", range(1, 6))
    asking = "t2v" if by_text else "v2t"
    if cell.perturbation != "all":
        runs = CLEAN if cell.perturbation == "clean" else named(runs, [cell.perturbation])
    parts = tuple(
        StatedPart(direction, "none" if runs == CLEAN else "query" if direction == asking else "gallery", runs)
        for direction in _DIRECTIONS[cell.direction]
    )
    pooling = "clip4clip" if cell.model == "CLIP" else ""
    model = StatedModel(name=f"{cell.model} {cell.setting}", pooling=pooling, setting=_SETTINGS[cell.setting])
    key = StatedKey(dataset=cell.dataset, parts=parts, metric=cell.metric, of="rsum", model=model)
    return StatedCell(status="shown", reason="", key=key) if pooling else needs_features(key)


PROTOCOLS = PaperProtocols(
    paper="mm_robustness",
    title="MM-Robustness",
    suite="mm_robustness",
    metric="rsum",
    scores=("mmi",),
    source="Qiu et al., Sec. 5.5",
    stated=stated,
    protocols=(
        _protocol(["1", *map(str, range(10, 16))], "images", draw="frame", captions={"perturbations": []}),
        _protocol(
            ["2", *map(str, range(16, 22))],
            "texts",
            perturbations=[],
            captions={"perturbations": "all", "severities": "all"},
        ),
    ),
    not_read=dict.fromkeys("3456", "visual reasoning and visual entailment, no retrieval"),
)
