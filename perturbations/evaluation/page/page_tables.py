"""The parts of the page: sections of texts, figures and tables; and tables as CSV, Markdown and LaTeX."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

import pandas as pd

from perturbations.base import shown
from perturbations.exports.export_folder import for_spreadsheets

_LONGEST = 80  # letters of a file's name
_LATEX_LETTERS = 90  # that a line of a table in \footnotesize holds beside the margins of a page
_LATEX_LINES = 45  # that a page holds below rotated headings
_LATEX_GAP = 2  # letters between two columns
_BEYOND_PDFLATEX = re.compile("[\u0180-\u200f\u2200-\U0010ffff]")
_OF_UNICODE = "% for LuaLaTeX or XeLaTeX, and a font that has these letters\n"


class Cell(NamedTuple):
    """The texts of a cell.

    `change` is to the baseline, `low` and `high` are the ends of an interval, and `mark` is "best", "second", "tie"
    (not separable from the best one), "departs" (not comparable with the published number) or "".
    """

    value: str = ""
    std: str = ""
    change: str = ""
    low: str = ""
    high: str = ""
    mark: str = ""

    @property
    def spread(self) -> str:
        """The value with its deviation."""
        return f"{self.value} ± {self.std}" if self.std else self.value


def number(value: float, form: str) -> str:
    """A number in a form; a rounded zero has no sign."""
    text = format(value, form)
    return text.lstrip("+-") if form.endswith(("f", "d")) and not text.strip("+-0.,") else text


def cell_of(form: str, mark: str = "", /, **numbers: float | None) -> Cell:
    """A cell of numbers in a form, as `format` takes it, by the names of `Cell`; None and NaN are empty."""
    known = {name: value for name, value in numbers.items() if value is not None and value == value}
    texts = {name: number(value, f"+{form}" if name == "change" else form) for name, value in known.items()}
    return Cell(**texts, mark=mark)


@dataclass
class PageTable:
    """A table.

    Attributes:
        caption: its title.
        corner: what the names of its rows are.
        frame: its cells, by the names of rows, and by group (which may be "") and name of columns.
        note: what a reader must know about this table.
        guide: how to read such tables, in lines; the page shows a guide once.
        style: "stacked": the parts of a cell may be below each other, to fit a small screen; "board": so, and the
            headings sort; "left": it holds words and not numbers.
        brief: the columns whose deviations, changes and intervals the page shows; empty: all columns. The CSV has all.
        has_files: whether it is also written as Markdown and LaTeX.
        on_page: whether the page shows it; the CSV always has it.
        file: the name of its files, without an ending.
    """

    caption: str
    corner: str
    frame: pd.DataFrame
    note: str = ""
    guide: str = ""
    style: str = ""
    brief: Sequence[str] = ()
    has_files: bool = False
    on_page: bool = True
    file: str = ""

    @property
    def heads(self) -> list[tuple[str, str]]:
        """The group and the name of each column."""
        columns: list[Any] = self.frame.columns.tolist()
        return [(str(group), str(name)) for group, name in columns]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The groups of columns, and how many columns each group has; empty where no column is in a group."""
        groups = [(group, len(list(own))) for group, own in itertools.groupby(group for group, _ in self.heads)]
        return groups if any(group for group, _ in groups) else []

    @property
    def columns(self) -> list[tuple[str, bool]]:
        """The name of each column, and whether it is the first of a group."""
        before = ["", *(group for group, _ in self.heads)]
        return [(name, own != last) for (own, name), last in zip(self.heads, before, strict=False)]

    @property
    def body(self) -> list[tuple[str, tuple[Cell, ...]]]:
        """The name of each row, and its cells as the page shows them.

        Parts that are not `brief`, and zero deviations, are left out.
        """
        columns = []
        for (_, name), (_, column) in zip(self.heads, self.frame.items(), strict=True):
            cells = [cell._replace(std=cell.std if cell.std.strip("0.") else "") for cell in column]
            if self.brief and name not in self.brief:
                cells = [Cell(cell.value, mark=cell.mark) for cell in cells]
            columns.append(cells)
        return list(zip(map(str, self.frame.index), zip(*columns, strict=True), strict=True))


def text_frame(columns: Mapping[str, Iterable[str]], names: Iterable[str]) -> pd.DataFrame:
    """The cells of columns of texts, for the named rows."""
    return pd.DataFrame({("", name): [Cell(text) for text in own] for name, own in columns.items()}, pd.Index(names))


@dataclass
class Figure:
    """A picture inside the page, and a file beside it.

    Fields: its SVG, an SVG for narrow screens, a description, its caption, and the file's name.
    """

    svg: str
    narrow: str
    alt: str
    caption: str
    file: str = ""

    @property
    def sources(self) -> tuple[str, str]:
        """The addresses of both SVGs as data. The narrow one has no spaces: it is in a list."""
        wide, narrow = (quote(own, safe=" /:=,;'()!@$*+?{}[]|~") for own in (self.svg, self.narrow))
        return f"data:image/svg+xml,{wide}", f"data:image/svg+xml,{narrow}".replace(" ", "%20")


@dataclass
class Section:
    """Parts under a title: a section of the page or, without an anchor, parts that open with a click on the title."""

    title: str
    parts: Sequence[PagePart] = ()
    anchor: str = ""


@dataclass
class PlayedClips:
    """Clips side by side that play (`pages.clip_previews.Preview`), each with its name, and lines below their title."""

    title: str
    clips: Sequence[tuple[str, Mapping[str, str]]]
    lines: Sequence[str]


PagePart = PageTable | Figure | PlayedClips | Section | str
PageLeaf = PageTable | Figure | PlayedClips | str


def leaves(parts: Iterable[PagePart]) -> Iterator[PageLeaf]:
    """The tables, figures and texts among parts, folded parts included."""
    for part in parts:
        yield from leaves(part.parts) if isinstance(part, Section) else [part]


def name_files(parts: Iterable[PageLeaf]) -> None:
    """Give each figure, and each table with files, a unique name for its files."""
    taken: set[str] = set()
    for part in parts:
        if isinstance(part, Figure) or (isinstance(part, PageTable) and part.has_files):
            own = re.sub(r"[^0-9A-Za-z@-]+", "_", part.caption).strip("_")[:_LONGEST]
            names = itertools.chain([own], (f"{own}_{place}" for place in itertools.count(2)))
            part.file = next(name for name in names if name.casefold() not in taken)  # some file systems know no case
            taken.add(part.file.casefold())


# --- as files ---------------------------------------------------------------------------------------------------------


def as_csv(tables: Iterable[PageTable]) -> str:
    """Every cell of tables as a row of one CSV, with its value, deviation, change, interval and mark.

    A name that a spreadsheet would compute gets an apostrophe.
    """
    rows = [
        [*map(_plain, (table.caption, str(name), *head, *cell[:-1])), cell.mark]
        for table in tables
        for name, *cells in table.frame.itertuples(name=None)
        for head, cell in zip(table.heads, cells, strict=True)
    ]
    heads = ["table", "row", "column_group", "column", *Cell._fields]
    return pd.DataFrame(rows, columns=heads).to_csv(index=False, lineterminator="\n")


def _plain(text: str) -> str:
    line = shown.line(text)
    return line if re.fullmatch(r"[+-]?[\d,]*\.?\d+", line) else for_spreadsheets(line)


def _lines(table: PageTable, escape: Callable[[str], str], best: str, second: str) -> tuple[list[list[str]], str]:
    """The headings, the rows and the note, without the small line below a value, which only the page shows.

    Lines of the guide about signs that the table does not contain are left out.
    """
    forms = {"best": best, "second": second, "tie": escape("≈") + "{}"}
    columns = [
        [forms.get(own.mark, "{}").format(escape(own.spread)) for own in table.frame[head]] for head in table.frame
    ]
    heads = [escape(text) for text in (table.corner, *(" ".join(filter(None, head)) for head in table.heads))]
    names = [escape(str(name)) for name in table.frame.index]
    guide = table.guide[table.guide.find("Bold: ") :] if table.guide.startswith("Small: ") else table.guide
    cells = [cell for head in table.frame for cell in table.frame[head]]
    signs = "".join([*map(str, table.frame.index), *(own.spread + "≈" * (own.mark == "tie") for own in cells)])
    guides = [line for line in guide.splitlines() if line[0] not in "≈±†" or line[0] in signs]
    return [heads, *map(list, zip(names, *columns, strict=True))], escape(" ".join(filter(None, (*guides, table.note))))


def as_markdown(table: PageTable) -> str:
    """A table as Markdown: its caption, the table, its note; the best in bold, the second in italics."""
    (head, *rows), note = _lines(table, lambda text: shown.markdown(text) if text else "", "**{}**", "*{}*")
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join([shown.name(table.caption), "", *(f"|{'|'.join(line)}|" for line in lines), "", note, ""])


def as_latex(table: PageTable) -> str:
    r"""A table as LaTeX for the packages booktabs and rotating, without a caption.

    The best values are bold, the second best are underlined. It is set in \footnotesize, with upright names of columns.
    Columns and rows that do not fit a page are in a further `tabular` below.
    """
    (head, *rows), note = _lines(table, _latex, r"\textbf{{{}}}", r"\underline{{{}}}")
    head = [head[0], *(rf"\rotatebox{{90}}{{{name}}}" for name in head[1:])]
    lines = [r"{\footnotesize\setlength{\tabcolsep}{3pt}\raggedright"]
    for first, places in itertools.product(range(0, len(rows), _LATEX_LINES), _panels(table)):
        part = [head, *rows[first : first + _LATEX_LINES]]
        panel = [" & ".join([line[0], *(line[1 + place] for place in places)]) + r" \\" for line in part]
        lines += [rf"\begin{{tabular}}{{l{'r' * len(places)}}}", r"\toprule", panel[0], r"\midrule", *panel[1:]]
        lines += [r"\bottomrule", r"\end{tabular}\par\medskip"]
    text = "\n".join([*lines, f"{note}}}", ""])
    return f"{_OF_UNICODE}{text}" if _BEYOND_PDFLATEX.search(text) else text


def _panels(table: PageTable) -> list[range]:
    """The columns in groups that fit side by side on a page, if all were as wide as the widest."""
    label = max(map(len, map(str, (table.corner, *table.frame.index))))
    widest = max([2, *(len(cell.spread) for head in table.frame for cell in table.frame[head])])
    across = max(1, (_LATEX_LETTERS - label) // (widest + _LATEX_GAP))
    places = range(len(table.heads))
    return [places[first : first + across] for first in places[::across]]


_LATEX: dict[str, str | int | None] = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "≈": r"$\approx$",
    "±": r"$\pm$",
    "†": r"\dag{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
_LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
_LATEX |= {letter: f"{{{letter}}}" for letter in "[*"}  # after a line's end they are options


def _latex(text: str) -> str:
    return shown.line(text).translate(str.maketrans(_LATEX))


FORMS: dict[str, tuple[str, Callable[[PageTable], str]]] = {
    "md": ("Markdown", as_markdown),
    "tex": ("LaTeX", as_latex),
}
"""By the ending of a file's name: its name in links, and what writes it."""
