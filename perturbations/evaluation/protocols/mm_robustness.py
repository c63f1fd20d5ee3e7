"""MM-Robustness (Qiu et al.): Sec. 5. One modality is perturbed in whole, and both directions are measured.

So it is the query in one direction and the gallery in the other. RSUM is the sum of R@1, 5 and 10 of both directions,
0 to 600; MMI is of that sum, of the plain mean over perturbations. The tables are of images; here clips stand for them.
"""

from __future__ import annotations

from perturbations.evaluation.protocols.registry import EvaluationProtocol, PaperProtocols

_SEVERITIES = {"character": [3, 4, 5, 6, 7], "word": [3, 4, 5, 6, 7], "sentence": [1]}
"""The paper's five levels, 0.15 to 0.35, are severities 3 to 7 of the suite."""

_NEEDS = {"pretrained": "CLIP, BLIP, ALBEF or TCL weights; a dual encoder alone can be run here"}
_UNSTATED = (
    "images (Flickr30K, COCO; five captions each): the first frames of clips are no substitute",
    "the fidelity gate's threshold, and whether rejected captions shrink N",
)


def _protocol(table: str, what: str, **kept: object) -> EvaluationProtocol:
    return EvaluationProtocol(
        name=f"mm_robustness_table_{table}",
        paper="mm_robustness",
        tables=(table,),
        summary=f"both directions, {what} perturbed: query in one, gallery in the other; RSUM and MMI",
        datasets=("flickr30k", "coco"),
        evaluation={
            "setting": "qgs_zero_shot",
            "directions": ["v2t", "t2v"],
            "sides": ["query", "gallery"],
            "suites": ["mm_robustness"],
            "methods": ["none"],
            **({"severities": [1, 2, 3, 4, 5]} if what == "images" else {"severities": _SEVERITIES}),
        },
        suites={"mm_robustness": {"variant": "released", **kept}},
        needs=_NEEDS,
        unstated=_UNSTATED,
    )


PROTOCOLS = PaperProtocols(
    paper="mm_robustness",
    title="MM-Robustness",
    suite="mm_robustness",
    metric="rsum",
    scores=("mmi",),
    source="Qiu et al., Sec. 5.5",
    protocols=(
        _protocol("1", "images", draw="frame", captions={"perturbations": []}),
        _protocol("2", "texts", perturbations=[], captions={"perturbations": "all", "severities": "all"}),
    ),
)
