"""A corpus's dataset card: what it is, how it was made, and what its numbers may be compared with. Markdown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from perturbations import registry
from perturbations.guidance import offline_roles

Row = dict[str, Any]


def comparability(rows: Sequence[Row]) -> str:
    """Whether results on these rows compare with published ones, in one sentence."""
    stand_ins = sorted({(row["perturbation"], role) for row in rows for role in offline_roles(row["backend"])})
    if not stand_ins:
        return "comparable with published numbers: no stand-in for a model was used"
    listed = ", ".join(f"{name} ({role})" for name, role in stand_ins)
    return f"not comparable with published numbers: offline backends made {listed}"


def card(rows: Sequence[Row], about: Mapping[str, Any]) -> str:
    """The card of a `videos` manifest, from its rows and its metadata. The same rows give the same text."""
    suite = registry.suite(rows[0]["suite"]) if rows else None
    made = [row for row in rows if row["status"] == "complete"]
    one = rows[0] if rows else {}
    front = {
        "pretty_name": f"{suite.title if suite else ''} on {one.get('dataset', '')}",
        "task_categories": ["text-to-video-retrieval"],
        "tags": ["robustness", "perturbation", "video-text-retrieval"],
    }
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in front.items()), "---", ""]
    lines += [f"# {front['pretty_name']}", ""]
    if suite:
        lines += [f"After {suite.reference}.", ""]
    lines += [
        f"- {len(made)} of {len(rows)} clips complete: {len({row['item_id'] for row in made})} items, "
        f"{len({row['perturbation'] for row in rows})} perturbations, severities "
        + ", ".join(map(str, sorted({row["severity"] for row in rows}))),
        f"- variant: {one.get('variant')}; seed: {one.get('seed')}; storage: {one.get('storage')}",
        f"- {comparability(rows)}",
        f"- made by perturbations {about.get('package_version')}; configuration {about.get('config_digest')}",
        "",
        "| perturbation | level | clips | offline stand-ins for | PSNR against clean, dB, by severity |",
        "|---|---|---|---|---|",
    ]
    names = [entry.name for entry in suite.perturbations] if suite else []
    counts = Counter(row["perturbation"] for row in made)
    for name in (name for name in names if any(row["perturbation"] == name for row in rows)):
        of_it = [row for row in made if row["perturbation"] == name]
        roles = sorted({role for row in of_it for role in offline_roles(row["backend"])})
        level = registry.get(f"{one['suite']}/{name}").level
        lines.append(f"| {name} | {level} | {counts[name]} | {', '.join(roles) or 'none'} | {_psnr(of_it)} |")
    return "\n".join(lines) + "\n"


def _psnr(rows: Sequence[Row]) -> str:
    cells = []
    for severity in sorted({row["severity"] for row in rows}):
        values = [row["psnr_db"] for row in rows if row["severity"] == severity and row["psnr_db"] is not None]
        cells.append(f"{sum(values) / len(values):.1f}" if values else "-")
    return " / ".join(cells)
