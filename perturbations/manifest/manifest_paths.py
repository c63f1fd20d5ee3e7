"""Where every file of a run lies, below `work/`, `manifests/` and `corpora/`: tables of paths with fields in braces.

Planning and jobs take paths from here. The rules of Snakemake write the paths of their own files out, so that a rule
can be read alone. Standard library only.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePath, PurePosixPath

WORK, MANIFESTS, CORPORA = "work", "manifests", "corpora"
TOP = (WORK, MANIFESTS, CORPORA)
INDEX = f"{MANIFESTS}/index.html"
"""The page of all pages, which the end of every run writes."""

TABLES = ".tables"
"""The ending of the folder of a page's tables, which lies beside the page. No dataset's name has a dot."""

RESERVED = frozenset({MANIFESTS, "logs", "demo_encoder", "split"})
"""Names that no dataset can have, because these folders hold something else. With `split`, the target
composed_<dataset> would have the name of a rule.
"""

_MANIFEST, RECORD = ".parquet", ".sha256"

MANIFEST_FILES = {
    "sources": "manifests/{dataset}/sources.parquet",
    "captions": "manifests/{dataset}/captions.parquet",
    "questions": "manifests/{dataset}/questions.parquet",
    "qrels": "manifests/{dataset}/qrels.parquet",
    "analyses": "manifests/{dataset}/{analysis}.parquet",
    "videos": "manifests/{dataset}/{suite}/videos.parquet",
    "mixed_severity": "manifests/{dataset}/{suite}/mixed_severity.parquet",
    "mixed_types": "manifests/{dataset}/{suite}/mixed_types.parquet",
    "texts": "manifests/{dataset}/{suite}/captions.parquet",
    "multimodal": "manifests/{dataset}/{suite}/multimodal.parquet",
    "text_statistics": "manifests/{dataset}/{suite}/caption_statistics.parquet",
    "quarantine": "manifests/{dataset}/{suite}/quarantine.parquet",
    "captions_quarantine": "manifests/{dataset}/captions_quarantine.parquet",
    "composed_pool": "manifests/{dataset}/composed/pool.parquet",
    "composed_queries": "manifests/{dataset}/composed/queries.parquet",
    "composed_galleries": "manifests/{dataset}/composed/galleries.parquet",
    "composed_qrels": "manifests/{dataset}/composed/qrels.parquet",
    "results": "manifests/{dataset}/{kind}/{model}/results.parquet",
    "ranks": "manifests/{dataset}/{kind}/{model}/ranks.parquet",
}
"""The path of every manifest, by its name here. Several may be of one kind of rows (`manifest.rows`)."""

PATTERNS = {
    # what planning writes: no list beside one of another plan, because Snakemake lists a folder once
    "shard_list": "work/{dataset}/shards/{shard}.jsonl",
    "caption_list": "work/{dataset}/captions/{shard}.jsonl",
    "all_captions": "work/{dataset}/lists/captions.jsonl",
    "all_questions": "work/{dataset}/lists/questions.jsonl",
    "rejected": "work/{dataset}/lists/rejected.jsonl",
    "attributes": "work/{dataset}/lists/attributes.jsonl",
    "times": "work/{dataset}/lists/times.json",
    "rejected_captions": "work/{dataset}/rejected_captions.jsonl",
    "video_recipes": "work/{dataset}/{suite}/recipes/videos.jsonl",
    "text_recipes": "work/{dataset}/{suite}/captions/recipes.jsonl",
    # the parts of shards
    "source_part": "work/{dataset}/sources/{shard}.parquet",
    "analysis_part": "work/{dataset}/analyses/{analysis}/{shard}.parquet",
    "video_part": "work/{dataset}/{suite}/{perturbation}/{severity}/{shard}.parquet",
    "text_part": "work/{dataset}/{suite}/captions/{perturbation}/{severity}/{shard}.parquet",
    "text_marker": "work/{dataset}/{suite}/captions/{shard}.json",
    "analysis_files": "work/{dataset}/analyses/{analysis}/files",
    "videos_checked": "work/{dataset}/{suite}/checked.txt",
    "captions_checked": "work/{dataset}/captions_checked.txt",
    # of evaluations; `model` is the key of a configured model
    "demo_encoder": "work/demo_encoder",
    "composed_rejected": "work/{dataset}/composed/rejected_captions.jsonl",
    "checked_model": "work/models/{model}.json",
    "encoded": "work/{dataset}/evaluation/{model}/{modality}.safetensors",
    "evaluation_part": "work/{dataset}/evaluation/{model}/{job}.parquet",
    "evaluation_ranks": "work/{dataset}/evaluation/{model}/{job}.ranks.parquet",
    # pictures and pages beside manifests
    "index": INDEX,
    "card": "manifests/{dataset}/{suite}/README.md",
    "preview": "manifests/{dataset}/{suite}/preview.png",
    "corpus_page": "manifests/{dataset}/{suite}/corpus.html",
    "caption_pairs": "manifests/{dataset}/{suite}/captions.html",
    "results_page": "manifests/report.html",
    "results_tables": f"manifests/report{TABLES}",
    # clips
    "clips": "corpora/{dataset}/{suite}/{perturbation}/{severity}",
    "clip_tar": "corpora/{dataset}/{suite}/{perturbation}/{severity}/{shard}.tar",
    "clip_marker": "corpora/{dataset}/{suite}/{perturbation}/{severity}/.{shard}.json",
    # of every job
    "log": "work/logs/{job}.log",
    **MANIFEST_FILES,
}
"""The path of every kind of file."""

WHOLE, COMPOSED = "whole", "composed"
"""Below a dataset's folder: what is made of its whole videos, and its queries of a clip and an instruction."""

NAME = "[a-z][a-z0-9_]*"


def proper_name(text: str) -> str:
    """The name of a dataset that is nearest to a text; empty if no letter of it can be in a name."""
    letters = unicodedata.normalize("NFKD", text.lower()).encode("ascii", "ignore").decode()  # without accents
    name = re.sub(r"[^a-z0-9_]+", "_", letters).strip("_").lstrip("_0123456789")
    return "" if name in RESERVED else name


_FIELDS = {
    "dataset": f"{NAME}(?:/{WHOLE}|/{COMPOSED})?",
    "perturbation": "[A-Za-z0-9_]+",
    "severity": "[1-9][0-9]*",
    "shard": "s[0-9a-f]+",
    "job": r"[A-Za-z0-9_./-]+",
    "kind": "adaptation|evaluation|composed",
    "model": "[A-Za-z0-9_.-]+",
}
"""What the fields may hold; every other one is a `NAME`."""


def at(kind: str, /, **fields: object) -> str:
    """The path of a kind of file with these fields, relative to the folder in which jobs work."""
    return PATTERNS[kind].format_map(fields)


def name(kind: str, /, **fields: object) -> str:
    """The name of a kind of file, without its folder."""
    return PATTERNS[kind].rpartition("/")[2].format_map(fields)


def any_of(kind: str, /, **fields: object) -> str:
    """The paths of a kind of file with these fields, as a pattern in which each other field is `*`."""
    names = re.findall(r"\{(\w+)\}", PATTERNS[kind])
    return PATTERNS[kind].format_map(dict.fromkeys(names, "*") | fields)


def folder(kind: str, /, **fields: object) -> str:
    """The folder that holds a kind of file; without fields, with wildcards."""
    text = PATTERNS[kind].rpartition("/")[0]
    return text.format_map(fields) if fields else text


def journal_of(part: Path) -> Path:
    """The journal of the job that makes a part: beside it."""
    return part.with_suffix(".jsonl")


def journals_in(folder: Path) -> list[Path]:
    """The journals beside the parts in a folder, sorted."""
    return sorted(folder.glob("*.jsonl"))


def clips_below(folder: PurePath) -> str:
    """The folder in which all clips lie that the manifests in a folder below `manifests/` name."""
    return PurePosixPath(CORPORA, *folder.parts[1:]).as_posix()


def is_manifest(path: Path) -> bool:
    """Whether a file is named like a manifest or a part of one."""
    return path.suffix == _MANIFEST


def manifests_below(folder: Path) -> list[Path]:
    """The manifests and the parts in a folder and below it, sorted."""
    return sorted(folder.rglob(f"*{_MANIFEST}"))


def files_below(folder: Path) -> Iterator[Path]:
    """The files in a folder and below it; a link to a folder counts as a file."""
    for top, folders, names in os.walk(folder):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(top, name))]
        yield from (Path(top, name) for name in sorted([*names, *links]))


def in_tree(path: Path, folder: str = MANIFESTS) -> tuple[Path, Path] | None:
    """The root of the tree that a path lies in, and the path from there: `manifests/...`. None for any other path.

    The last of several folders of that name counts. A job's paths begin in its working directory, `Path()`.
    """
    if path.parts[:1] == (folder,):
        return Path(), path
    parts = Path(os.path.abspath(path)).parts
    if folder not in parts:
        return None
    top = len(parts) - 1 - parts[::-1].index(folder)
    return Path(*parts[:top]), Path(*parts[top:])


def record_of(manifest: Path) -> Path | None:
    """The file in a run's `work` that has the SHA-256 of a manifest which the run wrote; None where there is no run."""
    tree = in_tree(manifest)
    if tree is None or not (tree[0] / WORK).is_dir():
        return None
    return tree[0].joinpath(WORK, *tree[1].parts[1:]).with_suffix(RECORD)


def recorded_below(folder: Path) -> list[Path]:
    """The manifests in a folder of `manifests` and below it that a run wrote, sorted, whether they lie there or not."""
    record = record_of(folder / "any")
    if record is None:
        return []
    return sorted(
        folder / path.relative_to(record.parent).with_suffix(_MANIFEST) for path in record.parent.rglob(f"*{RECORD}")
    )


def place_of(path: str) -> tuple[str, dict[str, str]] | None:
    """The kind and the fields of the file at a path; None for one that no run writes.

    Where several kinds fit, the kind with the fewest fields.
    """
    for kind, compiled in _compiled():
        if match := compiled.fullmatch(path):
            return kind, match.groupdict()
    return None


@cache
def _compiled() -> list[tuple[str, re.Pattern[str]]]:
    ordered = sorted(PATTERNS.items(), key=lambda item: (item[1].count("{"), -len(item[1])))
    return [(kind, re.compile(_expression(text))) for kind, text in ordered]


def _expression(text: str) -> str:
    parts = re.split(r"\{(\w+)\}", text)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [f"(?P<{name}>{expression(name)})" for name in parts[1::2]]
    return "".join(parts)


def expression(field: str) -> str:
    """What a field of patterns may hold, as a regular expression."""
    return _FIELDS.get(field, NAME)
