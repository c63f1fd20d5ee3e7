"""What the pages of this package share: links, and the reasons for which items lack."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from perturbations.manifest.kinds import QuarantineRow

_MOST_ITEMS = 5


@dataclass(frozen=True)
class _Reason:
    """A reason for which items lack, with the first of them."""

    where: str
    count: int
    reason: str
    items: tuple[str, ...]
    more: bool


def href(target: Path, page: Path) -> str:
    """A link from a page to a file, which holds wherever both are moved together."""
    return quote(os.path.relpath(os.path.abspath(target), os.path.abspath(page.parent)))


def reasons(rows: Sequence[QuarantineRow]) -> list[_Reason]:
    """The reasons, the most frequent first; a clip that failed in several scenarios counts once per reason."""
    groups: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        where = row.stage or row.status
        groups.setdefault((where, row.error or "no reason was kept"), set()).add(row.item_id)
    lines = [
        _Reason(where, len(items), reason, tuple(sorted(items)[:_MOST_ITEMS]), len(items) > _MOST_ITEMS)
        for (where, reason), items in groups.items()
    ]
    return sorted(lines, key=lambda line: (-line.count, line.where, line.reason))
