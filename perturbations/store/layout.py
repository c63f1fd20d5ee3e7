"""The paths of packs, and of what planning hands to jobs on other machines."""

from pathlib import Path

PLACES = {
    "clip_pack": "work/{dataset}/shards/{shard}.tar",
    "source_pack": "work/{dataset}/sources/{shard}.tar",
    "analysis_pack": "work/{dataset}/analyses/{analysis}/{shard}.tar",
    "video_pack": "work/{dataset}/{suite}/{perturbation}/{severity}/{shard}.tar",
    "text_pack": "work/{dataset}/{suite}/captions/{shard}.tar",
    "plan": "work/{dataset}/plan.json",
    "caption_plan": "work/{dataset}/captions.json",
}


def pack_of(part: Path) -> Path:
    """The pack of the files that a part names: beside it."""
    return part.with_suffix(".tar")
