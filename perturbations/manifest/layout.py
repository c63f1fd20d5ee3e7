"""Where every file of a run lies, below `work/`, `manifests/` and `corpora/`: one table, read in both directions.

A place is a kind of file with the values of its pattern's fields. `path_of` and `place_of` are inverse to each other.
Snakemake's rules take the patterns as they are, with their fields as wildcards. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from perturbations.base import wings

WORK, MANIFESTS, CORPORA = "work", "manifests", "corpora"
TOP = (WORK, MANIFESTS, CORPORA)
"""The folders in which all lies that runs make."""

_PATTERNS = {
    # what planning writes
    "shard_list": "work/{dataset}/shards/{shard}.jsonl",
    "caption_list": "work/{dataset}/captions/{shard}.jsonl",
    "all_captions": "work/{dataset}/captions.jsonl",
    "rejected": "work/{dataset}/rejected.jsonl",
    "rejected_captions": "work/{dataset}/rejected_captions.jsonl",
    "video_recipes": "work/{dataset}/{suite}/recipes.jsonl",
    "text_recipes": "work/{dataset}/{suite}/captions/recipes.jsonl",
    # the parts of shards
    "source_part": "work/{dataset}/sources/{shard}.parquet",
    "analysis_part": "work/{dataset}/analyses/{analysis}/{shard}.parquet",
    "video_part": "work/{dataset}/{suite}/{perturbation}/{severity}/{shard}.parquet",
    "text_part": "work/{dataset}/{suite}/captions/{perturbation}/{severity}/{shard}.parquet",
    "analysis_files": "work/{dataset}/analyses/{analysis}/files",
    "similarities": "work/{dataset}/similarities/{shard}",
    "videos_checked": "work/{dataset}/{suite}/checked.txt",
    "captions_checked": "work/{dataset}/captions_checked.txt",
    # manifests
    "sources": "manifests/{dataset}/sources.parquet",
    "captions": "manifests/{dataset}/captions.parquet",
    "qrels": "manifests/{dataset}/qrels.parquet",
    "captions_quarantine": "manifests/{dataset}/captions_quarantine.parquet",
    "analyses": "manifests/{dataset}/{analysis}.parquet",
    "videos": "manifests/{dataset}/{suite}/videos.parquet",
    "quarantine": "manifests/{dataset}/{suite}/quarantine.parquet",
    "mixed_severity": "manifests/{dataset}/{suite}/mixed_severity.parquet",
    "mixed_types": "manifests/{dataset}/{suite}/mixed_types.parquet",
    "multimodal": "manifests/{dataset}/{suite}/multimodal.parquet",
    "texts": "manifests/{dataset}/{suite}/captions.parquet",
    "text_statistics": "manifests/{dataset}/{suite}/caption_statistics.parquet",
    "card": "manifests/{dataset}/{suite}/README.md",
    "caption_page": "manifests/{dataset}/{suite}/captions.md",
    # clips
    "clips": "corpora/{dataset}/{suite}/{perturbation}/{severity}",
    # of every job
    "log": "work/logs/{job}.log",
    "benchmark": "work/benchmarks/{job}.tsv",
}

_NAME = "[a-z][a-z0-9_]*"
_FIELDS = {
    "dataset": f"{_NAME}(?:/whole|/composed)?",
    "perturbation": "[A-Za-z0-9_]+",
    "severity": "[1-9][0-9]*",
    "shard": "s[0-9a-f]+",
    "job": r"[A-Za-z0-9_./-]+",
    "model": r"[A-Za-z0-9_.-]+",
}
"""What the fields may hold; every other one is a name."""


@dataclass(frozen=True)
class Place:
    """A kind of file, and the values of its pattern's fields."""

    kind: str
    fields: Mapping[str, str]


@cache
def patterns() -> dict[str, str]:
    """Kind -> its path with fields in braces: those of the spine, then those of the wings."""
    return _PATTERNS | {kind: text for of_wing in wings.offered("places") for kind, text in of_wing.items()}


def pattern(kind: str) -> str:
    """A kind's path, with its fields as wildcards of Snakemake."""
    return patterns()[kind]


def path_of(place: Place) -> str:
    """The path of a place, relative to the folder in which jobs work."""
    return pattern(place.kind).format_map(place.fields)


def at(kind: str, /, **fields: object) -> str:
    """The path of a kind of file with these fields."""
    return path_of(Place(kind, {name: str(value) for name, value in fields.items()}))


def folder(kind: str, /, **fields: object) -> str:
    """The folder that holds a kind of file; without fields, with wildcards."""
    text = pattern(kind).rpartition("/")[0]
    return text.format_map(fields) if fields else text


def place_of(path: str) -> Place | None:
    """The place of a path; None for one that no pattern has. Of several, the one with the fewest fields."""
    for kind, compiled in _compiled():
        if match := compiled.fullmatch(path):
            return Place(kind, match.groupdict())
    return None


@cache
def _compiled() -> list[tuple[str, re.Pattern[str]]]:
    ordered = sorted(patterns().items(), key=lambda item: (item[1].count("{"), -len(item[1])))
    return [(kind, re.compile(_expression(text))) for kind, text in ordered]


def _expression(text: str) -> str:
    parts = re.split(r"\{(\w+)\}", text)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [f"(?P<{name}>{_FIELDS.get(name, _NAME)})" for name in parts[1::2]]
    return "".join(parts)
