"""The table of costs, `perturbations/plan/costs.csv`, from what `benchmarks/costs.py measure` wrote.

Times are CPU seconds of the machine at its best: measured ones by how much longer the machine took around them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from perturbations.plan import costs
from perturbations.suites import registry

TABLE = Path(__file__).parents[1] / "perturbations/plan/costs.csv"

BATCH_S = 0.04
"""CPU seconds per job beside the start of its process: `costs.py parts`, as the next three."""
CLIP_S = {
    "video": {"pixel": 0.04, "temporal": 0.045, "codec": 0.16},
    "frames": {"pixel": 0.016, "temporal": 0.02, "codec": 0.06},
}
"""CPU seconds per clip that do not grow with its length, by method."""
DECODE_S = 0.0045
"""CPU seconds per million pixels of a clip that is decoded, where only sampled frames are perturbed."""
STORED_S = 0.045
"""CPU seconds per million pixels of sampled frames that are stored, where all frames of a clip are perturbed."""

OF_SAMPLED_FRAMES = ("analyses/main_object", "analyses/embedding")
"""Analyses that look at as many frames of every clip."""

Line = Mapping[str, str]
"""Of the measurements: one clip in one scenario."""


def write(raw: Iterable[Path]) -> None:
    """Write the table of the scenarios that were measured, and of no others."""
    _write({key: fitted(key, lines) for key, lines in sorted(_scenarios(raw).items())})


def write_times(raw: Iterable[Path]) -> None:
    """Write the times of the scenarios in the table, and leave what they store as it is.

    A severity that was not measured takes as much longer or shorter than before as the nearest one that was.
    """
    measured = {key: fitted(key, lines) for key, lines in _scenarios(raw).items()}
    known = costs.table()
    changes: dict[tuple[str, str, str], dict[int, float]] = {}
    for key, cost in measured.items():
        if key in known and (before := _seconds(known[key])):
            changes.setdefault((key[0], key[1], key[3]), {})[key[2]] = _seconds(cost) / before
    table = {}
    for key, cost in known.items():
        of_severities = changes.get((key[0], key[1], key[3]), {})
        if key in measured:
            times = measured[key]
            table[key] = replace(cost, cpu_s=times.cpu_s, stored_s=times.stored_s, clip_s=times.clip_s)
        elif of_severities:
            change = of_severities[min(of_severities, key=lambda other: (abs(other - key[2]), other))]
            table[key] = replace(cost, cpu_s=cost.cpu_s * change, stored_s=cost.stored_s * change)
        else:
            table[key] = cost
    _write(table)


_CLIP = costs.Volume(clips=1, pixels=9.6e6, seconds=5, stored_pixels=0.92e6)
"""Of five seconds at 320x240, of which 12 frames are stored: its times are compared."""


def _seconds(cost: costs.Cost) -> float:
    return cost.seconds_of(_CLIP) - cost.clip_s


def _write(table: Mapping[costs.Key, costs.Cost]) -> None:
    with TABLE.open("w", newline="") as file:
        file.write("# measured by benchmarks/costs.py: see perturbations/plan/costs.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("perturbation", "variant", "severity", "tier", *costs.FIGURES))
        for key, cost in table.items():
            writer.writerow((*key, *(f"{getattr(cost, name):.4g}" for name in costs.FIGURES)))


def _scenarios(raw: Iterable[Path]) -> dict[costs.Key, list[Line]]:
    """The lines of each scenario: one per clip, of the shortest time where there are several."""
    grouped: dict[costs.Key, dict[str, Line]] = {}
    for path in raw:
        with path.open(newline="") as file:
            for line in csv.DictReader(row for row in file if not row.startswith("#")):
                key = line["perturbation"], line["variant"], int(line["severity"]), line["tier"]
                if key[0] in OF_SAMPLED_FRAMES:  # whatever is stored: the mean of all
                    every = grouped.setdefault((*key[:3], "high"), {})
                    every[str(len(every))] = line
                    continue
                lines = grouped.setdefault(key, {})
                lines[line["clip"]] = min(lines.get(line["clip"], line), line, key=_used)
    return {key: list(lines.values()) for key, lines in grouped.items()}


def _used(line: Line) -> float:
    return float(line["cpu_s"]) / float(line["slower"])


def fitted_times(key: costs.Key, clips: int, mpx: float, stored_mpx: float, used: float) -> dict[str, float]:
    """What the CPU seconds of a batch of clips are made of."""
    name, variant, _, tier = key
    if name == costs.DEMO:
        return {}
    if name in OF_SAMPLED_FRAMES:
        return {"cpu_s": DECODE_S, "clip_s": max(0.0, used - DECODE_S * mpx) / clips}
    if name.startswith((costs.SOURCES, "analyses/")):
        samples = tier == "frames" and name != costs.SOURCES
        return {"stored_s": used / stored_mpx} if samples else {"cpu_s": used / mpx}
    method = registry.get(name, variant).method
    clip_s = CLIP_S["frames" if tier == "frames" else "video"][method]
    # A part of the shortest clips' time at least: what does not grow is not known to the millisecond.
    rest = max(used - BATCH_S - clip_s * clips, 0.2 * used)
    if tier != "frames":
        return {"cpu_s": rest / mpx, "clip_s": clip_s}
    if method == "pixel":
        return {"cpu_s": DECODE_S, "stored_s": max(0.0, rest - DECODE_S * mpx) / stored_mpx, "clip_s": clip_s}
    return {"cpu_s": max(DECODE_S, (rest - STORED_S * stored_mpx) / mpx), "stored_s": STORED_S, "clip_s": clip_s}


def fitted(key: costs.Key, lines: Sequence[Line]) -> costs.Cost:
    """A line through the clips of one scenario: its bytes per pixel by those of the clean clip in the same tier."""
    entry = None if key[0].startswith((costs.SOURCES, costs.DEMO, "analyses/")) else registry.get(key[0], key[1])
    names = ("frames", "pixels", "seconds", "clean_bytes", "bytes")
    frames, pixels, seconds, clean, sizes = (np.array([float(line[name]) for line in lines]) for name in names)
    stored = pixels / frames * 12 if key[3] == "frames" else pixels
    times = fitted_times(key, len(lines), pixels.sum() / 1e6, stored.sum() / 1e6, sum(map(_used, lines)))
    if entry and "bitrate" in entry.parameters(key[2]) and key[3] not in ("frames", "recipe"):
        return costs.Cost(per_second=float(sizes.sum() / seconds.sum()), **times)
    if not sizes.any():
        return costs.Cost(**times)
    if len(lines) == 1 or not clean.all():
        return costs.Cost(per_pixel=float(sizes.sum() / stored.sum()), **times)
    design = np.stack([stored, clean], axis=1) / sizes[:, None]  # relative errors count
    per_pixel, per_clean = nnls(design, np.ones(len(sizes)))[0]
    return costs.Cost(per_pixel=float(per_pixel), per_clean=float(per_clean), **times)
