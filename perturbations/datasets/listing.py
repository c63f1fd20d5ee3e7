"""What annotations list: items with captions, and entries that cannot be used. Standard library only.

A listing may hold a million captions, and Snakemake reads it at every start: an item only keeps its texts and the parts
of its file names, and builds captions and names on demand.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from perturbations.base.errors import AnnotationError, short
from perturbations.base.storage import nfc
from perturbations.manifest.rows import QuestionRow

VIDEO_EXTENSIONS = (
    *(".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".mpg", ".mpeg", ".wmv", ".flv", ".3gp", ".ogv"),
    *(".ts", ".mts", ".gif"),
)


def without_ending(name: str) -> str:
    """A file's name without the ending of a video."""
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() in VIDEO_EXTENSIONS else name


_MOST_ID = 1_000
"""Characters per id: manifests hold it in every row, and file names contain it."""
_MOST_CAPTION = 100_000
"""Characters per caption."""
_MOST_PATH = 4_096
_MOST_REJECTED = 1_000_000
_MOST_MALFORMED = 100_000
_SHOWN = 10

AnnotationPlace = int | str
"""Where an entry is: the number of its line, or a description of its place."""


@dataclass(frozen=True, slots=True)
class Item:
    """A clip with its captions. None for `start_s` or `end_s` (seconds) means the video's own beginning or end.

    Attributes:
        item_id: its name.
        source_video_id: the video that the item is, or is a part of.
        names: files below the videos directory that may be the video.
        texts: its captions.
        start_s: where it starts in the video.
        end_s: where it ends.
        extensions: the video's id with each of these is a further name.
        caption_key: the id of its only caption, if the annotation has one.
        where: its place in the annotation file.
    """

    item_id: str
    source_video_id: str
    names: tuple[str, ...]
    texts: tuple[str, ...]
    start_s: float | None = None
    end_s: float | None = None
    extensions: tuple[str, ...] = ()
    caption_key: str = ""
    where: AnnotationPlace = field(default=0, compare=False)

    @property
    def files(self) -> tuple[str, ...]:
        """Candidates below the videos directory; the first that exists is the video."""
        return (*self.names, *(self.source_video_id + extension for extension in self.extensions))

    def caption_id(self, number: int) -> str:
        """The id of a caption, counted from 0."""
        return self.caption_key or f"{self.item_id}#{number}"


@dataclass(frozen=True, slots=True)
class Rejected:
    """One annotated entry that cannot be used, and why: it does not follow the format, or anything else."""

    item_id: str
    reason: str
    is_malformed: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Listing:
    """Every annotated entry, as an item or as rejected.

    `questions` and `attributes` are as `Collector` has them. `place` is the name of the annotations' file, and `empty`
    says where it has the empty captions of items of several rows.
    """

    items: tuple[Item, ...]
    rejected: tuple[Rejected, ...]
    questions: tuple[QuestionRow, ...] = ()
    attributes: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    place: str = field(default="", compare=False)
    empty: Mapping[str, AnnotationPlace] = field(default_factory=dict, compare=False)

    @property
    def has_captions(self) -> bool:
        """Whether any item has a caption."""
        return any(text for item in self.items for text in item.texts)

    def rejected_items(self) -> list[Rejected]:
        """The rejected entries that are items, one per id: the others are captions of listed items."""
        listed = {item.item_id for item in self.items}
        by_id: dict[str, list[Rejected]] = {}
        for entry in self.rejected:
            if entry.item_id not in listed:
                by_id.setdefault(entry.item_id, []).append(entry)
        return [
            first if not others else replace(first, reason=f"{first.reason}; {len(others)} more entries with this id")
            for first, *others in by_id.values()
        ]

    def rejected_captions(self) -> list[Rejected]:
        """The captions that cannot be used: those of rejected entries, and empty ones of listed items.

        Of a dataset without any caption, no caption is called empty.
        """
        if not self.has_captions:
            return [*self.rejected]
        empty = [
            Rejected(
                item.item_id,
                f"the caption {short(item.caption_id(number))} is empty, null or NaN "
                f"({self.place}, {at(self.empty.get(item.item_id, item.where))})",
            )
            for item in self.items
            for number, text in enumerate(item.texts)
            if not text
        ]
        return [*self.rejected, *empty]


@dataclass
class Collector:
    """What an adapter reads: items in the annotation's order, questions, and the entries that cannot be used.

    Attributes:
        place: the file whose places messages name; an adapter sets it where that is not the annotation file.
        items: the items by their ids.
        rejected: the entries that cannot be used.
        questions: the questions of a set of questions.
        attributes: the further columns of items, and their values: the same columns of every item.
    """

    place: Path
    items: dict[str, Item] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    questions: list[QuestionRow] = field(default_factory=list)
    attributes: dict[str, dict[str, object]] = field(default_factory=dict)
    _texts: dict[str, dict[str, AnnotationPlace]] = field(default_factory=dict)
    """The items that several entries describe: each of their captions, and its place."""
    _by_form: dict[str, str] = field(default_factory=dict)
    """The ids beyond ASCII in their composed form, and as they are."""
    _malformed: list[str] = field(default_factory=list)
    """The first of the entries that do not follow the format."""
    _num_malformed: int = 0

    def add(self, item: Item) -> bool:
        """Add an entry that must be the only one with its id; returns whether it could be added."""
        if problem := _problem(item) or self._repeated(item.item_id):
            self.reject(item.where, item.item_id, problem)
            return False
        self.items[item.item_id] = item
        if not item.item_id.isascii():
            self._by_form[nfc(item.item_id)] = item.item_id
        return True

    def _repeated(self, item_id: str) -> str | None:
        if item_id in self.items:
            return f"duplicate id, first seen at {at(self.items[item_id].where)}"
        other = None if item_id.isascii() else self._by_form.get(nfc(item_id))
        return other and f"duplicate id, in another Unicode form than at {at(self.items[other].where)}"

    def add_caption(self, first: Item, text: str, where: AnnotationPlace) -> None:
        """Add another caption of an item that was added before."""
        places = self._texts.setdefault(first.item_id, {first.texts[0]: first.where})
        if text in places:
            self.reject(where, first.item_id, f"duplicate: {at(places[text])} has the same id and caption")
        elif problem := _text_problem(text):
            self.reject(where, first.item_id, problem)
        else:
            places[text] = where

    def listing(self, adapter: str) -> Listing:
        """All that was read. Raises `AnnotationError` where no entry follows the format of the adapter."""
        if not self.items:
            what = f"has no entry as the adapter '{adapter}' expects"
            raise_problems(self.place, what, self._malformed, self._num_malformed)
        for item_id, places in self._texts.items():
            self.items[item_id] = replace(self.items[item_id], texts=tuple(places))
        return Listing(
            tuple(self.items.values()),
            tuple(self.rejected),
            tuple(self.questions),
            self.attributes,
            self.place.name,
            {item_id: places[""] for item_id, places in self._texts.items() if "" in places},
        )

    def reject(self, where: AnnotationPlace, item_id: str, reason: str, *, is_malformed: bool = False) -> None:
        """List an entry that cannot be used. Raises `AnnotationError` when there are too many of them."""
        # JSON can hold lone surrogates, which UTF-8 cannot: the quarantine shows them escaped.
        name = item_id[: _MOST_ID + 1].encode("utf-8", "backslashreplace").decode("utf-8")
        if len(item_id) > _MOST_ID:
            name = f"{name[:100]}..."
        self.rejected.append(Rejected(name, f"{reason} ({self.place.name}, {at(where)})", is_malformed))
        if len(self.rejected) > _MOST_REJECTED:
            raise AnnotationError(
                f"{self.place} has more than {_MOST_REJECTED:,} entries that cannot be used, the last: "
                f"{self.rejected[-1].reason}"
            )

    def reject_malformed(self, where: AnnotationPlace, item_id: str, reason: str) -> None:
        """Reject an entry that does not follow the format. If none does, the file is of another format."""
        self.reject(where, item_id, reason, is_malformed=True)
        self._num_malformed += 1
        if len(self._malformed) < _SHOWN:
            self._malformed.append(f"{at(where)}: {reason}")
        if self._num_malformed > _MOST_MALFORMED and not self.items:
            raise_problems(self.place, "is of another format", self._malformed, self._num_malformed)


def raise_problems(path: Path, what: str, shown: list[str], number: int) -> None:
    """Raise `AnnotationError` with the first of `number` problems, if there are any."""
    if number:
        more = [f"and {number - len(shown)} more"] if number > len(shown) else []
        raise AnnotationError(f"{path} {what}:\n" + "\n".join(f"  {line}" for line in [*shown, *more]))


def at(where: AnnotationPlace) -> str:
    """The place of an entry, in words."""
    return f"line {where}" if isinstance(where, int) else where if len(where) < 200 else f"{where[:200]}..."


def _problem(item: Item) -> str | None:
    item_id = item.item_id
    if not item_id:
        return "the id is empty"
    if len(item_id) > _MOST_ID:
        return f"its id has {len(item_id):,} characters, more than {_MOST_ID:,}"
    for text in item.texts:
        if problem := _text_problem(text):
            return problem
    # Names that only differ in their extension are checked once.
    for name in (*item.names, item.source_video_id + item.extensions[0]) if item.extensions else item.names:
        if not is_unicode(name):
            return _NO_UNICODE
        if len(name) > _MOST_PATH or _leaves(name):
            problem = "is not relative to" if os.path.isabs(name) else "leaves"
            return f"its path {problem} the videos directory: {short(name)}"
    for name in {item_id, item.source_video_id, item.caption_key}:
        if not is_unicode(name):
            return _NO_UNICODE
        if "\0" in name or len(name) > _MOST_ID:
            return "its id, its video's or its caption's holds a NUL or is too long"
    start_s = item.start_s or 0.0
    if start_s < 0:
        return f"the clip starts at {start_s:g} s, before the video does"
    if item.end_s is not None and item.end_s <= start_s:
        return f"the clip ends at {item.end_s:g} s, not after its start at {start_s:g} s"
    return None


def _text_problem(text: str) -> str | None:
    if len(text) > _MOST_CAPTION:
        return f"a caption has {len(text):,} characters, more than {_MOST_CAPTION:,}"
    return None if is_unicode(text) else _NO_UNICODE


_NO_UNICODE = "its id, file name or caption is not valid Unicode text: a lone surrogate"


def is_unicode(text: str) -> bool:
    """Whether a text holds no lone surrogate, which UTF-8 cannot write."""
    if text.isascii():  # nearly always
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _leaves(name: str) -> bool:
    if "/" not in name:  # nearly always
        return name in ("", ".", "..") or "\0" in name
    plain = os.path.normpath(name)
    return "\0" in name or os.path.isabs(name) or plain in ("..", ".") or plain.startswith("../")
