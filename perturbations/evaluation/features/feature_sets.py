"""Files of features by what is perturbed, as `perturb encode` writes and `perturb score` reads them, and their answers.

A folder holds `clean.npz`, `SUITE/PERTURBATION/SEVERITY.npz`, `SUITE/PERTURBATION/mixed_severity.npz` and
`SUITE/all/mixed_types_SHARE.npz`, or other suffixes that are read.
"""

from __future__ import annotations

import csv
import io
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perturbations.base import storage
from perturbations.base.errors import AnnotationError, UnknownPerturbationError, short
from perturbations.corpus.captions.mixes import SHARES
from perturbations.datasets import parsing
from perturbations.datasets.listing import at
from perturbations.evaluation.features.feature_reading import SUFFIXES, lists_ids, tensors_beside
from perturbations.evaluation.plan.planned_runs import ALL, CLEAN
from perturbations.evaluation.result_rows import ScenarioKey
from perturbations.suites import suite_registry

_log = logging.getLogger("perturbations")

Answers = Mapping[str, Sequence[str]]
"""The gallery's ids that answer each listed query, by the query's id."""

_RELEVANT = ("query_id", "gallery_id")
"""The columns of a file of answers; in qrels the second is corpus_id."""

_ANSWERS = (("t2v",), ("v2t",))
"""Files of answers in a folder of features, as `perturb encode` writes them."""

_NAMED = 3
"""How many of the ignored files a warning names."""

_MIXES = {"mixed_severity": None, **{f"mixed_types_{share}": share for share in SHARES}}
"""The share of perturbed clips, by the name of a file."""


def medium_of(scenario: ScenarioKey) -> suite_registry.Medium:
    """Whether clips or captions are perturbed; only clips are mixed."""
    return "video" if scenario.mix else suite_registry.get(f"{scenario.suite}/{scenario.perturbation}").kind


FeatureSet = Mapping[ScenarioKey | None, Path]
"""The files of one side of a retrieval, by their scenario; None is the clean file."""


def path_of(folder: Path, scenario: ScenarioKey | None) -> Path:
    """The file of perturbed features, or of clean ones, in a folder."""
    if scenario is None:
        return folder / f"{CLEAN}.npz"
    last = (
        scenario.severity if scenario.mix is None else "_".join(map(str, filter(None, (scenario.mix, scenario.share))))
    )
    return folder / scenario.suite / scenario.perturbation / f"{last}.npz"


def located(path: Path) -> FeatureSet:
    """The feature files at a path: a single file, or a folder as `perturb encode` writes it.

    A CSV beside a tensor may list its ids. Other files are left out, with a warning that names them. Raises
    `AnnotationError` for a folder without a clean file, for unknown scenarios, and for two files of one scenario.
    """
    if not path.is_dir():
        return {None: path}
    held: dict[ScenarioKey | None, Path] = {}
    others: list[Path] = []
    # Level by level, which follows links to folders, as `**` does not.
    for file in sorted(file for depth in range(1, 4) for file in path.glob("/".join("*" * depth))):
        parts = (*file.relative_to(path).parts[:-1], file.stem)
        if file.is_dir() and len(parts) < 3:
            continue
        if file.is_dir() or file.suffix.lower() not in SUFFIXES or not (len(parts) == 3 or parts == (CLEAN,)):
            others += [file] if parts not in _ANSWERS else []
        elif not (lists_ids(file) and tensors_beside(file)):
            scenario = None if parts == (CLEAN,) else _scenario(file, parts)
            if scenario in held:
                raise AnnotationError(f"{held[scenario]} and {file} are of the same features: delete one of them")
            held[scenario] = file
    if None not in held:
        inside = next((f"; did you mean {file.parent}?" for file in others if file.stem == CLEAN), "")
        raise AnnotationError(f"{path} holds no {CLEAN}.npz: the features of what is not perturbed{inside}")
    if others:
        others.sort(key=lambda file: len(file.parts), reverse=True)  # those of scenarios first
        names = ", ".join(map(str, others[:_NAMED]))
        names += f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        places = f"{CLEAN} or SUITE/PERTURBATION/SEVERITY with {', '.join(SUFFIXES)}"
        _log.warning("%s: left out, a file of features is %s", names, places)
    return held


def _scenario(file: Path, parts: Sequence[str]) -> ScenarioKey:
    suite, name, last = parts
    try:
        if last in _MIXES and (_MIXES[last] is None or name == ALL):
            if _MIXES[last] is None:
                suite_registry.get(f"{suite}/{name}")
                return ScenarioKey(suite, name, mix=last)
            return ScenarioKey(suite_registry.suite(suite).name, name, mix="mixed_types", share=_MIXES[last])
        entry = suite_registry.get(f"{suite}/{name}")
    except UnknownPerturbationError as error:
        raise AnnotationError(f"{file}: {error}") from error
    if not last.isdecimal() or int(last) not in entry.severities:
        known = ", ".join(map(str, entry.severities))
        raise AnnotationError(f"{file}: {entry.key} has no severity {short(last)}; it has {known}")
    return ScenarioKey(suite, name, int(last))


def perturbed(held: FeatureSet) -> dict[ScenarioKey, Path]:
    """The perturbed files."""
    return {scenario: path for scenario, path in held.items() if scenario is not None}


def combined(clips: Iterable[ScenarioKey], texts: Iterable[ScenarioKey]) -> list[tuple[ScenarioKey, ScenarioKey]]:
    """The combinations of perturbed clips and perturbed captions that suites declare, where both are given."""
    highest = {(text.suite, text.perturbation): text for text in sorted(texts, key=lambda own: own.severity or 0)}
    of_clips = {*clips}
    pairs = []
    for name in dict.fromkeys(clip.suite for clip in sorted(of_clips, key=str)):
        declared = suite_registry.suite(name).combined
        if declared is None:
            continue
        for video in declared.video:
            clip = ScenarioKey(name, video, declared.severity)
            held = [highest[name, text] for text in declared.text if (name, text) in highest]
            pairs += [(clip, text) for text in held if clip in of_clips]
    return pairs


def read_answers(path: Path, direction: str = "") -> dict[str, list[str]]:
    """The answers in a table, one pair per line. Raises `AnnotationError`.

    It has the columns query_id and gallery_id (or corpus_id, as in qrels), and perhaps score and others. An item with a
    score above 0, or without that column, answers the query; a line with another score or without a gallery_id only
    lists the query. A dataset's `qrels.parquet` says which clip answers a caption: in the `direction` v2t, which
    caption answers a clip.
    """
    is_parquet = path.suffix.lower() == ".parquet"
    header = parsing.header(path)
    query, item = _RELEVANT[0], "corpus_id" if "corpus_id" in header and _RELEVANT[1] not in header else _RELEVANT[1]
    columns = [query, item, *(["score"] if "score" in header else [])]
    way_out = f"; name its columns {query} and {item}"
    rows = parsing.parquet(path, columns, way_out) if is_parquet else parsing.table(path, columns, way_out)
    answers: dict[str, list[str]] = {}
    for place, row in rows:
        where = f"{path}, {at(place)}"
        held: dict[str | None, object] = {} if not isinstance(row, dict) else row
        asks, answer = ("" if (value := held.get(name)) is None else str(value).strip() for name in (query, item))
        if None in held or not asks or item not in held:
            raise AnnotationError(f"{where}: a line has a {query} and a {item}, and a field of each column")
        if is_parquet and item == "corpus_id" and direction == "v2t":
            asks, answer = answer, asks
        if not _score(where, held.get("score", 1)) > 0:
            answer = ""
        if answer in answers.setdefault(asks, []):
            raise AnnotationError(f"{where}: the pair {short(asks)}, {short(answer)} is in two rows")
        answers[asks] += [answer] if answer else []
    if not any(answers.values()):
        raise AnnotationError(f"{path} lists no pair")
    return answers


def _score(where: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise AnnotationError(f"{where}: the score is {short(value)}, not a number; above 0 an item answers the query")
    return number


def write_answers(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Write the CSV that `read_answers` reads: pairs of a query's id and the id of an item that answers it."""
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([_RELEVANT, *pairs])
    storage.write_text(path, content.getvalue())
