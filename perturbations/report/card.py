"""A corpus's dataset card: what it is, how it was made, and what its numbers may be compared with. Markdown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from perturbations import recipe, registry, shown
from perturbations.guidance import offline_roles
from perturbations.models import text_roles

Row = dict[str, Any]


def comparability(videos: Sequence[Row], texts: Sequence[Row] = ()) -> str:
    """Whether results on these rows, of videos or captions, compare with published ones, in one sentence."""
    stand_ins = {(row["perturbation"], role) for row in videos for role in offline_roles(row["backend"])}
    for one in {row["recipe"] for row in texts}:
        made = json.loads(one)
        offline = (role for role, player in made["players"].items() if player in text_roles.stand_ins())
        stand_ins |= {(made["perturbation"], role) for role in offline}
    rows = [*videos, *texts]
    calibrated = any(row["variant"] == "calibrated" for row in rows)
    columns = ("suite", "perturbation", "severity", "variant", "params")
    scenarios = {tuple(row[name] for name in columns) for row in rows if row["variant"] != "calibrated"}
    told = (dict(zip(columns, values, strict=True)) for values in scenarios)
    own = {one["perturbation"] for one in told if not recipe.is_published(one)}
    reasons = []
    if stand_ins:
        listed = ", ".join(f"{shown.name(name)} ({shown.name(role)})" for name, role in sorted(stand_ins))
        reasons.append(f"offline backends made {listed}")
    if calibrated:
        reasons.append("severities are calibrated")
    if own:
        reasons.append(f"parameters are not the published ones: {', '.join(sorted(own))}")
    if reasons:
        return f"not comparable with published numbers: {'; '.join(reasons)}"
    return "comparable with published numbers: no stand-in for a model was used"


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
    lines += [f"# {shown.name(front['pretty_name'])}", ""]
    if suite:
        lines += [f"After {suite.reference}.", ""]
    lines += [
        f"- {len(made)} of {len(rows)} clips complete: {len({row['item_id'] for row in made})} items, "
        f"{len({row['perturbation'] for row in rows})} perturbations, severities "
        + ", ".join(map(str, sorted({row["severity"] for row in rows}))),
        f"- variant: {shown.name(one.get('variant'))}; seed: {one.get('seed')}; "
        f"storage: {shown.name(one.get('storage'))}",
        f"- {comparability(rows)}",
        f"- made by perturbations {shown.name(about.get('package_version'))}; "
        f"configuration {shown.name(about.get('config_digest'))}",
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
        stand_ins = ", ".join(map(shown.name, roles)) or "none"
        lines.append(f"| {name} | {level} | {counts[name]} | {stand_ins} | {_psnr(of_it)} |")
    return "\n".join(lines) + "\n"


def _psnr(rows: Sequence[Row]) -> str:
    cells = []
    for severity in sorted({row["severity"] for row in rows}):
        values = [row["psnr_db"] for row in rows if row["severity"] == severity and row["psnr_db"] is not None]
        cells.append(f"{sum(values) / len(values):.1f}" if values else "-")
    return " / ".join(cells)
