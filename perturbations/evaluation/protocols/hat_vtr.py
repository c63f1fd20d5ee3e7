"""HAT-VTR (MLVP): Sec. 5, App. B and D. One perturbed side, the queries; R@1, its plain mean over the perturbations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perturbations.evaluation.protocols.registry import EvaluationProtocol, PaperProtocols

_METHODS = ("tent", "read", "sar", "eata", "tcr", "hatvtr")
_HYPERPARAMETERS = {"seeds": [42], "batch_size": 16, "num_frames": 12, "steps": 3}  # App. B.3, C.1, released code

_TEXTS = (
    *("ocr", "char_insert", "char_replace", "char_swap", "char_delete"),
    *("synonym_replace", "word_insert", "word_swap", "word_delete", "insert_punctuation"),
    *("formal", "casual", "passive", "active", "back_translation"),
)
"""App. B.4, Tab. 10: without keyboard."""

_SIX_VIDEO = (
    *("gaussian_noise", "h264_compression", "motion_blur", "main_object_occlusion", "style_transfer"),
    "event_insertion",
)
_SIX_TEXT = ("ocr", "char_delete", "synonym_replace", "word_insert", "formal", "active")
"""App. B.3: of the ablations."""

_CAPTION_SEVERITIES = {"character": [7], "word": [2], "sentence": [1]}
_ENCODER = "a CLIP model, ViT-B/32 in the paper"
_FINE_TUNED = {"pretrained": _ENCODER, "checkpoint": "CLIP4Clip or X-Pool weights that were fine-tuned on the dataset"}
_OF_ANOTHER = {"pretrained": _ENCODER, "checkpoint": "CLIP4Clip or X-Pool weights that were fine-tuned on another one"}
_FRAMES = "frames per clip, optimizer steps per batch and weight decay: those of the released code"


def _protocol(
    table: str,
    summary: str,
    datasets: tuple[str, ...],
    evaluation: dict[str, Any],
    suites: dict[str, Any],
    needs: dict[str, str] = _FINE_TUNED,
    unstated: tuple[str, ...] = (_FRAMES,),
) -> EvaluationProtocol:
    return EvaluationProtocol(
        name=f"hat_vtr_table_{table}",
        paper="hat_vtr",
        tables=(table,),
        summary=summary,
        datasets=datasets,
        evaluation=evaluation,
        suites=suites,
        needs=needs,
        unstated=unstated,
    )


def _perturbed(directions: Sequence[str], suites: Sequence[str], severities: Any, **changed: Any) -> dict[str, Any]:
    """The keys of `evaluation` for perturbed queries of a fine-tuned model."""
    asked = {"directions": list(directions), "sides": ["query"], "suites": list(suites), "severities": severities}
    return {"setting": "qs", **asked, "methods": list(_METHODS), **_HYPERPARAMETERS, **changed}


def _of_captions(perturbations: Sequence[str]) -> dict[str, Any]:
    return {"variant": "released", "captions": {"perturbations": list(perturbations), "severities": "all"}}


def _videos(
    table: str,
    dataset: str,
    *,
    severities: Sequence[int] = (5,),
    perturbations: Sequence[str] | str = "all",
    summary: str = "",
    unstated: tuple[str, ...] = (_FRAMES,),
    **changed: Any,
) -> EvaluationProtocol:
    spoken = summary or f"12 perturbations of videos at severity {', '.join(map(str, severities))}"
    evaluation = _perturbed(["v2t"], ["mlvp"], list(severities), **changed)
    suites = {"mlvp": {"variant": "released", "perturbations": perturbations}}
    return _protocol(table, f"v2t, {dataset}: {spoken}", (dataset,), evaluation, suites, unstated=unstated)


def _captions(table: str, dataset: str) -> EvaluationProtocol:
    summary = f"t2v, {dataset}: {len(_TEXTS)} perturbations of captions; severity 7, 2, 1"
    evaluation = _perturbed(["t2v"], ["mm_robustness"], _CAPTION_SEVERITIES)
    unstated = (_FRAMES, "rates of the severities: those of the released code")
    return _protocol(table, summary, (dataset,), evaluation, {"mm_robustness": _of_captions(_TEXTS)}, unstated=unstated)


def _unperturbed(table: str, setting: str, datasets: tuple[str, ...], needs: dict[str, str]) -> EvaluationProtocol:
    what = "a model of another dataset" if setting == "qgs_cross" else "a pretrained model"
    summary = f"both directions, nothing perturbed: {what}, on {', '.join(datasets)}"
    evaluation = {"setting": setting, "directions": ["v2t", "t2v"], "suites": [], "methods": list(_METHODS)}
    return _protocol(table, summary, datasets, {**evaluation, **_HYPERPARAMETERS}, {"mlvp": {}}, needs)


def _six(table: str, summary: str, datasets: tuple[str, ...] = ("msrvtt",), **changed: Any) -> EvaluationProtocol:
    """The six perturbations of each modality of App. B.3; a row of the table is one setting of the parameters."""
    changed = {"methods": ["hatvtr"], **changed}
    evaluation = _perturbed(["v2t", "t2v"], ["mlvp", "mm_robustness"], _CAPTION_SEVERITIES, **changed)
    suites = {
        "mlvp": {"variant": "released", "perturbations": list(_SIX_VIDEO)},
        "mm_robustness": _of_captions(_SIX_TEXT),
    }
    bank = {"querybank": "the dataset of training queries"} if "qbnorm" in changed["methods"] else {}
    summary = f"both directions, six perturbations each: {summary}"
    return _protocol(table, summary, datasets, evaluation, suites, {**_FINE_TUNED, **bank})


_CROSS = {
    "4": ("msrvtt", "activitynet"),
    "26": ("msrvtt", "lsmdc"),
    "27": ("msrvtt", "msvd"),
    "28": ("activitynet", "lsmdc"),
    "29": ("activitynet", "msvd"),
    "30": ("lsmdc", "msvd"),
}
_NO_SEVERITY = "the severity of this table: 5, as in Table 1"

PROTOCOLS = PaperProtocols(
    paper="hat_vtr",
    title="HAT-VTR (MLVP)",
    suite="mlvp",
    metric="recall_at_1",
    scores=(),
    source="",
    protocols=(
        _videos("1", "msrvtt"),
        _videos("2", "activitynet"),
        _captions("3", "msrvtt"),
        _unperturbed("4", "qgs_cross", _CROSS["4"], _OF_ANOTHER),
        _unperturbed("5", "qgs_zero_shot", ("msrvtt", "activitynet"), {"pretrained": _ENCODER}),
        _six("6", "HSM where targets are chosen and in re-ranking, `parameters.hatvtr.hsm_targets`, `hsm_rerank`"),
        _six("7", "the losses, `parameters.hatvtr.entropy`, `inter`, `intra`, `global`, `frame`"),
        _six("11", "five seeds", ("msrvtt", "activitynet"), seeds=[42, 0, 100, 200, 512]),
        _six("12", "`parameters.hatvtr.alpha` and `beta`", ("msrvtt", "activitynet")),
        _videos(
            "13",
            "msrvtt",
            perturbations=["gaussian_noise", "motion_blur", "temporal_scrambling"],
            summary="hubness of three perturbations at severity 5",
            methods=["tcr", "hatvtr"],
        ),
        _six("14", "methods against hubs", methods=["qbnorm", "tcr", "hatvtr"]),
        _videos(
            "16",
            "msrvtt",
            summary="other backbones, 12 perturbations at severity 5",
            unstated=(_FRAMES, _NO_SEVERITY, "whether the backbones were fine-tuned"),
        ),
        _videos(
            "17",
            "msrvtt",
            summary="severities mixed within a batch",
            mixes=["mixed_severity"],
            unstated=(_FRAMES, "how severities are drawn: uniformly"),
        ),
        _videos(
            "18",
            "msrvtt",
            summary="20 to 80 % of the videos with mixed perturbations",
            mixes=["mixed_types"],
            unstated=(_FRAMES, "how types and severities are drawn: uniformly"),
        ),
        _videos("19", "lsmdc", unstated=(_FRAMES, _NO_SEVERITY)),
        _videos("20", "msvd", unstated=(_FRAMES, _NO_SEVERITY)),
        _captions("21", "activitynet"),
        _captions("22", "lsmdc"),
        _captions("23", "msvd"),
        _videos("24", "didemo"),
        _captions("25", "didemo"),
        *(_unperturbed(table, "qgs_cross", pair, _OF_ANOTHER) for table, pair in _CROSS.items() if table != "4"),
        _unperturbed("31", "qgs_zero_shot", ("lsmdc", "msvd"), {"pretrained": _ENCODER}),
        *(_videos(str(31 + severity), "msrvtt", severities=(severity,)) for severity in (1, 2, 3, 4)),
    ),
)
