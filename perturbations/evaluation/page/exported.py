"""A table of the page as files: CSV with every part of a cell, Markdown and LaTeX with the values alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from perturbations.base import shown

if TYPE_CHECKING:
    from perturbations.evaluation.page.parts import Cell, PageTable

_WORDS = {"spread": ("std",), "change": ("change",), "interval": ("from", "to")}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(table: PageTable) -> str:
    """A table as CSV. Headings of two rows become one, and a group of rows or columns a column of its own.

    A number with a spread, a change or an interval is followed by columns of these. A name that a spreadsheet would
    compute gets an apostrophe.
    """
    names, rows = _rows_of(table)
    cells = [own for _, _, own in rows]
    places = range(len(names) - 1)
    extra = [
        [name for name in ("spread", "change", "interval") if any(getattr(own[place], name) for own in cells)]
        for place in places
    ]
    in_groups = any(group for group, _, _ in rows)
    head = [table.grouped or "group"] * in_groups + [names[0] or "name"]
    for name, columns in zip(names[1:], extra, strict=True):
        head += [name, *(f"{name} {word}" for column in columns for word in _WORDS[column])]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_plain, head))
    for group, name, own in rows:
        row = [_plain(group)] * in_groups + [_plain(name)]
        for cell, columns in zip(own, extra, strict=True):
            parts = {"spread": [cell.spread], "change": [cell.change], "interval": cell.interval or ("", "")}
            row += [cell.text if _is_number(cell.text) else _plain(cell.text)]
            row += [text for column in columns for text in parts[column]]
        writer.writerow(row)
    return buffer.getvalue()


def _rows_of(table: PageTable) -> tuple[list[str], list[tuple[str, str, Sequence[Cell]]]]:
    """The headings of a table's CSV, and the group, the name and the cells of each row."""
    rows: list[tuple[str, str, Sequence[Cell]]] = []
    if table.grouped:
        start = 0
        for group in table.head[0][1:]:
            rows += [(group.text, line.name, line.cells[start : start + group.span]) for line in table.body]
            start += group.span
        return [cell.text for cell in table.head[1][: 1 + table.head[0][1].span]], rows
    of_rows = ""
    for line in table.body:
        if line.cells:
            rows.append((of_rows, line.name, line.cells))
        else:
            of_rows = line.name
    return _headings(table), rows


def _headings(table: PageTable) -> list[str]:
    """The name of each column: of its group, and its own."""
    groups_of = [cell.text for cell in table.head[0] for _ in range(cell.span)]
    if len(table.head) == 1:
        return groups_of
    own = [cell.text for cell in table.head[1]]
    return [groups_of[0], *(" ".join(filter(None, pair)) for pair in zip(groups_of[1:], own[1:], strict=True))]


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True


def _plain(text: str) -> str:
    line = shown.line(text)
    return f"'{line}" if line.startswith(_FORMULA) else line


def as_markdown(table: PageTable) -> str:
    """A table as Markdown: its caption, then values with their spreads; the best in bold, the second in italics."""
    names, rows = _rows_of(table)
    head = [names[0] or "name", *names[1:]]
    in_groups = any(group for group, _, _ in rows)
    marks = {"best": "**{}**", "second": "*{}*"}
    lines = [[table.grouped or ""] * in_groups + head]
    lines += [
        [group] * in_groups + [name, *(marks.get(cell.mark, "{}").format(_value(cell)) for cell in cells)]
        for group, name, cells in rows
    ]
    escaped = ["|" + "|".join(shown.line(text).replace("|", "\\|") for text in line) + "|" for line in lines]
    rule = "|" + "|".join("---" if place <= in_groups else "---:" for place in range(len(lines[0]))) + "|"
    return "\n".join([shown.line(table.caption), "", escaped[0], rule, *escaped[1:], ""])


def as_latex(table: PageTable) -> str:
    """A table as LaTeX for the package booktabs: values with their spreads; the best in bold, the second underlined."""
    names, rows = _rows_of(table)
    marks = {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"}
    lines = [r"\begin{table}", rf"\caption{{{_tex(table.caption)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(names) - 1)}}}", r"\toprule"]
    lines += ["&".join(map(_tex, names)) + r"\\", r"\midrule"]
    last = ""
    for group, name, cells in rows:
        if group != last:
            lines.append(rf"\multicolumn{{{len(names)}}}{{l}}{{{_tex(group)}}}\\")
            last = group
        values = (marks.get(cell.mark, "{}").format(_tex(_value(cell))) for cell in cells)
        lines.append("&".join([_tex(name), *values]) + r"\\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _value(cell: Cell) -> str:
    return f"{cell.text} ± {cell.spread}" if cell.spread else cell.text


_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "≈": r"$\approx$",
        "†": r"$\dagger$",
    }
)


def _tex(text: str) -> str:
    return shown.line(text).translate(_TEX)


FORMS: dict[str, tuple[str, str, Callable[[PageTable], str]]] = {
    "csv": ("CSV", "text/csv", as_csv),
    "md": ("Markdown", "text/markdown", as_markdown),
    "tex": ("LaTeX", "text/x-tex", as_latex),
}
"""By the ending of a file's name: its name in links, its type in addresses, and what writes it."""
