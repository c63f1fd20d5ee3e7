"""A corpus's dataset card: what it is, how it was made, and whether its numbers are comparable. Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from perturbations.base import shown
from perturbations.engine.guided import offline_roles
from perturbations.manifest import layout
from perturbations.manifest.kinds import COMPLETE, VideoRow
from perturbations.manifest.sets import Listed, losses_sentence
from perturbations.suites import registry

TASKS = ("text-retrieval",)
"""The tasks of a dataset card, in the Hugging Face Hub's names: none of them is of videos and text."""

TAGS = ("robustness", "perturbation", "video-text-retrieval")


def card(
    suite: registry.Suite,
    rows: Sequence[VideoRow],
    listed: Listed,
    about: Mapping[str, object],
    *,
    captions: tuple[int, ...] = (0, 0),
) -> str:
    """The card of a `videos` manifest, from its rows and its metadata. The same rows give the same text.

    `captions` are the numbers of the dataset's captions that can be used and that cannot.
    """
    complete = [row for row in rows if row.status == COMPLETE]
    front = {
        "pretty_name": f"{suite.title} on {about.get('dataset', '')}",
        "task_categories": TASKS,
        "tags": TAGS,
    }
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in front.items()), "---", ""]
    lines += [
        f"# {shown.name(front['pretty_name'])}",
        "",
        f"After {suite.reference}.",
        "",
        f"- {listed.sentence('clips')}",
    ]
    usable, rejected = captions
    if rejected:
        place = layout.at("captions_quarantine", dataset=about.get("dataset", ""))
        lines.append(
            f"- {usable:,} of {usable + rejected:,} listed captions complete; {rejected:,} quarantined: "
            f"`snakemake {shown.name(place)}` lists them"
        )
    if rows:
        severities = ", ".join(map(str, sorted({row.severity for row in rows})))
        names = {row.perturbation for row in rows}
        lines += [
            f"- {len(complete):,} of {listed.listed * listed.scenarios:,} videos; perturbations: {len(names)}, "
            f"severities: {severities}",
            f"- variant: {shown.name(rows[0].variant)}; seed: {rows[0].seed}; storage: {shown.name(rows[0].storage)}"
            f"{_loss(complete)}",
        ]
    lines += [f"- {shown.name(lost)}"] if (lost := losses_sentence(about)) else []
    lines += [
        f"- {about.get('comparability', '')}",
        f"- made by perturbations {shown.name(about.get('package_version'))}; "
        f"configuration {shown.name(about.get('config_digest'))}",
        "",
        "| perturbation | category | clips | offline stand-ins for | PSNR against clean, dB, by severity |",
        "|---|---|---|---|---|",
    ]
    for entry in suite.perturbations:
        if not any(row.perturbation == entry.name for row in rows):
            continue
        members = [row for row in complete if row.perturbation == entry.name]
        roles = ", ".join(map(shown.name, stand_ins(members))) or "none"
        lines.append(f"| {entry.name} | {entry.category} | {len(members)} | {roles} | {_psnr(members)} |")
    return "\n".join(lines) + "\n"


def stand_ins(rows: Sequence[VideoRow]) -> list[str]:
    """The roles that offline backends played in these rows, sorted."""
    return sorted({role for row in rows for role in offline_roles(row.backend)})


def _loss(rows: Sequence[VideoRow]) -> str:
    """How far stored frames are from those that the kernels made; empty where nothing is lost."""
    lossy = [row.storage_psnr_db for row in rows if row.storage_psnr_db is not None and row.storage_psnr_db < math.inf]
    if not lossy:
        return ""
    by = ", as the authors of MSRVTT-P stored" if rows[0].storage == "video/released" else ""
    return f", lossy{by}: stored against intended frames {min(lossy):.1f} to {max(lossy):.1f} dB"


def _psnr(rows: Sequence[VideoRow]) -> str:
    cells = []
    for severity in sorted({row.severity for row in rows}):
        mean = mean_psnr([row.psnr_db for row in rows if row.severity == severity])
        cells.append("-" if mean is None else "equal" if mean == math.inf else f"{mean:.1f}")
    return " / ".join(cells)


def mean_psnr(values: Sequence[float | None]) -> float | None:
    """The mean PSNR, in dB, of the clips that changed: one clip of equal frames would make every mean infinite.

    Infinite where no clip changed, None where none was measured.
    """
    measured = [value for value in values if value is not None and not math.isnan(value)]
    changed = [value for value in measured if value < math.inf]
    if not changed:
        return math.inf if measured else None
    return math.fsum(changed) / len(changed)
