"""The table of costs, `perturbations/plan/costs.csv`, from what `benchmarks/costs.py measure` wrote.

Times are CPU seconds of the machine at its best: measured ones by how much longer the machine took around them. Each
file of measurements holds a batch of clips per scenario; a batch of short clips and one of longer or larger ones tell
apart what a clip takes and what its pixels take.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from perturbations.preflight import costs
from perturbations.preflight.survey import share_of_keys
from perturbations.suites import registry

TABLE = Path(__file__).parents[1] / "perturbations/plan/costs.csv"

BATCH_S = 0.04
"""CPU seconds per job beside the start of its process: `costs.py parts`."""
DECODE_S = 0.0045
"""CPU seconds per million pixels of a clip that is decoded, where only sampled frames are perturbed."""
STORED_S = 0.045
"""CPU seconds per million pixels of sampled frames that are stored, where all frames of a clip are perturbed."""
CLIP_S = {"pixel": 0.05, "temporal": 0.05, "codec": 0.16}
"""CPU seconds per clip that do not grow with its length, at most, by method: `costs.py parts`."""
LARGE_S = 0.009
"""CPU seconds per million pixels that large frames take in addition: tampering as `recipe` took .012 with frames of
320x240 to 426x240 and .022 with frames of 640x480 to 1280x720."""
LEAST_S = 0.003
"""CPU seconds per million pixels, at least, of a clip whose frames are all decoded."""
WRITTEN_S = 0.01
"""CPU seconds per million pixels of sampled frames, at least: they are written without loss."""
SAMPLED = 12
"""Frames per clip in the tier "frames"."""

OF_SAMPLED_FRAMES = ("analyses/main_object", "analyses/embedding")
"""Analyses that look at as many frames of every clip."""

Line = Mapping[str, str]
"""Of the measurements: one clip in one scenario."""

Batches = list[list[Line]]
"""Of one scenario: the lines of the clips that were measured together."""


def write(raw: Iterable[Path]) -> None:
    """Write the table of the scenarios that were measured, and of no others."""
    scenarios = _scenarios(raw)
    clip_s = clip_times(scenarios)
    with TABLE.open("w", newline="") as file:
        file.write("# measured by benchmarks/costs.py: see perturbations/preflight/costs.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("perturbation", "variant", "severity", "tier", *costs.FIGURES))
        for key, batches in sorted(scenarios.items()):
            cost = fitted(key, batches, clip_s.get(_group(key), 0.0))
            writer.writerow((*key, *(f"{getattr(cost, name):.4g}" for name in costs.FIGURES)))


def _scenarios(raw: Iterable[Path]) -> dict[costs.Key, Batches]:
    """The batches of each scenario."""
    grouped: dict[costs.Key, Batches] = {}
    for path in raw:
        of_file: dict[costs.Key, list[Line]] = {}
        with path.open(newline="") as file:
            for line in csv.DictReader(row for row in file if not row.startswith("#")):
                key = line["perturbation"], line["variant"], int(line["severity"]), line["tier"]
                if key[0] in OF_SAMPLED_FRAMES:  # whatever is stored: the mean of all
                    key = (*key[:3], "high")
                of_file.setdefault(key, []).append(line)
        for key, lines in of_file.items():
            grouped.setdefault(key, []).append(lines)
    return grouped


# --- times ------------------------------------------------------------------------------------------------------------


Group = tuple[str, str]
"""A tier and a method, whose perturbations take the same time per clip beside its pixels."""


def _group(key: costs.Key) -> Group:
    return key[3], "" if _is_other(key) else registry.get(key[0], key[1]).method


def _is_other(key: costs.Key) -> bool:
    return key[0].startswith((costs.SOURCES, costs.DEMO, "analyses/"))


def clip_times(scenarios: Mapping[costs.Key, Batches]) -> dict[Group, float]:
    """CPU seconds per clip, however short, beside which the times of a group grow with the pixels."""
    groups: dict[Group, list[tuple[costs.Key, Batches]]] = {}
    for key, batches in scenarios.items():
        if not _is_other(key) and len(batches) > 1:
            groups.setdefault(_group(key), []).append((key, batches))
    return {group: _best_clip_s(members, CLIP_S[group[1]]) for group, members in groups.items()}


def _best_clip_s(members: Sequence[tuple[costs.Key, Batches]], most: float) -> float:
    candidates = np.arange(0.0, most, 0.002)

    def error(clip_s: float) -> float:
        return float(sum(_of_pixels(key, batches, clip_s)[1] for key, batches in members))

    return float(min(candidates, key=error))


def _of_pixels(key: costs.Key, batches: Batches, clip_s: float) -> tuple[float, float]:
    """CPU seconds per million pixels, of stored ones where these alone are perturbed, and the error that is left."""
    sizes, rest, used = [], [], []
    for lines in batches:
        clips, mpx, stored_mpx, seconds = _amounts(key, lines)
        known = BATCH_S + clip_s * clips + _large_s(key) * _large_mpx(lines)
        if key[3] == "frames":
            known += DECODE_S * mpx if _group(key)[1] == "pixel" else STORED_S * stored_mpx
        sizes.append(stored_mpx if key[3] == "frames" and _group(key)[1] == "pixel" else mpx)
        rest.append(seconds - known)
        used.append(seconds)
    x, y = np.array(sizes) / np.array(used), np.array(rest) / np.array(used)  # relative errors count
    slope = max(0.0 if key[3] == "frames" else LEAST_S, float(x @ y / (x @ x)))
    return slope, float(np.abs(slope * x - y).sum())


def _large_s(key: costs.Key) -> float:
    return 0.0 if key[3] == "frames" else LARGE_S


def _large_mpx(lines: Sequence[Line]) -> float:
    pixels = [float(line["pixels"]) for line in lines if float(line["pixels"]) > costs.LARGE * float(line["frames"])]
    return sum(pixels) / 1e6


def _amounts(key: costs.Key, lines: Sequence[Line]) -> tuple[int, float, float, float]:
    """Clips, million pixels, those of them that are stored, and the CPU seconds."""
    pixels, frames = (np.array([float(line[name]) for line in lines]) for name in ("pixels", "frames"))
    stored = pixels / frames * SAMPLED if key[3] == "frames" else pixels
    seconds = sum(float(line["cpu_s"]) / float(line["slower"]) for line in lines)
    return len(lines), float(pixels.sum() / 1e6), float(stored.sum() / 1e6), seconds


def fitted_times(key: costs.Key, batches: Batches, clip_s: float) -> dict[str, float]:
    """What the CPU seconds of batches of clips are made of."""
    if key[0] == costs.DEMO:
        return {}
    if _is_other(key):
        return _times_of_others(key, batches)
    slope, _ = _of_pixels(key, batches, clip_s)
    if key[3] != "frames":
        return {"cpu_s": slope, "large_s": _large_s(key), "clip_s": clip_s}
    if _group(key)[1] == "pixel":
        return {"cpu_s": DECODE_S, "stored_s": max(WRITTEN_S, slope), "clip_s": clip_s}
    return {"cpu_s": max(DECODE_S, slope), "stored_s": STORED_S, "clip_s": clip_s}


def _times_of_others(key: costs.Key, batches: Batches) -> dict[str, float]:
    """Of reading clips and of analyses."""
    amounts = np.array([_amounts(key, lines) for lines in batches])
    clips, mpx, stored_mpx, used = amounts.T
    if key[0] in OF_SAMPLED_FRAMES:
        return {"cpu_s": DECODE_S, "clip_s": float(max(0.0, (used - DECODE_S * mpx).sum()) / clips.sum())}
    if key[3] == "frames" and key[0] != costs.SOURCES:
        return {"cpu_s": DECODE_S, "stored_s": float(max(0.0, (used - DECODE_S * mpx).sum()) / stored_mpx.sum())}
    cpu_s, clip_s = nnls(np.stack([mpx, clips], axis=1) / used[:, None], np.ones(len(used)))[0]
    return {"cpu_s": float(cpu_s), "clip_s": float(clip_s)}


# --- bytes ------------------------------------------------------------------------------------------------------------


ALIKE = 0.1
"""How strongly a byte of a key frame is taken to cost as much as another, where the clips do not tell otherwise."""


def fitted(key: costs.Key, batches: Batches, clip_s: float) -> costs.Cost:
    """What a scenario stores per pixel and per byte of the clean clip in the same tier, and what it takes."""
    lines = [line for batch in batches for line in batch]
    times = fitted_times(key, batches, clip_s)
    names = ("frames", "pixels", "seconds", "clean_bytes", "key_bytes", "bytes")
    frames, pixels, seconds, clean, keys, sizes = (np.array([float(line[name]) for line in lines]) for name in names)
    stored = pixels
    if key[3] == "frames":
        stored = pixels / frames * SAMPLED
        keys = clean * [share_of_keys(SAMPLED, count) for count in frames]
    if key[0] == costs.DEMO:
        return costs.Cost(per_pixel=float(sizes.sum() / stored.sum()), per_key=float(keys.sum() / stored.sum()))
    entry = None if _is_other(key) else registry.get(key[0], key[1])
    if entry and "bitrate" in entry.parameters(key[2]) and key[3] not in ("frames", "recipe"):
        return costs.Cost(per_second=float(sizes.sum() / seconds.sum()), **times)
    if not sizes.any():
        return costs.Cost(**times)
    if not clean.all():
        return costs.Cost(per_pixel=float(sizes.sum() / stored.sum()), **times)
    design = np.stack([stored, clean - keys, keys], axis=1) / sizes[:, None]  # relative errors count
    if key[3] == "frames" and entry and entry.method == "temporal":  # the clean clip's own frames, some of them often
        per_clean, per_key = nnls(design[:, 1:], np.ones(len(sizes)))[0]
        return costs.Cost(per_clean=float(per_clean), per_key=float(per_key), **times)
    alike = ALIKE * np.array([[0.0, 1.0, -1.0]]) * (keys / sizes).mean()
    per_pixel, per_clean, per_key = nnls(np.concatenate([design, alike]), np.append(np.ones(len(sizes)), 0.0))[0]
    return costs.Cost(per_pixel=float(per_pixel), per_clean=float(per_clean), per_key=float(per_key), **times)
