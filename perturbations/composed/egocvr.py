"""What EgoCVR brings to shelves: its protocols, and the files that its released evaluation reads.

Sec. 5: a clip and an instruction ask for other clips; nothing is perturbed. A hit is any target. The files hold
queries, the pool of clips, and galleries as rows of it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base.errors import ConfigError, ManifestError, short
from perturbations.evaluation.protocols.registry import EvaluationProtocol, PaperProtocols
from perturbations.evaluation.stated import (
    CLEAN,
    StatedCell,
    StatedKey,
    StatedModel,
    StatedPart,
    impossible,
    needs_features,
)
from perturbations.exports.registry import Export
from perturbations.exports.writing.requests import Request
from perturbations.suites.published import Published

if TYPE_CHECKING:
    from perturbations.composed.modifications import Split


def write(request: Request) -> list[Path]:
    """Write `egocvr_annotations.csv`, `egocvr_data.csv` and `egocvr_annotations_gallery.csv`; returns their paths.

    The galleries are those of the split: deduplicated where the split's are. Raises `ManifestError` where the released
    code would take a name or an instruction for a missing value, and `ConfigError` for an unknown gallery.
    """
    from perturbations.composed import gallery_sets, manifests, official
    from perturbations.manifest import files

    split, _ = manifests.read(request.manifest.parent)
    _check(split)
    local = request.gallery or ("local_official" if "local_official" in split.galleries else gallery_sets.DEFAULT_LOCAL)
    known = [name for name in (*gallery_sets.NAMES, *split.galleries) if not gallery_sets.is_global(name)]
    if local not in known:
        raise ConfigError(f"--gallery: no local gallery {local!r}; choose one of {', '.join(known)}")
    deduplicate = files.read_metadata(request.manifest).get("deduplicate") is True
    columns: dict[str, Sequence[Sequence[int]]] = {}
    columns["local_idx"] = gallery_sets.gallery(split, local, deduplicate=deduplicate)
    if request.global_gallery:
        everywhere = "global_official" if "global_official" in split.galleries else "global_rows"
        columns["global_idx"] = gallery_sets.gallery(split, everywhere, deduplicate=deduplicate)
    return official.write(split, request.output, galleries=columns)


def _check(split: Split) -> None:
    """Raise `ManifestError` for a text that pandas, with which the released code reads, takes for a missing value."""
    import pandas as pd

    texts = [(query, text) for query in split.queries for text in (query.instruction, query.clip, *query.targets)]
    with io.StringIO(newline="") as file:
        csv.writer(file).writerows([text.strip()] for _, text in texts)
        file.seek(0)
        missing = pd.read_csv(file, header=None, dtype=str)[0].isna()
    for (query, text), is_missing in zip(texts, missing, strict=True):
        if is_missing:
            raise ManifestError(
                f"query {short(query.query_id)} has the text {short(text)}, which EgoCVR's code reads as a missing "
                "value"
            )


EXPORT = Export(
    name="composed",
    summary="EgoCVR's released evaluation",
    refuses="names and instructions that pandas takes for missing values",
    splits=write,
)


# --- protocols --------------------------------------------------------------------------------------------------------

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


_WEBVID = {"galleries": ["global_targets"], "shortlist": 20}
"""Table S2: the targets without the query's video, as in WebVid-CoVR's own evaluation."""


def _protocol(
    summary: str,
    *tables: str,
    dataset: str = "egocvr",
    unstated: str = "the local galleries: those that give the paper's mean size and chance",
    **composed: object,
) -> EvaluationProtocol:
    return EvaluationProtocol(
        name=f"egocvr_table_{tables[0]}",
        paper="egocvr",
        tables=tables,
        summary=f"composed: {summary}",
        datasets=(dataset,),
        evaluation={"num_frames": 15, "suites": [], "methods": ["none"]},
        suites={"mlvp": {}},
        composed={**_COMPOSED, **composed},
        needs={"pretrained": "CLIP ViT-L/14 (DataComp-1B) or BLIP-Large; EgoVLPv2 and LanguageBind: `perturb score`"},
        unstated=(unstated,),
    )


_MODELS = {
    "CLIP": StatedModel(name="CLIP", pooling="clip4clip", backbone="clip ViT-L/14"),
    "BLIP": StatedModel(name="BLIP", pooling="clip4clip", backbone="blip ViT-L/16"),
    "TF-CVR": StatedModel(name="EgoVLPv2"),
    "TFR-CVR": StatedModel(name="EgoVLPv2"),
}
"""What the workflow runs, and whose texts the second stage of TFR-CVR compares (Sec. 4)."""


def stated(cell: Published) -> StatedCell:
    """What a cell states (Sec. 5): nothing is perturbed; the gallery, the words and the stages are what differs."""
    if cell.metric == "mean_recall_change":
        return impossible("the difference of two rows that stand beside ours")
    webvid = cell.dataset == "webvid_covr"
    models = (
        {**_MODELS, **dict.fromkeys(("TF-CVR", "TFR-CVR"), StatedModel(name="LanguageBind"))} if webvid else _MODELS
    )
    key = StatedKey(
        dataset=cell.dataset,
        parts=(StatedPart("composed", "none", CLEAN),),
        metric=cell.metric,
        model=None if cell.method == "random" else models.get(cell.model, StatedModel(name=cell.model)),
        method=_WEBVID_METHODS.get(cell.method, cell.method) if webvid else _method(cell),
        gallery="global_targets" if webvid else cell.setting,
        frames="middle" if cell.note == "middle frame" else "mean",
        shortlist=20 if webvid else 15,
    )
    if key.model is None or (key.model.pooling and LANGUAGE_BIND not in key.method):
        return StatedCell(status="shown", reason="", key=key)
    if "cross_attention" in key.method:
        given = f"`perturb score --similarities --model {key.model.name}` takes its similarities"
        return StatedCell(status="needs features", reason=f"a query has no feature of its own: {given}", key=key)
    return needs_features(key, f"{LANGUAGE_BIND} and {key.model.name}" if LANGUAGE_BIND in key.method else "")


LANGUAGE_BIND = "LanguageBind"
_WEBVID_METHODS = {
    "average": "average released, instruction",
    "text": "text, tfcvr",
    "two_stage": "two_stage visual, tfcvr",
}


def _method(cell: Published) -> str:
    """The way to use a query, as results name it: the first of two stages is another model's."""
    if cell.method == "captioning" or (cell.model == "TFR-CVR" and cell.note.startswith("without re-ranking")):
        return "text, tfcvr"
    if cell.model == "TFR-CVR" and not cell.note.startswith("first stage EgoVLPv2"):
        return cell.method.replace("two_stage ", f"two_stage {LANGUAGE_BIND} ")
    if cell.note.startswith("with re-ranking"):
        return {
            "average released, instruction": f"two_stage_average {LANGUAGE_BIND} visual released, instruction",
            "cross_attention": f"two_stage_cross_attention {LANGUAGE_BIND} visual",
        }[cell.method]
    return cell.method


PROTOCOLS = PaperProtocols(
    paper="egocvr",
    title="EgoCVR",
    suite=None,
    metric="recall_at_1",
    scores=(),
    source="",
    stated=stated,
    protocols=(
        _protocol("all strategies, global and local", "1", "S1"),
        _protocol("whole clips, or with `composed.frames: middle` the middle frame", "2"),
        _protocol("the stages of TFR-CVR", "3"),
        _protocol("instruction, predicted and ground-truth caption", "4"),
        _protocol(
            "WebVid-CoVR-Test",
            "S2",
            dataset="webvid_covr",
            unstated="the words of CLIP's and BLIP's averages: the instruction. Of random orders the paper prints one "
            "draw (2, 6 and 9 hits of 2,556), and ours is the exact chance",
            **_WEBVID,
        ),
    ),
)
