"""Files of features by what is perturbed, as `perturb encode` writes and `perturb score` reads them, and their answers.

A folder holds `clean.npz`, `SUITE/PERTURBATION/SEVERITY.npz`, `SUITE/PERTURBATION/mixed_severity.npz` and
`SUITE/all/mixed_types_SHARE.npz`, or other suffixes that are read.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from perturbations.base import storage
from perturbations.base.errors import AnnotationError, ManifestError, short
from perturbations.corpus.mixes import SHARES
from perturbations.datasets import parsing
from perturbations.evaluation.planning import ALL, CLEAN
from perturbations.evaluation.rows import ScenarioKey
from perturbations.evaluation.stored_features import SUFFIXES
from perturbations.manifest import files
from perturbations.manifest.kinds import QRELS
from perturbations.suites import registry

Answers = Mapping[str, Sequence[str]]
"""The gallery's ids that answer each listed query, by the query's id."""

_RELEVANT = ("query_id", "gallery_id")
"""The columns of a file of answers."""
_QRELS = ("query_id", "corpus_id")
"""The same in qrels."""

_MIXES = {"mixed_severity": None, **{f"mixed_types_{share}": share for share in SHARES}}
"""The share of perturbed clips, by the name of a file."""


def medium_of(scenario: ScenarioKey) -> registry.Medium:
    """Whether clips or captions are perturbed; only clips are mixed."""
    return "video" if scenario.mix else registry.get(f"{scenario.suite}/{scenario.perturbation}").kind


FeatureSet = Mapping[ScenarioKey | None, Path]
"""The files of one side of a retrieval, by what they are perturbed by: the clean one by None."""


def path_of(folder: Path, scenario: ScenarioKey | None) -> Path:
    """The file of perturbed features, or of clean ones, in a folder."""
    if scenario is None:
        return folder / f"{CLEAN}.npz"
    last = (
        scenario.severity if scenario.mix is None else "_".join(map(str, filter(None, (scenario.mix, scenario.share))))
    )
    return folder / scenario.suite / scenario.perturbation / f"{last}.npz"


def located(path: Path) -> FeatureSet:
    """The files of features at a path: one file, or a folder as `perturb encode` writes it.

    Raises `AnnotationError` for a folder without a clean file, for other names in it, and for two files of one name.
    """
    if not path.is_dir():
        return {None: path}
    held: dict[tuple[str, ...], Path] = {}
    for file in sorted(path.rglob("*")):
        parts = (*file.relative_to(path).parts[:-1], file.stem)
        beside = file.suffix == ".csv" and any(file.with_suffix(suffix).is_file() for suffix in SUFFIXES)
        if len(parts) not in (1, 3) or file.suffix not in (*SUFFIXES, ".csv") or beside or not file.is_file():
            continue  # a CSV beside a tensor lists its ids
        if parts in held:
            raise AnnotationError(f"{held[parts]} and {file} are of the same features: delete one of them")
        held[parts] = file
    if (CLEAN,) not in held:
        raise AnnotationError(f"{path} holds no {CLEAN}.npz: the features of what is not perturbed")
    return {None: held[CLEAN,]} | {_scenario(file, parts): file for parts, file in held.items() if len(parts) == 3}


def _scenario(file: Path, parts: Sequence[str]) -> ScenarioKey:
    suite, name, last = parts
    if last in _MIXES and (_MIXES[last] is None or name == ALL):
        if _MIXES[last] is None:
            registry.get(f"{suite}/{name}")
            return ScenarioKey(suite, name, mix=last)
        return ScenarioKey(registry.suite(suite).name, name, mix="mixed_types", share=_MIXES[last])
    entry = registry.get(f"{suite}/{name}")
    if not last.isdecimal() or int(last) not in entry.severities:
        raise AnnotationError(f"{file}: {entry.key} has no severity {short(last)}")
    return ScenarioKey(suite, name, int(last))


def perturbed(held: FeatureSet) -> dict[ScenarioKey, Path]:
    """The perturbed files."""
    return {scenario: path for scenario, path in held.items() if scenario is not None}


def combined(clips: Iterable[ScenarioKey], texts: Iterable[ScenarioKey]) -> list[tuple[ScenarioKey, ScenarioKey]]:
    """The combinations of perturbed clips and perturbed captions that suites declare, as far as both are there."""
    highest = {(text.suite, text.perturbation): text for text in sorted(texts, key=lambda own: own.severity or 0)}
    of_clips = {*clips}
    pairs = []
    for name in dict.fromkeys(clip.suite for clip in sorted(of_clips, key=str)):
        declared = registry.suite(name).combined
        if declared is None:
            continue
        for video in declared.video:
            clip = ScenarioKey(name, video, declared.severity)
            held = [highest[name, text] for text in declared.text if (name, text) in highest]
            pairs += [(clip, text) for text in held if clip in of_clips]
    return pairs


def read_answers(path: Path, direction: str = "") -> dict[str, list[str]]:
    """The answers in a table, one pair per line. Raises `AnnotationError`.

    A CSV has the columns query_id and gallery_id (or corpus_id, as in qrels), and perhaps score and others; a line
    without a gallery_id, or with a score of 0, lists a query that nothing answers. A dataset's `qrels.parquet` says
    which clip answers a caption: in the `direction` v2t, which caption answers a clip.
    """
    answers: dict[str, list[str]] = {}
    for where, query, item in _pairs_of_qrels(path, direction) if path.suffix == ".parquet" else _pairs(path):
        if item in answers.setdefault(query, []):
            raise AnnotationError(f"{where}: {short(query)} and {short(item)} stand there twice")
        answers[query] += [item] if item else []
    if not any(answers.values()):
        raise AnnotationError(f"{path} lists no pair")
    return answers


def _pairs(path: Path) -> Iterator[tuple[str, str, str]]:
    """The place of each line of a CSV, its query, and the item that answers it, or ""."""
    query, item = _RELEVANT[0], _RELEVANT[1]
    item = _QRELS[1] if _QRELS[1] in parsing.header(path) and item not in parsing.header(path) else item
    for place, row in parsing.table(path, (query, item)):
        where = f"{path}, line {place}"
        if not isinstance(row, dict) or None in row or not row.get(query, "").strip() or item not in row:
            raise AnnotationError(f"{where}: a line has a {query} and a {item}, and a field of each column")
        is_relevant = row.get("score", "1").strip() not in ("0", "0.0")
        yield where, row[query].strip(), row[item].strip() if is_relevant else ""


def _pairs_of_qrels(path: Path, direction: str) -> Iterator[tuple[str, str, str]]:
    try:
        rows = files.read_rows(path, QRELS)
    except ManifestError as error:
        raise AnnotationError(f"{error}; pairs of other programs are read from a CSV") from error
    for place, row in enumerate(rows):
        pair = (row.corpus_id, row.query_id) if direction == "v2t" else (row.query_id, row.corpus_id)
        yield f"{path}, row {place}", *pair


def write_answers(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Write the CSV that `read_answers` reads: pairs of a query's id and the id of an item that answers it."""
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([_RELEVANT, *pairs])
    storage.write_text(path, content.getvalue())
