"""Severities of equal distortion: measure kernels along their paths, and choose five points of each.

Distortion is the SSIM of the intended frames against the clean ones, as in a row's column `ssim`: its mean over the
clips of a sample.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from perturbations import __version__
from perturbations.analysis import neighbours
from perturbations.base import records
from perturbations.base.errors import ConfigError
from perturbations.base.progress import logged
from perturbations.calibration import table as calibration_table
from perturbations.calibration.measuring import Held, known_of
from perturbations.engine.render_clip import MEASURED_FRAMES
from perturbations.engine.source import Source, source_of
from perturbations.manifest.kinds import CompleteSource
from perturbations.plan import recipe
from perturbations.plan.recipe import VideoRecipe
from perturbations.plan.tiers import StoredFrames
from perturbations.suites import registry
from perturbations.suites.registry import Perturbation

_METRIC = "ssim"
TARGETS = (0.9, 0.825, 0.75, 0.675, 0.6)
"""The mean SSIM of severities 1 to 5: even steps, which most kernels can reach: docs/explanation/fidelity.md."""

MEASURED = StoredFrames(num_frames=MEASURED_FRAMES)

CLIPS = 8
"""How many clips a sample holds."""

TOLERANCE = 0.01
"""An SSIM so near to its target counts as reached."""

_GRID = 13
_TEMPORAL_GRID = 49  # rearranged frames cost nothing to make, and their curves are rough
_ROUNDS = 3
_CLOSE = 0.003
_DECIMALS = 4

_Parameters = dict[str, Any]
_Wanted = Mapping[str, str]
"""Perturbation -> variant."""


def sample(rows: Sequence[CompleteSource], seed: int, dataset: str, clips: int = CLIPS) -> list[Source]:
    """The clips to calibrate on: those with the smallest hashes of their ids."""
    by_item = {row.item_id: row for row in rows}
    chosen = neighbours.subset(by_item, clips, lambda item_id: records.digest(["calibration", seed, dataset, item_id]))
    return [source_of(by_item[item_id]) for item_id in chosen]


def calibrate(
    sources: Sequence[Source], wanted: _Wanted, *, dataset: str, seed: int, targets: Sequence[float] = TARGETS
) -> calibration_table.TableContent:
    """Solve the parameters of the perturbations in `wanted` for the SSIM values `targets`, which fall.

    Kernels are measured at even strengths along their paths, then where a target must lie between two measurements.
    The five points chosen are those nearest to the targets, strengths rising, SSIM never rising. A kernel that cannot
    reach all targets gets aims of its own between its extremes, see `aims`, and is marked `limited`.

    The same clips, seed and versions give the same table. Guided kernels use the `offline` backends.
    Raises `ConfigError` when there are too few clips, or a kernel changes the size of frames, and `MediaError` when a
    clip cannot be decoded.
    """
    if not sources:
        raise ConfigError("there is no clip to calibrate on: all are quarantined, or the dataset is empty")
    searches = {key: _Search(registry.get(key, variant), seed) for key, variant in wanted.items()}
    recipes = [search.recipe_of(1) for search in searches.values()]
    if names := [f"{recipe.key} ({recipe.variant})" for recipe in recipes if recipe.entry.shape is not None]:
        raise ConfigError(
            f"{', '.join(names)}: frames of another size have no SSIM against the clean clip, so there is nothing to "
            "calibrate: leave the perturbation out, or choose another variant"
        )
    known = known_of(sources, recipes)
    strengths = {key: search.first() for key, search in searches.items()}
    for number in range(_ROUNDS + 1):
        jobs = [(source, key) for source in sources for key in strengths if strengths[key]]
        ssim: dict[str, list[list[float]]] = {key: [] for key in strengths}
        held: Held | None = None
        for source, key in logged(jobs, len(jobs), f"measurements of round {number + 1}"):
            if held is None or held.source is not source:
                held = Held(source, known)
            ssim[key].append(held.measure([searches[key].recipe_of(strength) for strength in strengths[key]]))
        for key, by_clip in ssim.items():
            searches[key].learn(strengths[key], by_clip)
        strengths = {key: search.next(targets) for key, search in searches.items()}
        if not any(strengths.values()):
            break
    return {
        "schema_version": calibration_table.SCHEMA_VERSION,
        "package_version": __version__,
        "dataset": dataset,
        "seed": seed,
        "metric": _METRIC,
        "frames": MEASURED_FRAMES,
        "backends": "offline",
        "targets": list(targets),
        "sample": [{"item_id": source.item_id, "source_sha256": source.sha256} for source in sources],
        "perturbations": {key: search.entry_of(targets) for key, search in searches.items()},
    }


# --- solving ---------------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """A measured place of a path: its SSIM is the mean over the clips, `spread` their standard deviation."""

    strength: float
    ssim: float
    spread: float
    params: _Parameters


def aims(targets: Sequence[float], mildest: float, strongest: float) -> list[float]:
    """What a kernel whose SSIM lies between `strongest` and `mildest` is to reach: the targets, where it can.

    Otherwise the targets' own pattern between its extremes: from 1, the clean clip, down to the strongest it can where
    only that is missing; from its mildest on where it starts beyond the first target.
    """
    first, last = targets[0], targets[-1]
    bottom = last if strongest <= last + TOLERANCE else strongest
    if mildest >= first - TOLERANCE:
        return [1 - (1 - target) * (1 - bottom) / (1 - last) for target in targets]
    bottom = bottom if bottom < mildest else strongest
    return [mildest - (mildest - bottom) * (first - target) / (first - last) for target in targets]


def choose(points: Sequence[Point], wanted: Sequence[float]) -> list[Point]:
    """One point for each aim: strengths never fall, SSIM never rises, and the sum of squared misses is the smallest.

    A point that serves twice in a row misses by a whole step more.
    """
    points = sorted(points, key=lambda point: (point.strength, -point.ssim))
    costs = [(point.ssim - wanted[0]) ** 2 for point in points]
    before: list[list[int]] = []
    for last, aim in pairwise(wanted):
        reached, steps = [], []
        for index, point in enumerate(points):
            allowed = [other for other in range(index + 1) if points[other].ssim >= point.ssim]
            ways = {other: costs[other] + (other == index) * (last - aim) ** 2 for other in allowed}
            best = min(ways, key=lambda other: (ways[other], other))
            reached.append(ways[best] + (point.ssim - aim) ** 2)
            steps.append(best)
        before.append(steps)
        costs = reached
    index = min(range(len(points)), key=lambda place: (costs[place], place))
    chosen = [index]
    for steps in reversed(before):
        chosen.append(steps[chosen[-1]])
    return [points[place] for place in reversed(chosen)]


def between(points: Sequence[Point], aim: float) -> float | None:
    """The strength where the SSIM should fall to `aim`, between two points measured; None where it never does."""
    points = sorted(points, key=lambda point: point.strength)
    below = next((index for index, point in enumerate(points) if point.ssim <= aim), None)
    if not below:
        return None
    upper, lower = points[below - 1], points[below]
    # Not too near to either point: on a bent curve, all guesses would come from one side.
    share = min(max((upper.ssim - aim) / (upper.ssim - lower.ssim), 0.1), 0.9)
    return upper.strength + share * (lower.strength - upper.strength)


def rises(values: Sequence[float]) -> list[int]:
    """The severities whose SSIM is higher than that of the one before, by more than rounding."""
    return [
        severity for severity, (milder, stronger) in enumerate(pairwise(values), start=2) if stronger > milder + 0.001
    ]


@dataclass
class _Search:
    """What is known of one perturbation."""

    entry: Perturbation
    seed: int
    points: dict[str, Point] = field(default_factory=dict)
    published: list[Point] = field(default_factory=list)

    def first(self) -> list[float | int]:
        """Every published severity (whole numbers), and even strengths."""
        grid = _TEMPORAL_GRID if self.entry.moves_frames else _GRID
        even = [float(strength) for strength in np.linspace(0, 1, grid)]
        return [*self.entry.severities, *self._new(even)]

    def next(self, targets: Sequence[float]) -> list[float | int]:
        """Strengths to measure now, so that the aims are met better."""
        points = list(self.points.values())
        wanted = aims(targets, *self.extremes())
        missed = [
            aim for aim, point in zip(wanted, choose(points, wanted), strict=True) if abs(point.ssim - aim) > _CLOSE
        ]
        guesses = [between(points, aim) for aim in missed]
        return [*self._new(guess for guess in guesses if guess is not None)]

    def _new(self, strengths: Iterable[float]) -> list[float | int]:
        """Those whose parameters were not measured yet: whole numbers repeat."""
        chosen: dict[str, float | int] = {}
        for strength in strengths:
            parameters = records.canonical(self.params(strength))
            if parameters not in self.points:
                chosen.setdefault(parameters, strength)
        return list(chosen.values())

    def params(self, strength: float | int) -> _Parameters:
        if isinstance(strength, int):
            return self.entry.parameters(strength)
        return self.entry.parameters_at(strength)

    def recipe_of(self, strength: float | int) -> VideoRecipe:
        """As the workflow makes it, but for the parameters: no realization depends on a severity."""
        published = recipe.make(self.entry, 1, seed=self.seed, storage=MEASURED, donors="sample")
        return recipe.altered(published, params=dict(self.params(strength)))

    def learn(self, strengths: Sequence[float | int], by_clip: Sequence[Sequence[float]]) -> None:
        for strength, values in zip(strengths, zip(*by_clip, strict=True), strict=False):
            params = self.params(strength)
            point = Point(float(strength), statistics.fmean(values), statistics.pstdev(values), params)
            if isinstance(strength, int):
                self.published.append(point)
            else:
                self.points[records.canonical(point.params)] = point

    def extremes(self) -> tuple[float, float]:
        """The highest and the lowest SSIM on the path."""
        values = [point.ssim for point in self.points.values()]
        return max(values), min(values)

    def entry_of(self, targets: Sequence[float]) -> dict[str, Any]:
        """What the table says."""
        mildest, strongest = self.extremes()
        wanted = aims(targets, mildest, strongest)
        chosen = choose(list(self.points.values()), wanted)
        return {
            "version": self.entry.version,
            "variant": self.entry.variant,
            "attainable": [_rounded(mildest), _rounded(strongest)],
            "limited": any(abs(aim - target) > 1e-9 for aim, target in zip(wanted, targets, strict=True)),
            "tied": [
                severity
                for severity, (milder, stronger) in enumerate(pairwise(chosen), start=2)
                if milder.params == stronger.params
            ],
            "severities": {
                str(severity): {
                    "params": point.params,
                    "target": target,
                    "aim": _rounded(aim),
                    "attained": _rounded(point.ssim),
                    "spread": _rounded(point.spread),
                }
                for severity, (point, target, aim) in enumerate(zip(chosen, targets, wanted, strict=True), start=1)
            },
            "published": [
                {"params": point.params, "ssim": _rounded(point.ssim), "spread": _rounded(point.spread)}
                for point in self.published
            ],
        }


def _rounded(value: float) -> float:
    return round(value, _DECIMALS)
