"""What a calibration found, as text: published and solved severities side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from perturbations.base import shown
from perturbations.calibration.solver import TOLERANCE, rises
from perturbations.calibration.table import TableContent

_COARSE = 2 * TOLERANCE


def attained(entry: TableContent) -> list[float]:
    """The SSIM of the five solved severities."""
    return [entry["severities"][key]["attained"] for key in sorted(entry["severities"])]


def published(entry: TableContent) -> list[float]:
    """The SSIM of the published ones."""
    return [point["ssim"] for point in entry["published"]]


def _coarse(entry: TableContent) -> bool:
    """Whether a severity misses its aim by more than 0.02: whole numbers leave gaps."""
    return any(abs(row["attained"] - row["aim"]) > _COARSE for row in entry["severities"].values())


def remarks(entry: TableContent, targets: Sequence[float]) -> str:
    """Why a perturbation does not meet every target, in a few words; empty where it does."""
    mildest, strongest = entry["attainable"]
    notes = []
    if entry["limited"] and mildest < targets[0] - TOLERANCE:
        notes.append(f"starts at {mildest:.2f}")
    if entry["limited"] and strongest > targets[-1] + TOLERANCE:
        notes.append(f"ends at {strongest:.2f}")
    if _coarse(entry):
        notes.append("coarse steps")
    if entry["tied"]:
        notes.append(f"severity {', '.join(map(str, entry['tied']))} as the one before")
    return "; ".join(notes)


def text(table: TableContent) -> str:
    """A report in Markdown. The same table gives the same text."""
    entries, targets = dict(sorted(table["perturbations"].items())), table["targets"]
    full = {key: entry for key, entry in entries.items() if not entry["limited"]}
    inverted = {key: rises(published(entry)) for key, entry in entries.items() if rises(published(entry))}
    not_monotonic = [key for key, entry in entries.items() if rises(attained(entry))]
    exact = [key for key, entry in full.items() if not _coarse(entry)]
    worst = max(
        (abs(row["attained"] - row["target"]) for key in exact for row in full[key]["severities"].values()), default=0.0
    )
    lines = [
        f"# Severities of even distortion on {shown.name(table['dataset'])}",
        "",
        f"Mean SSIM of the perturbed against the clean clip: {table['frames']} frames each of {len(table['sample'])} "
        f"clips, seed {table['seed']}, perturbations {table['package_version']}. "
        f"Targets {_numbers(targets)} for severities 1 to 5.",
        "",
        f"- {len(full)} of {len(entries)} perturbations reach all targets, {len(exact)} of them within "
        f"{_COARSE:.2f} (at most {worst:.3f} off); {len(entries) - len(full)} are limited: five even steps of what "
        "their kernel can do",
        f"- {len(entries) - len(not_monotonic)} of {len(entries)} fall from each severity to the next, or stay",
        f"- {len(inverted)} of {len(entries)} published tables do not: at some severity (in brackets) the clip is "
        "nearer to the clean one than at the severity before: "
        + (", ".join(f"{key} ({', '.join(map(str, severities))})" for key, severities in inverted.items()) or "none"),
        "",
        "| perturbation | published 1-5 | calibrated 1-5 | spread between clips | parameters | remarks |",
        "|---|---|---|---|---|---|",
    ]
    for key, entry in entries.items():
        spread = max(row["spread"] for row in entry["severities"].values())
        cells = [
            key,
            _numbers(published(entry)) + (" **not monotonic**" if key in inverted else ""),
            _numbers(attained(entry)),
            f"{spread:.2f}",
            _parameters(entry),
            remarks(entry, targets),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _numbers(values: Iterable[float]) -> str:
    return " ".join(f"{value:.2f}" for value in values)


def _parameters(entry: TableContent) -> str:
    """What moves, severity by severity."""
    tables: list[dict[str, Any]] = [entry["severities"][key]["params"] for key in sorted(entry["severities"])]
    moving = [name for name in sorted(tables[0]) if len({str(table[name]) for table in tables}) > 1]
    return "; ".join(f"{name} {' '.join(str(table[name]) for table in tables)}" for name in moving)
