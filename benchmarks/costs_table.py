"""The table of `perturbations/plan/costs.csv` from what `costs.py measure` wrote: a fit per scenario."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from perturbations.plan import costs
from perturbations.suites import registry

REPOSITORY = Path(__file__).parents[1]
LOAD = {"high": 0.73, "compatible": 0.71, "lossless": 0.76, "released": 0.8, "frames": 0.8, "recipe": 0.76}
LOAD_OF_CODECS = {"high": 0.75, "compatible": 0.75, "lossless": 0.8, "released": 0.85, "frames": 0.9, "recipe": 0.85}
"""CPU seconds on a quiet machine per measured one. They were measured while ten other programs wanted the cores, and
compared on a quiet machine afterwards: see docs/measurements/estimates.md."""
BATCH_S = 0.04
"""CPU seconds per job beside the start of its process: `parts`, as the next three."""
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

TABLE = REPOSITORY / "perturbations/plan/costs.csv"


def table(options: argparse.Namespace) -> None:
    raw: list[dict[str, str]] = []
    for path in options.raw:
        with path.open(newline="") as file:
            raw += csv.DictReader(file)
    grouped: dict[tuple[str, str, int, str], dict[str, dict[str, str]]] = {}
    for line in raw:
        key = line["perturbation"], line["variant"], int(line["severity"]), line["tier"]
        if key[0] in OF_SAMPLED_FRAMES:  # whatever is stored: the mean of all
            every = grouped.setdefault((*key[:3], "high"), {})
            every[str(len(every))] = line
            continue
        lines = grouped.setdefault(key, {})
        before = lines.setdefault(line["clip"], line)  # the shortest time counts: other programs make it longer
        lines[line["clip"]] = min(before, line, key=lambda each: float(each["cpu_s"]))
    fits = {key: fitted(key, list(lines.values())) for key, lines in sorted(grouped.items())}
    with TABLE.open("w", newline="") as file:
        file.write("# measured by benchmarks/costs.py: see perturbations/plan/costs.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("perturbation", "variant", "severity", "tier", *costs.FIGURES))
        for key, cost in fits.items():
            writer.writerow((*key, *(f"{getattr(cost, name):.4g}" for name in costs.FIGURES)))


def fitted_times(
    key: tuple[str, str, int, str], clips: int, mpx: float, stored_mpx: float, used: float
) -> dict[str, float]:
    """What the CPU seconds of a batch of clips are made of."""
    name, variant, _, tier = key
    if name == costs.DEMO:
        return {}
    if name in OF_SAMPLED_FRAMES:
        return {"cpu_s": DECODE_S, "clip_s": max(0.0, used - DECODE_S * mpx) / clips}
    is_codec = "/" in name and not name.startswith("analyses/") and registry.get(name, variant).method == "codec"
    used *= (LOAD_OF_CODECS if is_codec else LOAD)[tier]
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


def fitted(key: tuple[str, str, int, str], lines: list[dict[str, str]]) -> costs.Cost:
    """A line through the clips of one scenario."""
    entry = None if key[0].startswith((costs.SOURCES, costs.DEMO, "analyses/")) else registry.get(key[0], key[1])
    names = ("frames", "pixels", "seconds", "clean_bytes", "bytes", "cpu_s")
    frames, pixels, seconds, clean, sizes, used = (np.array([float(line[name]) for line in lines]) for name in names)
    stored = pixels / frames * 12 if key[3] == "frames" else pixels
    times = fitted_times(key, len(lines), pixels.sum() / 1e6, stored.sum() / 1e6, float(used.sum()))
    if entry and "bitrate" in entry.parameters(key[2]) and key[3] not in ("frames", "recipe"):
        return costs.Cost(per_second=float(sizes.sum() / seconds.sum()), **times)
    if not sizes.any():
        return costs.Cost(**times)
    if len(lines) == 1 or not clean.all():
        return costs.Cost(per_pixel=float(sizes.sum() / stored.sum()), **times)
    design = np.stack([stored, clean], axis=1) / sizes[:, None]  # relative errors count
    per_pixel, per_clean = nnls(design, np.ones(len(sizes)))[0]
    return costs.Cost(per_pixel=float(per_pixel), per_clean=float(per_clean), **times)
