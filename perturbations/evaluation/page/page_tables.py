"""A table of the page: a frame of values and how to show it; on the page as HTML, beside it as files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


class _Heading(NamedTuple):
    text: str
    span: int
    first: bool
    """Whether a group of columns begins with it."""


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
            the baseline), "low" and "high" (of an interval) and "mark". Groups may be "".
        form: how numbers are written, as `format` takes it; of each name of a column where they differ.
        note: how to read it.
        stacked: whether the parts of a cell may stand below each other, to fit a small screen.
        left: whether it holds words and not numbers.
        brief: the columns whose deviations, changes and intervals the page shows, where it does not show all; the CSV
            has all.
        forms: as which files it is there, of `FORMS`, beside its rows in the CSV of all tables.
        name: of its files, without an ending; "": by its caption.
        on_page: whether the page shows it; the CSV has it in any case.
    """

    caption: str
    data: pd.DataFrame
    form: str | Mapping[str, str] = ""
    note: str = ""
    stacked: bool = False
    left: bool = False
    brief: Sequence[str] = ()
    forms: Sequence[str] = ()
    name: str = ""
    on_page: bool = True
    kind: str = "table"

    @property
    def head(self) -> Iterator[list[_Heading]]:
        """The rows of headings: of groups, if there are any, and of columns."""
        groups = [(group, len(list(own))) for group, own in groupby(self.columns, lambda name: name[0])]
        if any(group for group, _ in groups):
            yield [_Heading(group, span, place > 0 or group != "") for place, (group, span) in enumerate(groups)]
        before = ""
        headings = []
        for group, name in self.columns:
            headings.append(_Heading(name, 1, group != before))
            before = group
        yield headings

    @property
    def body(self) -> Iterator[tuple[str, list[_Cell]]]:
        """The name of each row, and its cells as the page shows them."""
        for name, cells in self.rows():
            yield (
                name,
                [
                    cell if not self.brief or column in self.brief else _Cell(cell.value, mark=cell.mark)
                    for (_, column), cell in zip(self.columns, cells, strict=True)
                ],
            )

    @property
    def corner(self) -> str:
        """What the names of its rows are."""
        return str(self.data.index.name)

    @cached_property
    def columns(self) -> list[tuple[str, str]]:
        """The group and the name of each column."""
        columns: list[Any] = self.data.columns.to_list()
        return [(group, name) for group, name, part in columns if part == "value"]

    @property
    def files(self) -> list[tuple[str, str]]:
        """The table in its forms: what a link says, and the name of the file."""
        name = self.name or file_name(self.caption)
        return [(title, f"{name}.{ending}") for ending, (title, _) in FORMS.items() if ending in self.forms]

    def rows(self) -> Iterator[tuple[str, list[_Cell]]]:
        """The name of each row, and its cells."""
        columns: list[Any] = self.data.columns.to_list()
        texts = [
            [self._text(value, name, part) for value in self.data.iloc[:, place]]
            for place, (_, name, part) in enumerate(columns)
        ]
        for place, row_name in enumerate(self.data.index):
            cells: list[dict[str, str]] = []
            for (*_, part), column in zip(columns, texts, strict=True):
                cells += [{}] if part == "value" else []
                cells[-1][part] = column[place]
            yield str(row_name), [_Cell(**cell) for cell in cells]

    def _text(self, value: Any, name: str, part: str) -> str:
        if isinstance(value, str):
            return value
        form = self.form if isinstance(self.form, str) else self.form[name]
        return "" if pd.isna(value) else number(value, f"+{form}" if part == "change" else form)


def file_name(caption: str) -> str:
    """The name of a file from a caption, without an ending."""
    name = re.sub(r"[^0-9A-Za-z@-]+", "_", caption).strip("_")
    # What tells two captions apart may stand at their ends, or be letters that the name lacks.
    is_short = len(name) <= _LONGEST and not re.search(r"[^0-9A-Za-z@ ,:()/_-]", caption)
    return name if is_short else f"{name[: _LONGEST - 9]}_{digest(caption)[:8]}"


_CSV = ("table", "row", "column_group", "column", "value", "std", "change", "low", "high", "mark")


def as_csv(tables: Iterable[PageTable]) -> str:
    """Every cell of tables as a row of one CSV, with its value, deviation, change, interval and mark.

    A name that a spreadsheet would compute gets an apostrophe.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_CSV)
    for table in tables:
        for row_name, cells in table.rows():
            for column, cell in zip(table.columns, cells, strict=True):
                names = map(_plain, (table.caption, row_name, *column))
                parts = map(_plain, (cell.value, cell.std, cell.change, cell.low, cell.high))
                writer.writerow([*names, *parts, cell.mark])
    return buffer.getvalue()


def _plain(text: str) -> str:
    line = shown.line(text)
    return f"'{line}" if line.startswith(_FORMULA) and not re.fullmatch(r"[+-]?[\d,]*\.?\d+", line) else line


def _written(table: PageTable, escape: Callable[[str], str], marks: Mapping[str, str]) -> list[list[str]]:
    """The headings and the rows: values with their deviations, without intervals, so that a table fits a page."""
    headings = [" ".join(filter(None, column)) for column in table.columns]
    lines = [[escape(table.corner), *map(escape, headings)]]
    for name, cells in table.body:
        values = [marks.get(cell.mark, "{}").format(escape(cell.spread)) for cell in cells]
        lines.append([escape(name), *values])
    return lines


def as_markdown(table: PageTable) -> str:
    """A table as Markdown: its caption, the table, its note; the best in bold, the second in italics."""
    head, *rows = _written(table, _markdown, {"best": "**{}**", "second": "*{}*"})
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    note = ["", _markdown(table.note)] if table.note else []
    return "\n".join([shown.name(table.caption), "", *(f"|{'|'.join(line)}|" for line in lines), *note, ""])


def _markdown(text: str) -> str:
    return shown.markdown(text) if text else ""


def as_latex(table: PageTable) -> str:
    """A table as LaTeX for the packages booktabs and graphicx, as wide as the text, without a caption.

    The best are bold, the second ones underlined.
    """
    lines = _written(table, _latex, {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"})
    head, *rows = [rf"{' & '.join(line)} \\" for line in lines]
    begin = rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}"
    body = [r"\toprule", head, r"\midrule", *rows, r"\bottomrule"]
    note = [rf"\par\footnotesize {_latex(table.note)}"] if table.note else []
    return "\n".join([r"\resizebox{\linewidth}{!}{%", begin, *body, r"\end{tabular}}", *note, ""])


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
    "md": ("Markdown", as_markdown),
    "tex": ("LaTeX", as_latex),
}
"""By the ending of a file's name: its name in links, and what writes it."""
