"""What a perturbed clip costs in bytes and CPU seconds: measured figures of real clips, and the arithmetic on them.

`costs.csv` has one line per perturbation, variant, severity and storage tier; `benchmarks/costs.py` measured them.
The bytes of a stored clip follow from those of the clean clip in the same tier, its key frames and the others: what
noise adds does not depend on the clip, what a blur leaves does, and a frame that is held costs nothing but as a key
frame. No NumPy: Snakemake imports this module.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources

from perturbations.config import sections as configuration
from perturbations.suites import registry

SOURCES = "sources"
"""The name of the line of a clean clip that is decoded and hashed."""
DEMO = "demo"
"""The name of the lines of clips that the package draws: `per_pixel` and `per_key` are a clean clip's."""

_UNSTORED, _USUAL = "recipe", "high"
JOB_S = 0.75
"""CPU seconds of starting a job's process, with its imports."""
CORPUS_S = 5.0
"""CPU seconds of a corpus's manifests, contact sheet and page; more where it is large, but a small part of it."""


@dataclass(frozen=True)
class Cost:
    """The cost of a clip under one scenario in one tier.

    Attributes:
        per_pixel: bytes per pixel of the clean clip, whatever it shows.
        per_clean: bytes per byte of the clean clip, stored in the same tier, beside its key frames.
        per_key: bytes per byte of the clean clip's key frames: in short clips they are much of it, whatever follows.
        per_second: bytes per second, of encoders that are given a bitrate.
        cpu_s: CPU seconds per million pixels of the clean clip.
        stored_s: CPU seconds per million pixels of the frames that are stored, where they are sampled.
        large_s: CPU seconds in addition per million pixels of large frames, each of which gets new memory.
        clip_s: CPU seconds per clip, however short: what is compared with the clean clip, programs that are started.
    """

    per_pixel: float = 0.0
    per_clean: float = 0.0
    per_key: float = 0.0
    per_second: float = 0.0
    cpu_s: float = 0.0
    stored_s: float = 0.0
    large_s: float = 0.0
    clip_s: float = 0.0

    def seconds_of(self, volume: Volume) -> float:
        """The CPU seconds of making clips."""
        of_pixels = self.cpu_s * volume.pixels + self.stored_s * volume.stored_pixels
        if volume.frame_pixels > LARGE * volume.clips:
            of_pixels += self.large_s * volume.pixels
        return of_pixels / 1e6 + self.clip_s * volume.clips

    def bytes_of(self, volume: Volume, clean: Clean) -> float:
        """The bytes of clips; `clean` is what the clean clips take in the tier."""
        per_pixel = self.per_pixel + self.per_clean * (clean.per_pixel - clean.keys) + self.per_key * clean.keys
        return volume.stored_pixels * per_pixel + volume.seconds * self.per_second


LARGE = 200_000
"""Pixels from which a frame is large."""

FIGURES = tuple(each.name for each in fields(Cost))
"""The columns of `costs.csv` after those that name the scenario."""


@dataclass(frozen=True)
class Clean:
    """Bytes per stored pixel of clips that are stored unchanged in a tier, and those of them that are key frames'.

    In the tier "frames", `keys` is the part that `survey.share_of_keys` gives.
    """

    per_pixel: float = 0.0
    keys: float = 0.0


@dataclass(frozen=True)
class Volume:
    """How much video some clips are: number, pixels, seconds, pixels that the tier stores, pixels of one frame each."""

    clips: float = 0.0
    pixels: float = 0.0
    seconds: float = 0.0
    stored_pixels: float = 0.0
    frame_pixels: float = 0.0

    def __add__(self, other: Volume) -> Volume:
        return Volume(
            self.clips + other.clips,
            self.pixels + other.pixels,
            self.seconds + other.seconds,
            self.stored_pixels + other.stored_pixels,
            self.frame_pixels + other.frame_pixels,
        )


Key = tuple[str, str, int, str]
"""Perturbation (`suite/name`), variant, severity, tier."""


def tier_of(storage: configuration.Storage) -> str:
    """The tier's name in the table: a profile of the tier video, "frames" or "recipe"."""
    return storage.profile if isinstance(storage, configuration.VideoStorage) else storage.tier


@cache
def table() -> Mapping[Key, Cost]:
    """The measured costs."""
    text = resources.files("perturbations.plan").joinpath("costs.csv").read_text(encoding="utf-8")
    lines = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        (line["perturbation"], line["variant"], int(line["severity"]), line["tier"]): Cost(
            **{name: float(line[name]) for name in FIGURES}
        )
        for line in lines
    }


@cache
def _by_severity() -> Mapping[tuple[str, str, str], dict[int, Cost]]:
    grouped: dict[tuple[str, str, str], dict[int, Cost]] = {}
    for (name, variant, severity, tier), value in table().items():
        grouped.setdefault((name, variant, tier), {})[severity] = value
    return grouped


def cost(entry: registry.Perturbation, severity: int, tier: str) -> Cost:
    """The cost of a scenario: measured, or else that of its nearest measured relative.

    A severity that was not measured costs what the nearest one does, times what the usual profile's figures change
    between the two; another variant costs what the first one does. A profile without a figure has that of the usual
    profile, scaled; a perturbation without any has the median of its method.
    """
    first = registry.suite(entry.suite).variants[0]
    for variant in (entry.variant, first):
        if measured := _by_severity().get((entry.key, variant, tier)):
            nearest = min(measured, key=lambda other: (abs(other - severity), other))
            return _changed(measured[nearest], entry.key, variant, nearest, severity)
    if tier not in (_USUAL, _UNSTORED) and (scale := _SCALES.get(tier)):
        usual = cost(entry, severity, _USUAL)
        return replace(usual, per_pixel=usual.per_pixel * scale)
    return _typical(entry.method, tier)


def _changed(measured: Cost, key: str, variant: str, at: int, severity: int) -> Cost:
    """A cost at another severity than the measured one, as the usual profile's changes."""
    usual = _by_severity().get((key, variant, _USUAL), {})
    if at == severity or not {at, severity} <= usual.keys():
        return measured
    before, after = usual[at], usual[severity]
    size = after.bytes_of(_TYPICAL, USUAL_CLEAN) / max(1.0, before.bytes_of(_TYPICAL, USUAL_CLEAN))
    time = after.seconds_of(_TYPICAL) / before.seconds_of(_TYPICAL)
    return Cost(
        per_pixel=measured.per_pixel * size,
        per_clean=measured.per_clean * size,
        per_key=measured.per_key * size,
        per_second=measured.per_second * size,
        cpu_s=measured.cpu_s * time,
        stored_s=measured.stored_s * time,
        large_s=measured.large_s,
        clip_s=measured.clip_s,
    )


_TYPICAL, USUAL_CLEAN = Volume(1, 25e6, 12, 25e6), Clean(0.35, 0.03)
"""A clip of MSR-VTT: its volume, and what the usual profile stores of it."""


_SCALES = {"lossless": 3.0, "compatible": 0.3, "released": 0.3}
"""Bytes that a perturbation adds in a profile, per byte that it adds in the usual one: of those that were measured."""


@cache
def _typical(method: str, tier: str) -> Cost:
    """The median of the measured perturbations of a method."""
    methods = {other.key: other.method for other in registry.perturbations(kind="video")}
    return _median([value for key, value in table().items() if methods.get(key[0]) == method and key[3] == tier])


def _median(costs: list[Cost]) -> Cost:
    if not costs:
        return Cost(cpu_s=0.05)
    return Cost(**{name: statistics.median(getattr(value, name) for value in costs) for name in FIGURES})


def other(name: str, tier: str = "") -> Cost:
    """The cost of what is no perturbation: `SOURCES`, `DEMO`, or `analyses/NAME`. Without a figure, of nothing."""
    known = table()
    keys = [key for key in known if key[0] == name]
    chosen = next((key for key in keys if key[3] == tier), keys[0] if keys else None)
    return known[chosen] if chosen else Cost()
