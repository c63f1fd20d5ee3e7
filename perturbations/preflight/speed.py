"""How fast this machine is at present: the CPU time of a little fixed work that is like that of jobs.

Machines differ, and one machine differs from itself by up to 1.8 when others use what it shares with them, for seconds
at a time. So the estimates are in CPU seconds of one machine at its best, and are multiplied by how much longer the
same work takes here (docs/measurements/estimates.md).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from perturbations.base import rng, storage
from perturbations.base.errors import MediaError

REFERENCE: Mapping[str, float] = {"encode": 0.0117, "decode": 0.0081, "compute": 0.0114}
"""CPU seconds of the parts at the best moments of the machine that the costs were measured on."""

USUAL = 1.05
"""What a run takes, on average over its minutes, per second that it would take at the machine's best moments."""

FOLLOWS = 2 / 3
"""The power of a slowdown with which a run is slowed down: work is less than these parts are, and part of what is seen
passes before the jobs run."""

_FRAMES, _WIDTH, _HEIGHT = 24, 320, 240


@dataclass
class Probe:
    """Some looks at the machine's speed. Each takes .03 s of CPU; some that are apart find one of its best moments."""

    _best: dict[str, float] = field(default_factory=dict)

    def look(self) -> float:
        """Do the work once; how much longer than `REFERENCE` it took. 1 where there is no decoder."""
        try:
            parts = _parts()
        except ImportError:
            return 1.0
        try:
            with storage.scratch_directory() as folder:
                taken = {name: _cpu_s(work, Path(folder) / "probe.mp4") for name, work in parts.items()}
        except (MediaError, OSError):  # a full disk, an encoder that is missing: told elsewhere
            return 1.0
        self._best = {name: min(seconds, self._best.get(name, seconds)) for name, seconds in taken.items()}
        return _slower(taken)

    @property
    def slower(self) -> float:
        """How much longer a run takes than the costs say."""
        return USUAL * math.pow(_slower(self._best), FOLLOWS)


def _slower(taken: Mapping[str, float]) -> float:
    ratios = [seconds / REFERENCE[name] for name, seconds in taken.items()]
    return sum(ratios) / len(ratios) if ratios else 1.0


def _cpu_s(work: Callable[[Path], None], path: Path) -> float:
    before = time.process_time()
    work(path)
    return time.process_time() - before


def _parts() -> dict[str, Callable[[Path], None]]:
    """What jobs do most: store frames, read a clip, compute with floating-point numbers."""
    import numpy as np

    from perturbations.media import decoding, encoding
    from perturbations.media.clip import Clip, Frame, Timing

    random = rng.generator(0, "", "", "engine/speed")
    coarse = random.integers(0, 244, (30, 36, 3), dtype=np.uint8)
    texture = coarse.repeat(10, axis=0).repeat(10, axis=1)
    texture = texture + random.integers(0, 12, texture.shape, dtype=np.uint8)
    images = [np.ascontiguousarray(texture[at : at + _HEIGHT, at : at + _WIDTH]) for at in range(_FRAMES)]

    def encode(path: Path) -> None:
        frames = (Frame(image, place, place) for place, image in enumerate(images))
        encoding.encode(frames, path, storage.PROFILES["high"], Timing(Fraction(1, 25), Fraction(25)))

    def decode(path: Path) -> None:
        for _ in decoding.decode(Clip(path)):
            pass

    def compute(_: Path) -> None:
        for image in images[:4]:
            noise = random.normal(0, 0.1, image.shape).astype(np.float32)
            np.clip((image.astype(np.float32) / 255 + noise) * 255, 0, 255).astype(np.uint8)

    return {"encode": encode, "decode": decode, "compute": compute}
