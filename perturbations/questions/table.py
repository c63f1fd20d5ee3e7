"""Questions of multiple choice, from rows of annotations: their options and answers, and the clips they are about."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from operator import attrgetter
from pathlib import PurePosixPath
from string import ascii_uppercase
from typing import Any, Literal

from perturbations.base.errors import short
from perturbations.base.records import canonical
from perturbations.base.storage import nfc
from perturbations.datasets.fields import as_json, checked, checked_text, list_in, seconds, text_of
from perturbations.datasets.listing import VIDEO_EXTENSIONS, AnnotationPlace, Collector, Item, at
from perturbations.datasets.parsing import Rows
from perturbations.manifest.rows import QuestionRow

_log = logging.getLogger("perturbations")


def sha256_of(rows: Iterable[QuestionRow]) -> str:
    """A hash of the questions of a table in any order; answers record it."""
    digest = hashlib.sha256()
    for row in sorted(rows, key=attrgetter("question_id")):
        digest.update(canonical(asdict(row)).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


Form = Literal["text", "letter", "index"]
"""How annotations write an answer: as the option itself, as its letter, or as its place, counted from 0."""

_LABEL = re.compile(r"\(?([A-Z])[.:)]\)?\s+(?=\S)")
_SEVERAL = re.compile(r"[A-Z](\s*([,;/&+]|and)\s*[A-Z])+", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A question in annotations, before it is checked. Attributes that are not explained here are as in `QuestionRow`.

    Attributes:
        where: its place in the annotations.
        video: the file, or the name of a file without its ending.
        files: possible places of the video below the folder of videos, if its name does not give its place.
        start_s, end_s: the span of the clip in seconds; None: the video's beginning or end.
        options: texts, or one text that lists them.
        form: how `answer` is written; None where the table does not say.
        more: other columns, which are kept.
    """

    where: AnnotationPlace
    source_index: int
    question_id: str
    video: str
    question: object
    options: object
    answer: object
    form: Form | None = None
    files: tuple[str, ...] = ()
    start_s: object = None
    end_s: object = None
    category: object = None
    subcategory: object = None
    cluster: object = None
    more: Mapping[str, object] = field(default_factory=dict)


def entries(
    collector: Collector,
    rows: Rows,
    texts: Sequence[str],
    others: Sequence[str],
    fields: Callable[[dict[str, Any]], dict[str, Any]],
) -> Iterator[Entry]:
    """The entries of rows with these columns; the first column names a row, and `fields` makes an entry's fields of it.

    Other columns are kept.
    """
    for number, (where, row) in enumerate(checked(collector, rows, texts, others)):
        more = {name: value for name, value in row.items() if name not in (*texts, *others)}
        yield Entry(**{"where": where, "source_index": number, "more": more, **fields(row)})


def add_all(asked: Iterable[Entry], collector: Collector) -> None:
    """List questions, and the clips that they are about: every distinct span of a video, once.

    A clip's captions are its questions. A question that cannot be used is rejected with the reason.
    """
    every = list(asked)
    videos = _videos(entry.video for entry in every)
    readings = [_readings(entry) for entry in every]
    usual: Counter[str] = Counter(form for reading in readings if isinstance(reading, dict) for form in reading)
    from_one = _counts_from_one(every, readings)
    rows: dict[str, QuestionRow] = {}
    places: dict[str, AnnotationPlace] = {}
    clips: dict[str, Item] = {}
    texts: dict[str, dict[str, AnnotationPlace]] = defaultdict(dict)
    for entry, reading in zip(every, readings, strict=True):
        video, ending = videos[entry.video]
        item_id = _item_id(entry, video)
        try:
            if not entry.question_id:
                raise ValueError("the question's id is empty")
            if entry.question_id in rows:
                raise ValueError(f"duplicate question_id, first seen at {at(places[entry.question_id])}")
            text = _question(entry.question)
            options = _options(entry.options)
            if isinstance(reading, str):
                raise ValueError(reading)
            if from_one and list(reading) == ["index"]:
                raise ValueError(f"answers count from 0, and those of this file from 1 ({from_one}): write letters")
            item = _item(entry, item_id, video, ending, text)
            answer = _chosen(reading, usual, options)
            others = {name: as_json(name, value) for name, value in entry.more.items() if _text(value)}
            for name, value in _texts(entry, text, options):
                checked_text(name, value)
        except ValueError as error:
            collector.reject(entry.where, item_id, f"question {short(entry.question_id)}: {error}")
            continue
        places[entry.question_id] = entry.where
        texts[item_id].setdefault(text, entry.where)
        clips.setdefault(item_id, item)
        rows[entry.question_id] = QuestionRow(
            question_id=entry.question_id,
            item_id=item_id,
            question=text,
            options=options,
            answer=answer,
            category=_text(entry.category) or None,
            subcategory=_text(entry.subcategory) or None,
            cluster=_text(entry.cluster) or item.source_video_id,
            source_index=entry.source_index,
            others=canonical(others) if others else None,
        )
    for item_id, item in clips.items():
        collector.add(item)
        for text, where in [*texts[item_id].items()][1:] if item_id in collector.items else ():
            collector.add_caption(collector.items[item_id], text, where)
    collector.questions += [row for row in rows.values() if row.item_id in collector.items]


# --- clips ------------------------------------------------------------------------------------------------------------


def _videos(spellings: Iterable[str]) -> dict[str, tuple[str, str]]:
    """For each spelling, the name and the ending of its video.

    Spellings of one file are one video: `./a.mp4` and `a`, in whatever Unicode form. A name keeps its ending if another
    video differs only in the ending.
    """
    split = {spelling: _split(spelling) for spelling in spellings}
    endings: dict[str, list[str]] = defaultdict(list)
    first: dict[tuple[str, str], str] = {}
    for spelling, (stem, ending) in split.items():
        if ending and ending not in endings[stem]:
            endings[stem].append(ending)
        if (other := first.setdefault((stem, ending), spelling)) != spelling:
            _say_once(f"{other!r} and {spelling!r} name one video, and are taken as one")
    videos = {}
    for spelling, (stem, ending) in split.items():
        known = endings[stem]
        ending = ending or (known[0] if len(known) == 1 else "")
        videos[spelling] = (stem + ending if len(known) > 1 else stem, ending)
    return videos


def _item_id(entry: Entry, video: str) -> str:
    """The id of a question's clip: the video's name, and its span."""
    with suppress(ValueError):
        start_s, end_s = seconds(entry.start_s), seconds(entry.end_s)
        if start_s is not None or end_s is not None:
            return f"{video}_{start_s or 0:.6g}_{'end' if end_s is None else f'{end_s:.6g}'}"
    return video


def _item(entry: Entry, item_id: str, video: str, ending: str, text: str) -> Item:
    """The clip of a question. Raises `ValueError`."""
    if not entry.video:
        raise ValueError("the video's name is empty")
    start_s, end_s = seconds(entry.start_s), seconds(entry.end_s)
    files = entry.files or ((_split(entry.video)[0] + ending,) if ending else ())
    return Item(item_id, video, files, (text,), start_s, end_s, () if files else VIDEO_EXTENSIONS, where=entry.where)


def _split(video: str) -> tuple[str, str]:
    """A video's name in a single spelling, and its ending if it is an ending of videos."""
    plain = nfc(os.path.normpath(video)) if video else ""
    ending = PurePosixPath(plain).suffix
    is_known = ending.lower() in VIDEO_EXTENSIONS
    return (plain.removesuffix(ending), ending.lower()) if is_known else (plain, "")


@cache
def _say_once(line: str) -> None:
    _log.warning("%s", line)


# --- texts ------------------------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    return text_of(value).strip()


def _texts(entry: Entry, question: str, options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The texts of a question that a manifest is to hold, each with its column."""
    yield from (("question_id", entry.question_id), ("question", question), *(("options", text) for text in options))
    yield from ((name, _text(getattr(entry, name))) for name in ("category", "subcategory", "cluster"))
    yield from ((name, name) for name in entry.more)


def _question(value: object) -> str:
    if not isinstance(value, str | int | float) or not (text := _text(value)):
        raise ValueError(f"the question must be a text, not {short(value)}")
    return text


def _options(value: object) -> list[str]:
    """The options without their letters: if all are written like `A. red`, this is `red`. Raises `ValueError`."""
    value = list_in(value) if isinstance(value, str) else value
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("it has no options: a list of them, or columns a, b, c, ...")
    if any(isinstance(option, list | dict | bool) for option in value):
        raise ValueError(f"its options are texts, not {short(value)}")
    options = [_text(option) for option in value]
    if not 2 <= len(options) <= len(ascii_uppercase):
        raise ValueError(f"it has {len(options)} option{'s' * (len(options) > 1)}; 2 to {len(ascii_uppercase)} fit")
    if "" in options:
        raise ValueError(f"option {ascii_uppercase[options.index('')]} is empty")
    labels = [label[1] if (label := _LABEL.match(option)) else "" for option in options]
    is_labelled = "".join(labels) == ascii_uppercase[: len(options)]
    return [_LABEL.sub("", option, count=1) for option in options] if is_labelled else options


# --- answers ----------------------------------------------------------------------------------------------------------


def _readings(entry: Entry) -> dict[Form, int] | str:
    """The option that an answer names, by each form in which it can be read; or the reason why there is none."""
    try:
        options = _options(entry.options)
    except ValueError as error:
        return str(error)
    value = entry.answer
    if isinstance(value, list | tuple):
        if len(value) != 1:
            return f"it has {len(value) or 'no'} answers; one fits"
        (value,) = value
    if not (text := _text(value)):
        return "it has no answer"
    alike = _alike(text, options)
    if len(alike) > 1 and entry.form in (None, "text"):
        return f"the answer {short(text)} is the text of {len(alike)} options: write its letter"
    label = re.fullmatch(r"\(?([A-Za-z])[.:)]?", text)
    number = int(text) if re.fullmatch(r"[0-9]{1,3}", text) else None
    places: dict[Form, int | None] = {
        "text": alike[0] if alike else None,
        "letter": ascii_uppercase.index(label[1].upper()) if label else None,
        "index": number,
    }
    wanted = {form: place for form, place in places.items() if place is not None and entry.form in (None, form)}
    if places_of := {form: place for form, place in wanted.items() if place < len(options)}:
        return places_of
    if _SEVERAL.fullmatch(text):
        return f"it has several answers, {short(text)}; one fits"
    return f"the answer {short(text)} is {f'beyond its {len(options)}' if wanted else 'none of its'} options"


def _alike(text: str, options: Sequence[str]) -> list[int]:
    """The options that equal a text; if there are none, those that equal it apart from case."""
    wanted = {text, _LABEL.sub("", text, count=1)}
    for same in (str, str.casefold):
        if places := [place for place, option in enumerate(options) if same(option) in {*map(same, wanted)}]:
            return places
    return []


def _chosen(reading: Mapping[Form, int], usual: Counter[str], options: Sequence[str]) -> int:
    """The answer. If its forms name several options, the form in which most answers of the table can be read counts."""
    first, *others = sorted(reading, key=lambda form: -usual[form])
    if any(reading[form] != reading[first] and usual[form] == usual[first] for form in others):
        ways = " or ".join(f"{short(options[answer])} ({form})" for form, answer in reading.items())
        raise ValueError(f"the answer may be {ways}: write answers as letters")
    return reading[first]


def _counts_from_one(every: Sequence[Entry], readings: Sequence[Mapping[Form, int] | str]) -> str:
    """The message where an answer only makes sense if places are counted from 1: no answer of the table is 0."""
    if any(entry.form is not None or _text(entry.answer) == "0" for entry in every):
        return ""
    for entry, reading in zip(every, readings, strict=True):
        with suppress(ValueError):
            if isinstance(reading, str) and _text(entry.answer) == str(len(_options(entry.options))):
                return f"{at(entry.where)}: {_text(entry.answer)}"
    return ""
