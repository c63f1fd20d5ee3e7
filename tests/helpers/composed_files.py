"""Small annotation files of composed retrieval, and their settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perturbations.composed import sources
from perturbations.composed.split import Split
from perturbations.config import file as config_file
from perturbations.config import sections as configuration
from perturbations.corpus.plan import items
from perturbations.evaluation.composed.ways import STRATEGIES
from perturbations.retrieval.composed import AVERAGES

EGOCVR_POOL = [("u_0_9", "#C C cuts", "u"), ("u_9_18", "#C C peels", "u"), ("u_20_29", "#C C walks", "u")]


def write_egocvr(folder: Path, pool: Sequence[tuple[str, ...]] = EGOCVR_POOL) -> dict[str, str]:
    """The official files, of one query, and the settings of the dataset."""
    folder.mkdir(exist_ok=True)
    lines = ["clip_name,narration_text,video_uid", *(",".join(row) for row in pool)]
    (folder / "egocvr_data.csv").write_text("\n".join(lines) + "\n")
    header = "video_clip_id,target_clip_ids,video_clip_narration,target_clip_narration,instruction,modified_captions"
    row = "u_0_9,['u_9_18'],#C C cuts,#C C peels,Peel it., #C C peels"
    (folder / "egocvr_annotations.csv").write_text(f"{header}\n{row}\n")
    return {"adapter": "egocvr", "annotations": str(folder / "egocvr_annotations.csv"), "videos": str(folder)}


def parse(dataset: dict[str, Any], **more: Any) -> configuration.Config:
    return config_file.parse({"datasets": {"mine": dataset}, "suites": {"mlvp": {}}, **more})


def split_of(dataset: dict[str, Any]) -> Split:
    config = parse(dataset)
    settings = config.datasets["mine"]
    return sources.read_split(settings, items.read("mine", settings, videos=False), 0, "mine")


EVERY = {
    "galleries": ("local_full",),
    "strategies": STRATEGIES,
    "words": ("instruction", "tfcvr", "gt"),
    "averages": AVERAGES,
    "first_stage": ("visual",),
    "shortlist": 15,
    "source_in_gallery": None,
    "top_k": None,
}
