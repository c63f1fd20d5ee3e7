"""A table of the page: a frame of values and how to show it; on the page as HTML, beside it as files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import pandas as pd

from perturbations.base import shown
from perturbations.base.records import digest

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_LONGEST = 80  # letters of a file's name


class _Cell(NamedTuple):
    """The texts of a cell; `mark` is "best", "second", "tie" (not separable from the best one) or ""."""

    value: str
    std: str = ""
    change: str = ""
    low: str = ""
    high: str = ""
    mark: str = ""

    @property
    def spread(self) -> str:
        """The value with its deviation."""
        return f"{self.value} ± {self.std}" if self.std else self.value

    @property
    def span(self) -> str:
        """The change, if there is one, and its interval or that of the value: "(+1.2 [0.3, 2.1])", "[40.1, 45.0]"."""
        span = f"[{self.low}, {self.high}]" if self.low else ""
        return f"({' '.join(filter(None, [self.change, span]))})" if self.change else span


class _Heading(NamedTuple):
    text: str
    span: int
    first: bool
    """Whether a group of columns begins with it."""
    average: bool


def number(value: float, form: str) -> str:
    """A number in a form; a rounded zero has no sign."""
    text = format(value, form)
    return text.lstrip("+-") if form.endswith(("f", "d")) and not text.strip("+-0.,") else text


@dataclass(frozen=True, eq=False)
class PageTable:
    """A table.

    Attributes:
        caption: its title.
        data: its values: numbers or text. Columns are named by a group, a name and a part: "value", "std", "change" (to
            the baseline), "low" and "high" (of an interval) and "mark"; rows by a group and a name. Groups may be "".
        form: how numbers are written, as `format` takes it; of each name of a column where they differ.
        note: how to read it.
        stacked: whether the parts of a cell may stand below each other, to fit a small screen.
        left: whether it holds words and not numbers.
        grouped: what the groups of columns are ("model"), where each has the same columns; files have rows for them.
        choices: the switch that each row's name sets, if any.
        forms: as which files it is there, of `FORMS`: those that papers print as more than CSV.
        name: of its files, without an ending; "": by its caption.
    """

    caption: str
    data: pd.DataFrame
    form: str | Mapping[str, str] = ""
    note: str = ""
    stacked: bool = False
    left: bool = False
    grouped: str = ""
    choices: Sequence[str] = ()
    forms: Sequence[str] = ("csv",)
    name: str = ""
    kind: str = "table"

    @property
    def head(self) -> Iterator[list[_Heading]]:
        """The rows of headings: of groups, if there are any, and of columns."""
        groups = [(group, len(list(own))) for group, own in groupby(self._names, lambda name: name[0])]
        if any(group for group, _ in groups):
            yield [_Heading(group, span, place > 0 or group != "", False) for place, (group, span) in enumerate(groups)]
        before = ""
        headings = []
        for group, name in self._names:
            headings.append(_Heading(name, 1, group != before, name in ("all", "average")))
            before = group
        yield headings

    @property
    def body(self) -> Iterator[tuple[str, str, str, list[_Cell]]]:
        """Of each row: its group where one begins, its name, its switch, and its cells."""
        before = ""
        choices = self.choices or [""] * len(self.data)
        for ((group, name), cells), choice in zip(self._rows(self.data), choices, strict=True):
            yield (group if group != before else "", name, choice, cells)
            before = group

    @property
    def corner(self) -> str:
        """What the names of its rows are."""
        return str(self.data.index.names[1])

    @cached_property
    def _names(self) -> list[tuple[str, str]]:
        columns: list[Any] = self.data.columns.to_list()
        return [(group, name) for group, name, part in columns if part == "value"]

    @property
    def files(self) -> list[tuple[str, str]]:
        """The table in its forms: what a link says, and the name of the file."""
        name = self.name or file_name(self.caption)
        return [(title, f"{name}.{ending}") for ending, (title, _) in FORMS.items() if ending in self.forms]

    def _rows(self, data: pd.DataFrame) -> Iterator[tuple[tuple[str, str], list[_Cell]]]:
        """The group and the name of each row, and its cells."""
        columns: list[Any] = data.columns.to_list()
        texts = [
            [self._text(value, name, part) for value in data.iloc[:, place]]
            for place, (_, name, part) in enumerate(columns)
        ]
        for place, row_name in enumerate(data.index):
            cells: list[dict[str, str]] = []
            for (*_, part), column in zip(columns, texts, strict=True):
                cells += [{}] if part == "value" else []
                cells[-1][part] = column[place]
            yield row_name, [_Cell(**cell) for cell in cells]

    def _text(self, value: Any, name: str, part: str) -> str:
        if isinstance(value, str):
            return value
        form = self.form if isinstance(self.form, str) else self.form[name]
        return "" if pd.isna(value) else number(value, f"+{form}" if part == "change" else form)

    def flat(self) -> tuple[list[str], list[list[str]], list[list[_Cell]]]:
        """For files: all headings; the names of each row, with that of its group where there are groups; its cells."""
        data = self.data
        if self.grouped:
            blocks = {group: data[group] for group in dict.fromkeys(data.columns.get_level_values(0))}
            data = pd.concat(blocks, names=[self.grouped]).droplevel(1)
            data.columns = pd.MultiIndex.from_tuples([("", *name) for name in data.columns])
        headings = [" ".join(filter(None, name[:2])) for name in data.columns if name[2] == "value"]
        in_groups = any(data.index.get_level_values(0))
        rows = list(self._rows(data))
        names = [[*[group] * in_groups, name] for (group, name), _ in rows]
        corner = [*[self.grouped or "group"] * in_groups, self.corner]
        return [*corner, *headings], names, [cells for _, cells in rows]


def file_name(caption: str) -> str:
    """The name of a file from a caption, without an ending."""
    name = re.sub(r"[^0-9A-Za-z@-]+", "_", caption).strip("_")
    # What tells two captions apart may stand at their ends, or be letters that the name lacks.
    is_short = len(name) <= _LONGEST and not re.search(r"[^0-9A-Za-z@ ,:()/_-]", caption)
    return name if is_short else f"{name[: _LONGEST - 9]}_{digest(caption)[:8]}"


def as_csv(table: PageTable) -> str:
    """A table as CSV with every part of a cell, each in a column of its own.

    Headings of two rows become one. A name that a spreadsheet would compute gets an apostrophe.
    """
    headings, names, rows = table.flat()
    corner = len(names[0])
    columns = [[heading, *own] for heading, own in zip(headings[:corner], zip(*names, strict=True), strict=True)]
    words = {"value": "", "std": " std", "change": " change", "low": " from", "high": " to"}
    for heading, cells in zip(headings[corner:], zip(*rows, strict=True), strict=True):
        parts = {word: [getattr(cell, part) for cell in cells] for part, word in words.items()}
        columns += [[heading + word, *texts] for word, texts in parts.items() if not word or any(texts)]
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(zip(*(map(_plain, column) for column in columns), strict=True))
    return buffer.getvalue()


def _plain(text: str) -> str:
    line = shown.line(text)
    return f"'{line}" if line.startswith(_FORMULA) and not re.fullmatch(r"[+-]?[\d,]*\.?\d+", line) else line


def _written(table: PageTable, escape: Callable[[str], str], marks: Mapping[str, str]) -> tuple[int, list[list[str]]]:
    """How many columns hold names; then the headings and the rows, cells as values with deviations and intervals."""
    headings, names, rows = table.flat()
    lines = [list(map(escape, headings))]
    for own, cells in zip(names, rows, strict=True):
        values = [(marks.get(cell.mark, "{}").format(escape(cell.spread)), escape(cell.span)) for cell in cells]
        lines.append([*map(escape, own), *(" ".join(filter(None, value)) for value in values)])
    return len(names[0]), lines


def as_markdown(table: PageTable) -> str:
    """A table as Markdown: its caption, the table, its note; the best in bold, the second in italics."""
    corner, (head, *rows) = _written(table, _markdown, {"best": "**{}**", "second": "*{}*"})
    lines = [head, ["---"] * corner + ["---:"] * (len(head) - corner), *rows]
    note = ["", _markdown(table.note)] if table.note else []
    return "\n".join([shown.name(table.caption), "", *(f"|{'|'.join(line)}|" for line in lines), *note, ""])


def _markdown(text: str) -> str:
    return shown.markdown(text) if text else ""


def as_latex(table: PageTable) -> str:
    """A table as LaTeX for the package booktabs, without a caption: as Markdown has it; the second is underlined."""
    corner, lines = _written(table, _latex, {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"})
    head, *rows = [rf"{' & '.join(line)} \\" for line in lines]
    width = len(lines[0])
    note = rf"\multicolumn{{{width}}}{{p{{\linewidth}}}}{{\footnotesize {_latex(table.note)}}} \\"
    begin = rf"\begin{{tabular}}{{{'l' * corner}{'r' * (width - corner)}}}"
    body = [r"\toprule", head, r"\midrule", *rows, r"\bottomrule", *([note] if table.note else [])]
    return "\n".join([begin, *body, r"\end{tabular}", ""])


_LATEX: dict[str, str | int | None] = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "≈": r"$\approx$",
}
_LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"}


def _latex(text: str) -> str:
    return shown.line(text).translate(str.maketrans(_LATEX)) if text else ""


FORMS: dict[str, tuple[str, Callable[[PageTable], str]]] = {
    "csv": ("CSV", as_csv),
    "md": ("Markdown", as_markdown),
    "tex": ("LaTeX", as_latex),
}
"""By the ending of a file's name: its name in links, and what writes it."""
