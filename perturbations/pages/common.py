"""What pages share: links, the order of perturbations, and the reasons for which items are missing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from perturbations.manifest.rows import QuarantineRow
from perturbations.suites import suite_registry

_MOST_ITEMS = 5


def href(target: Path, page: Path) -> str:
    """A link from a page to a file, which holds wherever both are moved together."""
    return quote(os.path.relpath(os.path.abspath(target), os.path.abspath(page.parent)))


def in_order(suites: Iterable[str], present: set[str]) -> list[str]:
    """The perturbations that are present, in their suites' order; then those that are not installed here, by name."""
    installed = sorted(set(suites) & suite_registry.suites().keys())
    known = dict.fromkeys(entry.name for suite in installed for entry in suite_registry.perturbations(suite))
    return [*(name for name in known if name in present), *sorted(present - known.keys())]


def categories(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Perturbations by category, in the order of pairs of a name and a category."""
    known: dict[str, list[str]] = {}
    for name, category in pairs:
        known.setdefault(category, []).append(name)
    return known


def reasons(rows: Sequence[QuarantineRow]) -> list[dict[str, object]]:
    """The reasons with the first items of each, the most frequent first.

    A clip that failed in several scenarios counts once per reason.
    """
    groups: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        groups.setdefault((row.stage or row.status, row.error or "no reason was kept"), set()).add(row.item_id)
    return [
        {"where": where, "count": len(items), "reason": reason, "which": ", ".join(sorted(items)[:_MOST_ITEMS])}
        | {"more": len(items) > _MOST_ITEMS}
        for (where, reason), items in sorted(groups.items(), key=lambda own: (-len(own[1]), own[0]))
    ]
