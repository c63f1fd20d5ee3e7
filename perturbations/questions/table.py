"""Questions of multiple choice, from rows of annotations: their options and answers, and the clips they are about."""

from __future__ import annotations

import ast
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePosixPath
from string import ascii_uppercase
from typing import Any, Literal

from perturbations.base.errors import short
from perturbations.base.records import canonical
from perturbations.base.storage import composed
from perturbations.datasets.listing import VIDEO_EXTENSIONS, AnnotationPlace, Collector, Item, at
from perturbations.datasets.parsing import seconds
from perturbations.manifest.kinds import QuestionRow

_log = logging.getLogger("perturbations")

Form = Literal["text", "letter", "index"]
"""How annotations write an answer: as the option itself, as its letter, or as its place, counted from 0."""

_LABEL = re.compile(r"\(?([A-Z])[.:)]\)?\s+(?=\S)")
_SEVERAL = re.compile(r"[A-Z](\s*([,;/&+]|and)\s*[A-Z])+", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A question as annotations have it, before it is checked. Attributes as of `QuestionRow`.

    Attributes:
        where: its place in the annotations.
        video: the file, or the name of a file without its ending.
        start_s, end_s: the span of the clip in seconds; None: the video's beginning or end.
        options: texts, or one text that lists them.
        form: how `answer` is written; None where the table does not say.
        files: where the video may lie below the folder of videos, where its name does not say it.
        more: other columns, which are kept.
    """

    where: AnnotationPlace
    question_id: str
    video: str
    question: object
    options: object
    answer: object
    source_index: int
    start_s: object = None
    end_s: object = None
    form: Form | None = None
    files: tuple[str, ...] = ()
    category: object = None
    subcategory: object = None
    cluster: str = ""
    more: Mapping[str, object] = field(default_factory=dict)


def add_all(entries: Iterable[Entry], collector: Collector) -> None:
    """List questions, and the clips that they are about: every distinct span of a video, once.

    A clip's captions are its questions. A question that cannot be used is rejected with the reason.
    """
    kept = list(entries)
    clips = _Clips(entry.video for entry in kept)
    readings = [_readings(entry) for entry in kept]
    usual: Counter[Form] = Counter(form for found in readings for form in found if not isinstance(found, str))
    from_one = _counts_from_one(kept, readings)
    texts: dict[str, list[str]] = {}
    first: dict[str, Item] = {}
    questions: dict[str, AnnotationPlace] = {}
    for entry, found in zip(kept, readings, strict=True):
        try:
            item = clips.item(entry)
            if not entry.question_id:
                raise ValueError("the question's id is empty")
            if entry.question_id in questions:
                raise ValueError(f"duplicate question_id, first seen at {at(questions[entry.question_id])}")
            text = _question(entry.question)
            options = _options(entry.options)
            if isinstance(found, str):
                raise ValueError(found)
            if from_one and "index" in found and len(found) == 1:
                raise ValueError(f"answers count from 0, and those of this file from 1 ({from_one}): write letters")
            answer = _chosen(found, usual, options)
        except ValueError as error:
            item_id = clips.name(entry)
            collector.reject(entry.where, item_id, f"question {short(entry.question_id)}: {error}")
            continue
        questions[entry.question_id] = entry.where
        if item.item_id not in first:
            first[item.item_id] = item
            texts[item.item_id] = []
        if text not in texts[item.item_id]:
            texts[item.item_id].append(text)
        others = {name: value for name, value in entry.more.items() if _text(value)}
        collector.questions.append(
            QuestionRow(
                question_id=entry.question_id,
                item_id=item.item_id,
                question=text,
                options=options,
                answer=answer,
                category=_text(entry.category) or None,
                subcategory=_text(entry.subcategory) or None,
                cluster=entry.cluster or item.source_video_id,
                source_index=entry.source_index,
                others=canonical({name: _plain(value) for name, value in others.items()}) if others else None,
            )
        )
    for item_id, item in first.items():
        collector.add(item)
        for text in texts[item_id][1:]:
            if item_id in collector.items:
                collector.add_caption(collector.items[item_id], text, item.where)
    collector.questions[:] = [row for row in collector.questions if row.item_id in collector.items]


# --- clips ------------------------------------------------------------------------------------------------------------


class _Clips:
    """The clips of questions. Spellings of one file are one video: `./a.mp4` and `a`, in whatever Unicode form."""

    def __init__(self, videos: Iterable[str]) -> None:
        self._spellings: dict[str, str] = {}
        endings: dict[str, set[str]] = {}
        for video in videos:
            stem, ending = _split(video)
            endings.setdefault(stem, set()).update({ending} - {""})
        self._stems = {stem for stem, of_stem in endings.items() if len(of_stem) <= 1}
        self._endings = {stem: min(of_stem, default="") for stem, of_stem in endings.items()}

    def name(self, entry: Entry) -> str:
        """The id of a question's clip: the video's name, and its span."""
        stem, ending = _split(entry.video)
        video = stem if stem in self._stems else stem + ending
        with suppress(ValueError):
            start_s, end_s = seconds(entry.start_s), seconds(entry.end_s)
            if start_s is not None or end_s is not None:
                return f"{video}_{start_s or 0:.6g}_{'end' if end_s is None else f'{end_s:.6g}'}"
        return video

    def item(self, entry: Entry) -> Item:
        """The clip of a question, with it as its caption. Raises `ValueError`."""
        if not entry.video:
            raise ValueError("the video's name is empty")
        try:
            start_s, end_s = seconds(entry.start_s), seconds(entry.end_s)
        except ValueError as error:
            raise ValueError(f"its span is not in seconds: {error}") from None
        stem, _ = _split(entry.video)
        video = stem if stem in self._stems else _split(entry.video)[0] + _split(entry.video)[1]
        known = self._spellings.setdefault(video, entry.video)
        if known != entry.video:
            _say_once(f"{known!r} and {entry.video!r} name one video, and are taken as one: {video!r}")
        ending = self._endings[stem] if stem in self._stems else _split(entry.video)[1]
        names = entry.files or ((stem + ending,) if ending else ())
        extensions = () if names else VIDEO_EXTENSIONS
        text = _question(entry.question)
        return Item(self.name(entry), video, names, (text,), start_s, end_s, extensions, where=entry.where)


def _split(video: str) -> tuple[str, str]:
    """A video's name in one spelling, and its ending where that is one of videos."""
    plain = composed(os.path.normpath(video)) if video else ""
    ending = PurePosixPath(plain).suffix
    is_known = ending.lower() in VIDEO_EXTENSIONS
    return (plain.removesuffix(ending), ending.lower()) if is_known else (plain, "")


@cache
def _say_once(line: str) -> None:
    _log.warning("%s", line)


# --- texts ------------------------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    """A cell as a text; "" where it is empty, null or NaN."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | list) else str(value)


def _question(value: object) -> str:
    if not isinstance(value, str | int | float) or not (text := _text(value)):
        raise ValueError(f"the question must be a text, not {short(value)}")
    return text


def _options(value: object) -> list[str]:
    """The options without letters before them: `A. red` is `red`, where all are written so. Raises `ValueError`."""
    listed = _listed(value) if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed:
        raise ValueError("it has no options: a list of them, or columns a, b, c, ...")
    if any(isinstance(option, list | dict | bool) for option in listed):
        raise ValueError(f"its options are texts, not {short(listed)}")
    options = [_text(option) for option in listed]
    if not 2 <= len(options) <= len(ascii_uppercase):
        raise ValueError(f"it has {len(options)} option{'s' * (len(options) > 1)}; 2 to {len(ascii_uppercase)} fit")
    if "" in options:
        raise ValueError(f"option {ascii_uppercase[options.index('')]} is empty")
    labels = [_LABEL.match(option) for option in options]
    if all(label and label[1] == letter for label, letter in zip(labels, ascii_uppercase, strict=False)):
        options = [option[label.end() :] for option, label in zip(options, labels, strict=True) if label]
    return options


def _listed(text: str) -> object:
    """The list that a text writes out, as JSON or as Python has it."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        return ast.literal_eval(text.strip())
    return None


# --- answers ----------------------------------------------------------------------------------------------------------


def _readings(entry: Entry) -> dict[Form, int] | str:
    """The option that an answer names, by each form in which it names one; or why it names none."""
    try:
        options = _options(entry.options)
    except ValueError as error:
        return str(error)
    value = entry.answer
    if isinstance(value, list | tuple):
        if len(value) != 1:
            return f"it has {len(value) or 'no'} answers; one fits"
        (value,) = value
    text = _text(value)
    if not text:
        return "it has no answer"
    found: dict[Form, int] = {}
    alike = _alike(text, options)
    if len(alike) == 1:
        found["text"] = alike[0]
    label = re.fullmatch(r"\(?([A-Za-z])[.:)]?", text)
    place = ascii_uppercase.index(label[1].upper()) if label else len(options)
    if place < len(options):
        found["letter"] = place
    number = int(text) if re.fullmatch(r"[0-9]{1,3}", text) else len(options)
    if number < len(options):
        found["index"] = number
    if entry.form is not None:
        found = {form: answer for form, answer in found.items() if form == entry.form}
    if len(alike) > 1 and entry.form in (None, "text"):
        return f"the answer {short(text)} is the text of {len(alike)} options: write its letter"
    if found:
        return found
    if _SEVERAL.fullmatch(text):
        return f"it has several answers, {short(text)}; one fits"
    if label or number != len(options) or text.isdigit():
        return f"the answer {short(text)} is beyond its {len(options)} options"
    return f"the answer {short(text)} is none of its options"


def _alike(text: str, options: Sequence[str]) -> list[int]:
    """The options of a text, written as it is or, where none is, in other cases of letters."""
    label = _LABEL.match(text)
    wanted = [text, *([text[label.end() :]] if label else [])]
    for same in (str, str.casefold):
        if places := [at for at, option in enumerate(options) if same(option) in [same(own) for own in wanted]]:
            return places
    return []


def _chosen(found: Mapping[Form, int], usual: Counter[Form], options: Sequence[str]) -> int:
    """The answer; where forms name several options, by the form in which most answers of the table can be read."""
    if len({*found.values()}) == 1:
        return next(iter(found.values()))
    ordered = sorted(found, key=lambda form: -usual[form])
    if usual[ordered[0]] == usual[ordered[1]]:
        ways = " or ".join(f"{short(options[answer])} ({form})" for form, answer in found.items())
        raise ValueError(f"the answer may be {ways}: write answers as letters")
    return found[ordered[0]]


def _counts_from_one(entries: Sequence[Entry], readings: Sequence[Mapping[Form, int] | str]) -> str:
    """A place of which only counting from 1 makes sense, in a table none of whose answers is 0."""
    if any(entry.form is not None or _text(entry.answer) == "0" for entry in entries):
        return ""
    for entry, found in zip(entries, readings, strict=True):
        with suppress(ValueError):
            if isinstance(found, str) and _text(entry.answer) == str(len(_options(entry.options))):
                return f"{at(entry.where)}: {_text(entry.answer)}"
    return ""


def row_columns(row: Mapping[str, Any], known: Iterable[str]) -> dict[str, object]:
    """The other columns of a row, which are kept."""
    return {str(name): value for name, value in row.items() if name is not None and name not in known}
