"""Answers of models, from logs of lmms-eval and of VLMEvalKit, and from plain tables."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from perturbations.base import shown
from perturbations.base.errors import AnnotationError, ConfigError, cut, short
from perturbations.datasets.fields import checked_all, text_of
from perturbations.datasets.parsing import Rows, json_list, numbered, rows_of, whole_json
from perturbations.exports.export_names import CLEAN
from perturbations.manifest.rows import QuestionRow
from perturbations.questions.answer_rows import AnswerRow, CellKey
from perturbations.questions.answering import LETTERS, parsed

_log = logging.getLogger("perturbations")

_BUDGET = re.compile(
    r"(\w*_)?(num_frames|max_frames\w*|min_frames|frames|nframes?|num_segments|fps|sampler|frame_size|resolution)"
    r"|(max|min|total)_pixels|\w*video_decode\w*|torchcodec_\w+"
)
"""Names of settings about the frames that a model sees."""

_HARNESS_TABLES = ("*_samples_*.jsonl", "*.xlsx", "*.tsv")
_SHOWN = 3

Record = Mapping[str, Any]
Named = Callable[[str], CellKey]
"""A function that gives a cell by its name."""

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class _Log:
    """A file of answers: facts about all its answers, and the record of each answer with its place."""

    path: Path
    records: Sequence[tuple[str, Record]]
    model: str = ""
    budget: str = ""
    task: str = ""
    cache: str = ""


class Questions:
    """The table of questions, its path and hash, and how logs name its rows."""

    def __init__(self, rows: Sequence[QuestionRow], sha256: str, path: Path) -> None:
        self.sha256, self.path = sha256, path
        self._known: dict[object, list[QuestionRow]] = defaultdict(list)
        for row in rows:
            names = {row.question_id, _as_number(row.question_id), (row.cluster, row.question)}
            for name in names | {("", row.source_index), (row.category, row.source_index)}:
                self._known[name].append(row)

    def named(self, record: Record, task: str) -> QuestionRow | None:
        """The question of a record, also of an official task; None where the table does not have it.

        Raises `ConfigError` where a record has only a place in the annotations, and the answer at that place differs.
        """
        names: list[object] = []
        for own in (record, *(value for value in record.values() if isinstance(value, dict))):
            names += [own["question_id"], _as_number(own["question_id"])] if "question_id" in own else []
            names.append((str(own.get("video_name")), str(own.get("question"))))
        names += record["submission"] if isinstance(record.get("submission"), dict) else []  # {q_uid: option}
        for name in names:
            if len(rows := self._known.get(name, [])) == 1:
                return rows[0]
        place = _as_number(record.get("doc_id", record.get("index")))
        rows = self._known.get((task.removeprefix("mvbench_") if task.startswith("mvbench_") else "", place), [])
        if "question_id" in record or len(rows) != 1:
            return None
        (row,), target = rows, str(record.get("target", record.get("answer", ""))).strip()
        if target and target not in (LETTERS[row.answer], str(row.answer), row.options[row.answer]):
            raise ConfigError(
                f"question {place} of the log has the answer {short(target)}, and row {place} of {self.path} has "
                f"{short(row.options[row.answer])}: the log is of another table, or of another order"
            )
        return row


def _as_number(name: object) -> object:
    """An id of digits as the number that some programs make of it: 1 for `001` or `1.0`; any other id is unchanged."""
    text = str(name).removesuffix(".0")
    return int(text) if text.isdecimal() and len(text) < 19 else str(name)


def read(
    paths: Sequence[Path],
    questions: Questions,
    cells: Mapping[Path, CellKey],
    models: Mapping[Path, str],
    named: Named,
) -> list[AnswerRow]:
    """Every answer in the logs, without duplicates, parsed again by one parser.

    `cells` and `models` belong to files (or folders of files) that do not name their own; `named` gives a cell by name.
    Raises `ConfigError` and `AnnotationError` for logs that cannot be compared; says what is left out.
    """
    logs = [_opened(path) for path in _files(paths)]
    _check_caches(logs, cells)
    rows: dict[tuple[object, ...], tuple[AnswerRow, str]] = {}
    notes: dict[str, list[str]] = defaultdict(list)
    for log in logs:
        of_file, name = _given(cells, log.path), _given(models, log.path)
        for where, record in log.records:
            place = f"{log.path}, {where}"
            own = next((value for value in record.values() if _is_own(value)), record)
            _check_table(own, questions, place)
            question = questions.named(own if _is_own(own) else record, log.task)
            if question is None:
                notes[_STRANGE].append(f"{short(str(own.get('question_id', record.get('doc_id'))))} ({place})")
                continue
            cell = _cell(own, of_file, named, log.path, place)
            model = name or text_of(own.get("model")).strip() or log.model
            if not model:
                raise ConfigError(f"{place}: the log does not say its model: --model NAME={log.path}")
            response = _response(record, own)
            option = parsed(response, question.options)
            row = AnswerRow(
                model=model,
                budget=log.budget or _budget(own),
                **cell._asdict(),
                cell=cell.name,
                question_id=question.question_id,
                response=response,
                parsed=option,
                correct=option == question.answer,
                reported_score=_reported(record),
            )
            known = rows.setdefault((row.model, row.budget, *cell, row.question_id), (row, place))
            if known[0] is not row:
                _check_same(known, row, place, log.path)
                notes[_TWICE].append(f"{row.question_id} ({place})")
                continue
            if option is None:
                notes[_UNPARSED].append(f"{short(response)} ({place})")
            if row.reported_score is not None and (row.reported_score > 0) != row.correct:
                notes[_OTHERWISE].append(f"{row.question_id}: {short(response)} ({place})")
    if not rows:
        raise ConfigError(f"no answers to questions of {questions.path} in {', '.join(map(str, paths))}")
    for what, places in notes.items():
        _log.warning("%s %s: %s", shown.plural(len(places), "answer"), what, "; ".join(shown.first_of(places, _SHOWN)))
    return [row for row, _ in rows.values()]


_STRANGE = "to no question of the table, and left out: it was rejected there, or the table is another"
_TWICE = "given twice with the same response, and counted once"
_UNPARSED = "naming no option, or several, and counted as wrong"
_OTHERWISE = "scored otherwise by the harness, whose score is kept as reported_score"


# --- files ------------------------------------------------------------------------------------------------------------


def _files(paths: Sequence[Path]) -> list[Path]:
    """The files of answers; in folders, the files of harnesses. A file with two links is read once."""
    files: dict[Path, Path] = {}
    for path in paths:
        if path.is_dir():
            members = sorted(member for pattern in _HARNESS_TABLES for member in path.rglob(pattern))
            members = [member for member in members if not re.search(r"_(score|rating|acc)$", member.stem)]
            if not members:
                raise ConfigError(f"{path}: no samples of lmms-eval (--log_samples writes them) and no table in it")
        elif path.is_file():
            members = [path]
        else:
            raise ConfigError(f"{path}: no such file or folder")
        for member in members:
            files.setdefault(member.resolve(), member)
    return list(files.values())


def _opened(path: Path) -> _Log:
    kind = path.suffix.lower()
    if kind in (".jsonl", ".csv", ".tsv"):
        rows = rows_of(path, ())
    elif kind == ".json":
        rows = json_list(path, "a list of answers")
    elif kind == ".xlsx":
        rows = _excel(path)
    else:
        raise AnnotationError(f"{path}: answers are read from .jsonl, .csv, .tsv, .json and .xlsx files")
    records = list(checked_all(path, rows))
    if kind == ".jsonl" and any("filtered_resps" in record or "resps" in record for _, record in records):
        return _of_lmms_eval(path, records)
    return _of_table(path, records)


def _excel(path: Path) -> Rows:
    import pandas as pd

    try:
        return numbered("row", pd.read_excel(path).rename(columns=str).to_dict("records"))
    except ImportError:
        raise ConfigError(
            f"{path}: to read .xlsx, pip install openpyxl; VLMEvalKit writes .tsv with PRED_FORMAT=tsv"
        ) from None
    except Exception as error:  # openpyxl raises what its parsers do
        raise AnnotationError(f"{path} cannot be read: {cut(str(error))}") from None


def _of_lmms_eval(path: Path, records: Sequence[tuple[str, Record]]) -> _Log:
    """A file of lmms-eval's samples, with the settings from the run's results beside it."""
    stamp, _, task = path.stem.partition("_samples_")
    about: dict[str, Any] = {}
    beside = path.with_name(f"{stamp}_results.json")
    if beside.is_file():
        about = whole_json(beside, dict, "the results of lmms-eval")
    config = about.get("config") if isinstance(about.get("config"), dict) else {}
    assert isinstance(config, dict)
    given = config.get("model_args") or ""
    arguments = (
        given if isinstance(given, dict) else dict(part.split("=", 1) for part in given.split(",") if "=" in part)
    )
    names = (about.get("model_name"), *(arguments.get(key) for key in ("pretrained", "model", "model_version")))
    model = next((str(name) for name in (*names, config.get("model")) if name), "")
    return _Log(path, records, model, _budget(arguments), task, str(config.get("use_cache") or ""))


def _of_table(path: Path, records: Sequence[tuple[str, Record]]) -> _Log:
    """A plain table, or a table of VLMEvalKit: MODEL_DATASET with the column `prediction`."""
    if not records:
        raise AnnotationError(f"{path} has a header and no answer")
    names = {name for _, record in records[:1] for name in record}
    if not {"response", "prediction"} & names:
        raise AnnotationError(
            f"{path} has no column 'response' or 'prediction'; its columns are {short(sorted(names))}"
        )
    model, scores = "", dict[str, Any]()
    if "prediction" in names:
        dataset = str(records[0][1].get("dataset_name") or "")
        model = path.stem.removesuffix(f"_{dataset}") if dataset else ""
        for other in path.parent.glob(f"{path.stem}_score.*"):
            with suppress(ConfigError):
                scores = {str(row.get("index")): row.get("score") for _, row in _opened(other).records}
    merged = [
        (where, {**record, **({"score": scores[name]} if (name := str(record.get("index"))) in scores else {})})
        for where, record in records
    ]
    return _Log(path, merged, model)


# --- records ----------------------------------------------------------------------------------------------------------


def _is_own(value: object) -> bool:
    return isinstance(value, dict) and "questions_sha256" in value and "question_id" in value


def _check_table(own: Record, questions: Questions, place: str) -> None:
    other = own.get("questions_sha256")
    if other and other != questions.sha256:
        raise ConfigError(
            f"{place}: the answer is to another table of questions than {questions.path} (SHA-256 "
            f"{str(other)[:12]}... and {questions.sha256[:12]}...): name the table that was exported, or export again"
        )


def _cell(own: Record, given: CellKey | None, named: Named, path: Path, place: str) -> CellKey:
    """The cell of a record, from its columns, or else as given for its file. Raises `ConfigError`."""
    written: CellKey | None = None
    if "perturbation" in own or "severity" in own or own.get("suite") == CLEAN:
        suite, perturbation, number = (text_of(own.get(name)).strip() for name in ("suite", "perturbation", "severity"))
        if not number and {suite, perturbation} <= {"", CLEAN}:
            number = "0"
        if not re.fullmatch(r"[0-9]{1,4}(\.0)?", number):
            raise ConfigError(f"{place}: the severity is a whole number, 0 of the clean clip, not {short(number)}")
        severity = int(float(number))
        written = CellKey(suite, perturbation, severity) if severity and suite != CLEAN else CellKey()
        written = written if written.suite else named(f"{perturbation}_{severity}")
    elif cell := text_of(own.get("cell")).strip():
        written = named(cell)
    if written is None and given is None:
        raise ConfigError(f"{place}: the log does not say its cell: --cell fog_3={path}, or --cell clean={path}")
    if written is not None and given is not None and written[1:] != given[1:]:
        raise ConfigError(f"{place}: --cell says {given.name}, and the log {written.name}: leave --cell out")
    return written or given or CellKey()


def _given(named: Mapping[Path, _Value], path: Path) -> _Value | None:
    """The value that was given for a file, or for the nearest folder that contains it."""
    around = {below.resolve(): value for below, value in named.items()}
    return next((around[below] for below in (path.resolve(), *path.resolve().parents) if below in around), None)


def _response(record: Record, own: Record) -> str:
    """The response of the model in a log."""
    value = next(
        (record[name] for name in ("filtered_resps", "resps", "response", "prediction") if name in record),
        own.get("response"),
    )
    while isinstance(value, list) and value:
        value = value[0]
    return "" if value is None or value != value or isinstance(value, list) else str(value)


def _budget(settings: Record) -> str:
    """The settings about frames, as text: `fps=1,max_frames_num=32`."""
    known = {name: value for name, value in settings.items() if _BUDGET.fullmatch(str(name))}
    return ",".join(
        f"{name}={value}" for name, value in sorted(known.items()) if value not in (None, "") and value == value
    )


def _reported(record: Record) -> float | None:
    """The harness's score of an answer, 1 for right; -1 (a failed request) counts as wrong. None without a score."""
    for own in (*(value for value in record.values() if isinstance(value, dict)), record):
        if {"pred", "ground_truth"} <= own.keys():
            return float(str(own["pred"]) == str(own["ground_truth"]))
        for name in ("score", "correct", "exact_match"):
            with suppress(TypeError, ValueError):
                value = float(own[name]) if name in own and own[name] not in (None, "") else None
                if value is not None and value == value:
                    return max(0.0, value)
    return None


def _check_same(known: tuple[AnswerRow, str], row: AnswerRow, place: str, path: Path) -> None:
    first, where = known
    if first.response != row.response:
        raise ConfigError(
            f"{row.model} answers {short(row.question_id)} in {row.cell} twice: {short(first.response)} ({where}) and "
            f"{short(row.response)} ({place}): give one of both logs, or name two models apart: --model NAME={path}"
        )


def _check_caches(logs: Sequence[_Log], cells: Mapping[Path, CellKey]) -> None:
    """Refuse official tasks in several cells that shared one cache: its key does not hold the video."""
    cells_of: dict[tuple[str, str], dict[CellKey, Path]] = defaultdict(dict)
    for log in logs:
        is_official = not any(_is_own(value) for _, record in log.records[:1] for value in record.values())
        given = _given(cells, log.path)
        if log.cache and is_official and given is not None:
            cells_of[log.cache, log.task].setdefault(given, log.path)
    for (cache, task), paths in cells_of.items():
        if len(paths) > 1:
            names = " and ".join(f"{cell.name} ({path})" for cell, path in paths.items())
            raise ConfigError(
                f"{task} ran with --use_cache {cache} in {names}: lmms-eval's cache does not tell videos apart, so "
                "answers may be those of another cell: run them again, each cell with a cache of its own or none"
            )
