"""HAT-VTR (MLVP): Sec. 5, App. B and D. One perturbed side, the queries; R@1, its plain mean over the perturbations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from perturbations.evaluation.protocols.registry import EvaluationProtocol, PaperProtocols
from perturbations.evaluation.rows import ScenarioKey
from perturbations.evaluation.stated import (
    CLEAN,
    StatedCell,
    StatedKey,
    StatedModel,
    StatedPart,
    impossible,
    named,
    needs_features,
    runs_of,
)
from perturbations.plan.mixes import PER_BATCH, SHARES
from perturbations.suites.published import Published
from perturbations.tta.methods import registry as methods

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
    is_table = table.isdecimal()
    return EvaluationProtocol(
        name=f"hat_vtr_table_{table}" if is_table else f"hat_vtr_{table}",
        paper="hat_vtr",
        tables=(table,) if is_table else (),
        summary=summary,
        datasets=datasets,
        evaluation=evaluation,
        suites=suites,
        needs=needs,
        unstated=unstated,
    )


def _perturbed(directions: Sequence[str], suites: Sequence[str], severities: Any, **changed: Any) -> dict[str, Any]:
    """The keys of `evaluation` for perturbed queries of a fine-tuned model."""
    scenarios = {"directions": list(directions), "sides": ["query"], "suites": list(suites), "severities": severities}
    return {"setting": "qs", **scenarios, "methods": list(_METHODS), **_HYPERPARAMETERS, **changed}


def _of_captions(perturbations: Sequence[str]) -> dict[str, Any]:
    """The keys of the suite of captions, of which no videos are made."""
    captions = {"perturbations": list(perturbations), "severities": "all"}
    return {"variant": "released", "perturbations": [], "captions": captions}


def _videos(
    table: str,
    dataset: str,
    *,
    severities: Sequence[int] = (5,),
    summary: str = "",
    unstated: tuple[str, ...] = (_FRAMES,),
    needs: dict[str, str] = _FINE_TUNED,
    **changed: Any,
) -> EvaluationProtocol:
    spoken = summary or f"12 perturbations of videos at severity {', '.join(map(str, severities))}"
    evaluation = _perturbed(["v2t"], ["mlvp"], list(severities), **changed)
    suites = {"mlvp": {"variant": "released", "perturbations": "all"}}
    return _protocol(table, f"v2t, {dataset}: {spoken}", (dataset,), evaluation, suites, needs, unstated)


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


def _setting(label: str, **parameters: float | bool) -> dict[str, Any]:
    return {"name": "hatvtr", "label": label, "parameters": parameters}


_NO_HSM = {"hsm_targets": False, "hsm_rerank": False}
_LOSSES = ("inter", "intra", "global", "frame", "entropy")


def _only(label: str, *losses: str) -> dict[str, Any]:
    """HAT-VTR with these losses alone."""
    return _setting(label, **{name: False for name in _LOSSES if name not in losses})


_HSM_STAGES = (
    _setting("without HSM", **_NO_HSM),
    _setting("HSM in target selection", hsm_rerank=False),
    _setting("HSM in re-ranking", hsm_targets=False),
    "hatvtr",
)
"""Tab. 6."""

_OF_LOSSES = (
    _only("inter", "inter"),
    _only("inter and intra", "inter", "intra"),
    _only("global", "global"),
    _only("frame", "frame"),
    _only("global and frame", "global", "frame"),
    _only("NA", "entropy"),
    "hatvtr",
)
"""Tab. 7."""

_ALPHA_BETA = tuple(
    "hatvtr" if (alpha, beta) == (100, 10) else _setting(f"alpha {alpha}, beta {beta}", alpha=alpha, beta=beta)
    for alpha in (10, 100, 500)
    for beta in (10, 100, 500)
)
"""Tab. 12."""


_CHALLENGING = (
    _setting("without HSM", **_NO_HSM),
    _only("without adaptation"),
    "hatvtr",
)
"""Tab. 38."""

_SENSITIVITY: dict[str, tuple[float, ...]] = {
    "m": (0.1, 0.3, 0.7, 0.9),
    "t": (1, 5, 20),
    "lr": (1e-5, 1e-4, 1e-3),
    "temperature": (0.01, 0.05, 0.1),
    "k": (50, 200, 300),
    "memory": (8, 24, 32),
}
"""Fig. 5 (b) to 7: the values beside the default ones."""

_CURVES = (
    "hatvtr",
    *(_setting(f"{name} {value:g}", **{name: value}) for name, values in _SENSITIVITY.items() for value in values),
)


def _six(table: str, summary: str, datasets: tuple[str, ...] = ("msrvtt",), **changed: Any) -> EvaluationProtocol:
    """The six perturbations of each modality of App. B.3; a row of the table is one setting of the parameters.

    The presets differ in methods and seeds alone, so that one after the other runs over one corpus.
    """
    return _chosen(table, f"six perturbations each: {summary}", _SIX_VIDEO, _SIX_TEXT, datasets, **changed)


def _chosen(
    table: str,
    summary: str,
    videos: Sequence[str],
    texts: Sequence[str],
    datasets: tuple[str, ...] = ("msrvtt",),
    unstated: tuple[str, ...] = (_FRAMES,),
    **changed: Any,
) -> EvaluationProtocol:
    """Some perturbations of each modality, which is the query in its direction."""
    changed = {**changed, "methods": [*changed.get("methods", ["hatvtr"])]}
    evaluation = _perturbed(["v2t", "t2v"], ["mlvp", "mm_robustness"], _CAPTION_SEVERITIES, **changed)
    suites = {
        "mlvp": {"variant": "released", "perturbations": list(videos)},
        "mm_robustness": _of_captions(texts),
    }
    bank = {"querybank": "the dataset of training queries"} if "qbnorm" in changed["methods"] else {}
    needs = {**_FINE_TUNED, **bank}
    return _protocol(table, f"both directions, {summary}", datasets, evaluation, suites, needs, unstated)


_CROSS = {
    "4": ("msrvtt", "activitynet"),
    "26": ("msrvtt", "lsmdc"),
    "27": ("msrvtt", "msvd"),
    "28": ("activitynet", "lsmdc"),
    "29": ("activitynet", "msvd"),
    "30": ("lsmdc", "msvd"),
}
_NO_SEVERITY = "the severity of this table: 5, as in Table 1; of captions 7, 2, 1, as in Table 3"
_NO_MODEL = "the dataset and the model: MSRVTT and CLIP4Clip, whose numbers Tables 1 and 3 repeat"


# --- what its cells state ---------------------------------------------------------------------------------------------

_MODELS = {
    "CLIP4Clip": StatedModel(name="CLIP4Clip", pooling="clip4clip", backbone="clip ViT-B/32"),
    "Xpool": StatedModel(name="Xpool", pooling="xpool", backbone="clip ViT-B/32"),
    "CLIP": StatedModel(name="CLIP", pooling="clip4clip", backbone="clip ViT-B/32"),
    "CLIP-ViT-B/32": StatedModel(name="CLIP-ViT-B/32", pooling="clip4clip", backbone="clip ViT-B/32"),
    "CLIP-ViT-B/16": StatedModel(name="CLIP-ViT-B/16", pooling="clip4clip", backbone="clip ViT-B/16"),
    "BLIP-ViT-B/16": StatedModel(name="BLIP-ViT-B/16", pooling="clip4clip", backbone="blip ViT-B/16"),
}
_SETTINGS = {"unstated": "qgs_zero_shot"}
"""Table 16 does not say whether its models were fine-tuned: here they are as pretrained."""

_CHANGED: dict[str, dict[str, Any]] = {
    "without HSM in target selection and reranking": _NO_HSM,
    "with HSM in target selection only": {"hsm_rerank": False},
    "with HSM in reranking only": {"hsm_targets": False},
    "without adaptation (HSM only)": dict.fromkeys(_LOSSES, False),
    "without HSM": _NO_HSM,
}
"""What Tables 6 and 38 say of HAT-VTR: its parameters that differ from the published ones."""

_PUBLISHED = {"alpha": 100.0, "beta": 10.0}
_NAMES = {"hsm+qbnorm": "hsm_qbnorm"}
_SEED = re.compile(r"seed (\d+)")


def stated(cell: Published) -> StatedCell:
    """What a cell states (Sec. 5, App. B to D)."""
    if cell.metric in ("ms_per_query", "wall_s"):
        gpu = "RTX A6000" if "A6000" in cell.setting else "RTX 4090"
        return StatedCell(status="needs GPU", reason=f"a time on an {gpu}: the section Cost has this machine's")
    method, changed = _method(cell.method)
    if method not in methods.methods():
        return impossible(f"no method of this package is {cell.method}")
    model = _MODELS.get(cell.model, StatedModel(name=cell.model))
    setting = cell.setting.partition(" ")[0]
    seed = _SEED.search(cell.note)
    key = StatedKey(
        dataset=cell.dataset,
        parts=(StatedPart(cell.direction, cell.side, _runs(cell)),),
        metric=cell.metric,
        model=replace(model, setting=_SETTINGS.get(setting, setting)),
        method=method,
        changed=tuple(sorted(changed.items())),
        seed=int(seed[1]) if seed else 42,
        batch_size=16,
    )
    if model.pooling:
        return StatedCell(status="shown", reason="", key=key)
    if method == "none":
        return needs_features(key)
    return StatedCell(status="needs weights", reason=f"no backbone loads {cell.model}, whose weights would adapt")


def _method(printed: str) -> tuple[str, dict[str, Any]]:
    """A method of this package, and its parameters that differ from the published ones."""
    name, _, row = printed.partition(" ")
    values = {key: float(value) for key, _, value in (part.partition("=") for part in row.split()) if value}
    changed = _CHANGED.get(row, {key: value for key, value in values.items() if value != _PUBLISHED[key]})
    return _NAMES.get(name, name), changed


def _runs(cell: Published) -> tuple[ScenarioKey, ...]:
    """The scenarios that a cell is the mean of."""
    if cell.perturbation == "clean":
        return CLEAN
    if cell.modality == "text":
        return _some(cell, runs_of(cell.suite, "text", _CAPTION_SEVERITIES), _TEXTS, _SIX_TEXT)
    if cell.table == "18":
        shares = SHARES if cell.perturbation == "all" else (float(cell.perturbation.split()[1]),)
        return tuple(ScenarioKey("mlvp", "all", None, mix=PER_BATCH, share=share) for share in shares)
    if cell.severity == "mixed":
        every = [run._replace(severity=None, mix="mixed_severity") for run in runs_of("mlvp", "video", [0])]
    else:
        every = list(runs_of("mlvp", "video", [int(cell.severity)]))
    return _some(cell, every, [run.perturbation for run in every], _SIX_VIDEO)


def _some(
    cell: Published, runs: Iterable[ScenarioKey], every: Sequence[str], six: Sequence[str]
) -> tuple[ScenarioKey, ...]:
    return named(runs, {"all": every, "avg6": six}.get(cell.perturbation, [cell.perturbation]))


PROTOCOLS = PaperProtocols(
    paper="hat_vtr",
    title="HAT-VTR (MLVP)",
    suite="mlvp",
    metric="recall_at_1",
    scores=(),
    source="",
    stated=stated,
    protocols=(
        _videos("1", "msrvtt"),
        _videos("2", "activitynet"),
        _captions("3", "msrvtt"),
        _unperturbed("4", "qgs_cross", _CROSS["4"], _OF_ANOTHER),
        _unperturbed("5", "qgs_zero_shot", ("msrvtt", "activitynet"), {"pretrained": _ENCODER}),
        _six("6", "HSM where targets are chosen and in re-ranking", methods=_HSM_STAGES),
        _six("7", "the losses", methods=_OF_LOSSES, unstated=(_FRAMES, "which losses some of its rows combine")),
        _six("11", "five seeds", ("msrvtt", "activitynet"), seeds=[42, 0, 100, 200, 512]),
        _six("12", "HSM's alpha and beta", ("msrvtt", "activitynet"), methods=_ALPHA_BETA),
        _chosen(
            "13",
            "hubness of three perturbations of videos and two of captions",
            ("gaussian_noise", "motion_blur", "temporal_scrambling"),
            ("ocr", "back_translation"),
            unstated=(_FRAMES, _NO_SEVERITY),
            methods=["tcr", "hatvtr"],
        ),
        _six(
            "14",
            "methods against hubs",
            methods=["qbnorm", "hsm_qbnorm", "hatvtr"],
            unstated=(_FRAMES, "how HSM and QB-Norm are combined: HSM's weights on QB-Norm's scores"),
        ),
        _six(
            "figures",
            "HAT-VTR's curves of sensitivity, Fig. 5 (b) to 7",
            ("msrvtt", "activitynet"),
            methods=_CURVES,
            unstated=(
                _FRAMES,
                "values between those that the text names",
                "batch sizes: another run with `batch_size`",
            ),
        ),
        _videos(
            "16",
            "msrvtt",
            summary="other backbones, 12 perturbations at severity 5",
            unstated=(_FRAMES, _NO_SEVERITY, "whether the backbones were fine-tuned: they are as pretrained"),
            needs={"pretrained": "CLIP ViT-B/32, CLIP ViT-B/16 or BLIP ViT-B/16"},
            setting="qgs_zero_shot",
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
            summary="20 to 80 % of the videos of each batch with mixed perturbations",
            mixes=["mixed_types"],
            unstated=(_FRAMES, "how types and severities are drawn: uniformly; a share of a batch is rounded"),
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
        _chosen(
            "38",
            "HAT-VTR without training, or without HSM",
            ("temporal_scrambling",),
            ("back_translation",),
            unstated=(_FRAMES, _NO_SEVERITY, _NO_MODEL),
            methods=_CHALLENGING,
        ),
        _chosen(
            "39",
            "hubness and R@1, clean and under two perturbations each",
            ("gaussian_noise", "temporal_scrambling"),
            ("ocr", "back_translation"),
            unstated=(_FRAMES, _NO_SEVERITY, _NO_MODEL),
        ),
    ),
    not_read={"9": "times of the parts of HAT-VTR on an RTX 4090"},
)
