"""Severities of equal distortion: measure kernels along their paths, and choose five points of each.

Distortion is the SSIM of the intended frames against the clean ones, as in a row's column `ssim`: its mean over the
clips of a sample.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from perturbations import __version__
from perturbations.analysis import motion, neighbours
from perturbations.calibration import paths
from perturbations.engine import analyses, guidance, rendering
from perturbations.engine.pipeline import MEASURED_FRAMES
from perturbations.engine.rendering import Source
from perturbations.errors import ConfigError
from perturbations.manifest.kinds import CompleteSource
from perturbations.media import decoding, quality
from perturbations.media.clip import Clip, Image, uniform_indices
from perturbations.plan import calibration_table, recipe
from perturbations.plan.recipe import AnalysedGuide, StyleGuide, Unstored, VideoRecipe
from perturbations.progress import logged, no_tick
from perturbations.suites import registry
from perturbations.suites.registry import Perturbation
from perturbations.system import storage

METRIC = "ssim"
TARGETS = (0.9, 0.825, 0.75, 0.675, 0.6)
"""The mean SSIM of severities 1 to 5: even steps, which most kernels can reach: docs/explanation/calibration.md."""

CLIPS = 8
"""How many clips a sample holds."""

TOLERANCE = 0.01
"""An SSIM so near to its target counts as reached."""

_GRID = 13
_TEMPORAL_GRID = 49  # rearranged frames cost nothing to make, and their curves are rough
_ROUNDS = 3
_CLOSE = 0.003
_DECIMALS = 4

Parameters = dict[str, Any]
Wanted = Mapping[str, str]
"""Perturbation -> variant."""


def sample(rows: Sequence[CompleteSource], seed: int, dataset: str, clips: int = CLIPS) -> list[Source]:
    """The clips to calibrate on: those with the smallest hashes of their ids."""
    by_item = {row.item_id: row for row in rows}
    chosen = neighbours.subset(by_item, clips, lambda item_id: recipe.digest(["calibration", seed, dataset, item_id]))
    return [rendering.source_of(by_item[item_id]) for item_id in chosen]


def calibrate(
    sources: Sequence[Source], wanted: Wanted, *, dataset: str, seed: int, targets: Sequence[float] = TARGETS
) -> calibration_table.Table:
    """Solve the parameters of the perturbations in `wanted` for the SSIM values `targets`, which fall.

    Kernels are measured at even strengths along their paths, then where a target must lie between two measurements.
    The five points chosen are those nearest to the targets, strengths rising, SSIM never rising. A kernel that cannot
    reach all targets gets aims of its own between its extremes, see `aims`, and is marked `limited`.

    The same clips, seed and versions give the same table. Guided kernels use the `offline` backends.
    Raises `ConfigError` when there are too few clips, `MediaError` when one cannot be decoded.
    """
    if not sources:
        raise ConfigError("there is no clip to calibrate on: all are quarantined, or the dataset is empty")
    searches = {key: _Search(registry.get(key), variant, seed) for key, variant in wanted.items()}
    donors = _donors(sources, [search.entry for search in searches.values()], seed)
    asked = {key: search.first() for key, search in searches.items()}
    for number in range(_ROUNDS + 1):
        jobs = [(source, key) for source in sources for key in asked if asked[key]]
        found: dict[str, list[list[float]]] = {key: [] for key in asked}
        held: _Held | None = None
        for source, key in logged(jobs, len(jobs), f"measurements of round {number + 1}"):
            if held is None or held.source is not source:
                held = _Held(source, donors.get(source.item_id))
            found[key].append(held.measure([searches[key].recipe_of(one) for one in asked[key]]))
        for key, by_clip in found.items():
            searches[key].learn(asked[key], by_clip)
        asked = {key: search.next(targets) for key, search in searches.items()}
        if not any(asked.values()):
            break
    return {
        "schema_version": calibration_table.SCHEMA_VERSION,
        "package_version": __version__,
        "dataset": dataset,
        "seed": seed,
        "metric": METRIC,
        "frames": MEASURED_FRAMES,
        "backends": "offline",
        "targets": list(targets),
        "sample": [{"item_id": one.item_id, "source_sha256": one.sha256} for one in sources],
        "perturbations": {key: search.entry_of(targets) for key, search in searches.items()},
    }


# --- solving ---------------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """A measured place of a path: its SSIM is the mean over the clips, `spread` their standard deviation."""

    strength: float
    ssim: float
    spread: float
    params: Parameters


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
    index = min(range(len(points)), key=lambda one: (costs[one], one))
    chosen = [index]
    for steps in reversed(before):
        chosen.append(steps[chosen[-1]])
    return [points[one] for one in reversed(chosen)]


def between(points: Sequence[Point], aim: float) -> float | None:
    """The strength where the SSIM should fall to `aim`, between two points measured; None where it never does."""
    points = sorted(points, key=lambda point: point.strength)
    below = next((index for index, point in enumerate(points) if point.ssim <= aim), None)
    if not below:
        return None
    upper, lower = points[below - 1], points[below]
    # Not too near to either: a curve that bends would be closed in on from one side only.
    share = min(max((upper.ssim - aim) / (upper.ssim - lower.ssim), 0.1), 0.9)
    return upper.strength + share * (lower.strength - upper.strength)


def rises(values: Sequence[float]) -> list[int]:
    """The severities whose SSIM is higher than that of the one before, by more than rounding."""
    return [severity for severity, (one, other) in enumerate(pairwise(values), start=2) if other > one + 0.001]


@dataclass
class _Search:
    """What is known of one perturbation."""

    entry: Perturbation
    variant: str
    seed: int
    points: dict[str, Point] = field(default_factory=dict)
    published: list[Point] = field(default_factory=list)

    def first(self) -> list[float | int]:
        """Every published severity (whole numbers), and even strengths."""
        grid = _TEMPORAL_GRID if self.entry.method == "temporal" else _GRID
        even = [float(strength) for strength in np.linspace(0, 1, grid)]
        return [*self.entry.severities, *self._new(even)]

    def next(self, targets: Sequence[float]) -> list[float | int]:
        """Strengths to measure now, so that the aims are met better."""
        points = list(self.points.values())
        wanted = self.aims(targets)
        missed = [
            aim for aim, point in zip(wanted, choose(points, wanted), strict=True) if abs(point.ssim - aim) > _CLOSE
        ]
        guesses = [between(points, aim) for aim in missed]
        return [*self._new(guess for guess in guesses if guess is not None)]

    def _new(self, strengths: Iterable[float]) -> list[float | int]:
        """Those whose parameters were not measured yet: whole numbers repeat."""
        chosen: dict[str, float | int] = {}
        for strength in strengths:
            made = recipe.canonical(self.params(strength))
            if made not in self.points:
                chosen.setdefault(made, strength)
        return list(chosen.values())

    def params(self, asked: float | int) -> Parameters:
        if isinstance(asked, int):
            return self.entry.parameters(asked, self.variant)
        return paths.parameters(self.entry, self.variant, asked)

    def recipe_of(self, asked: float | int) -> VideoRecipe:
        """As the workflow makes it, but for the parameters: no realization depends on a severity."""
        made = recipe.make(self.entry, 1, variant=self.variant, seed=self.seed, storage=Unstored(), donors="sample")
        return recipe.altered(made, params=dict(self.params(asked)))

    def learn(self, asked: Sequence[float | int], by_clip: Sequence[Sequence[float]]) -> None:
        for one, values in zip(asked, zip(*by_clip, strict=True), strict=False):
            point = Point(float(one), statistics.fmean(values), statistics.pstdev(values), self.params(one))
            if isinstance(one, int):
                self.published.append(point)
            else:
                self.points[recipe.canonical(point.params)] = point

    def extremes(self) -> tuple[float, float]:
        """The highest and the lowest SSIM on the path."""
        values = [point.ssim for point in self.points.values()]
        return max(values), min(values)

    def aims(self, targets: Sequence[float]) -> list[float]:
        return aims(targets, *self.extremes())

    def entry_of(self, targets: Sequence[float]) -> dict[str, Any]:
        """What the table says."""
        wanted = self.aims(targets)
        chosen = choose(list(self.points.values()), wanted)
        mildest, strongest = self.extremes()
        return {
            "version": self.entry.version,
            "variant": self.variant,
            "attainable": [_rounded(mildest), _rounded(strongest)],
            "limited": any(abs(aim - target) > 1e-9 for aim, target in zip(wanted, targets, strict=True)),
            "tied": [
                severity
                for severity, (one, other) in enumerate(pairwise(chosen), start=2)
                if one.params == other.params
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


# --- measuring -------------------------------------------------------------------------------------------------------


def _donors(sources: Sequence[Source], entries: Iterable[Perturbation], seed: int) -> dict[str, Source]:
    """The clip of the sample that is most like each of them."""
    guided = next((entry for entry in entries if entry.guide == "donor"), None)
    if guided is None:
        return {}
    made = recipe.make(guided, 1, variant="released", seed=seed, storage=Unstored(), donors="sample")
    assert made.analysis is not None
    look = analyses.analyser(made.analysis, {})
    vectors = []
    for row in look(sources, [None] * len(sources), no_tick):
        if isinstance(row, Exception):
            raise row
        vectors.append(row.vector or ())
    found = {}
    for source, vector in zip(sources, vectors, strict=True):
        same = np.array([other.sha256 == source.sha256 for other in sources])
        nearest = neighbours.nearest(vector, vectors, same)
        if nearest is None:
            raise ConfigError(f"{guided.key} inserts segments of other clips: calibrate on two clips or more")
        found[source.item_id] = sources[nearest.position]
    return found


class _Held:
    """A clip's sampled frames, and what guided kernels must know of it. Memory does not grow with its length."""

    def __init__(self, source: Source, donor: Source | None) -> None:
        self.source = source
        self._donor = donor
        self._sampled = uniform_indices(MEASURED_FRAMES, source.num_frames)
        self._places = sorted(set(self._sampled))  # a short clip's last frame counts once, as in its row
        # Motion is against the frame before.
        self._frames = _decoded(source, motion.needed(self._places) or ())
        self._clean = [self._frames[place] for place in self._places]
        self._guides: dict[str, Any] = {}

    def measure(self, recipes: Sequence[VideoRecipe]) -> list[float]:
        """The SSIM of each of one perturbation's recipes."""
        method = rendering.method(recipes[0])
        if method == "temporal":
            return self._rearranged(recipes)
        how: Callable[[VideoRecipe], Iterable[Image]] = self._encoded if method == "codec" else self._changed
        return [_mean_ssim(zip(self._clean, how(one), strict=True)) for one in recipes]

    def _changed(self, made: VideoRecipe) -> Iterable[Image]:
        source = self.source
        guide = self._guide(made) if made.guide is not None else None
        apply = rendering.applier(
            made, source.dataset, source.item_id, source.num_frames, source.height, source.width, guide
        )
        return (apply(self._frames[place], place) for place in self._places)

    def _encoded(self, made: VideoRecipe) -> Iterable[Image]:
        with storage.scratch_directory() as folder:
            path = Path(folder) / "clip.mp4"
            rendering.encode_stream(made, self.source, path, no_tick)
            frames = {frame.position: frame.image for frame in decoding.decode(Clip(path), only=set(self._places))}
        return (frames[place] for place in self._places)

    def _rearranged(self, recipes: Sequence[VideoRecipe]) -> list[float]:
        """Temporal recipes make no pixels: one pass compares all pairs of frames that any of them needs."""
        shown = []
        for made in recipes:
            guide = self._guide(made) if made.guide is not None else None
            plan = rendering.plan(made, self.source.dataset, self.source.item_id, self.source.num_frames, guide)
            clean_of = dict(zip(uniform_indices(MEASURED_FRAMES, len(plan)), self._sampled, strict=True))
            shown.append([(clean, plan[place]) for place, clean in clean_of.items()])
        compared: dict[int, set[int]] = {}
        for clean, position in (pair for pairs in shown for pair in pairs):
            compared.setdefault(position, set()).add(clean)
        similarity: dict[tuple[int, int], float] = {}
        for source, own in ((self.source, True), (self._donor, False)):
            needed = {position if own else ~position for position in compared if (position >= 0) == own}
            if source is None or not needed:
                continue
            for frame in decoding.decode(source.clip, only=needed):
                position = frame.position if own else ~frame.position
                image = frame.image if own else rendering.fitted(frame.image, self.source.size)
                for clean in compared[position]:
                    similarity[clean, position] = quality.ssim(self._frames[clean], image)
        return [statistics.fmean(similarity[pair] for pair in pairs) for pairs in shown]

    def _guide(self, made: VideoRecipe) -> Any:
        assert made.guide is not None
        kind = made.guide.kind
        if kind not in self._guides:
            self._guides[kind] = self._new_guide(kind, made)
        return self._guides[kind]

    def _new_guide(self, kind: str, made: VideoRecipe) -> Any:
        source = self.source
        if kind == "motion":
            moving = {
                place: motion.frame_motion(motion.optical_flow(self._frames[place - 1], self._frames[place]))
                if place
                else motion.no_motion(source.height, source.width)
                for place in self._places
            }
            return moving.__getitem__
        if isinstance(made.guide, AnalysedGuide):
            (row,) = analyses.analyser(made.guide.analysis, {})([source], [None], no_tick)
            if isinstance(row, Exception):
                raise row
            return guidance.boxes(guidance.main_object_facts(row.result or ""), source.num_frames)
        if kind == "donor":
            assert self._donor is not None
            return self._donor.num_frames, self._donor.fps / source.fps
        if isinstance(made.guide, StyleGuide):
            return guidance.stylizer(made.guide, guidance.style_facts(made, source.dataset, source.item_id))
        facts = guidance.frost_facts(made, source.dataset, source.item_id)
        return guidance.photograph(facts.frost, facts.files.image)


def _decoded(source: Source, only: Collection[int]) -> dict[int, Image]:
    return {frame.position: frame.image for frame in decoding.decode(source.clip, only=only)}


def _mean_ssim(pairs: Iterable[tuple[Image, Image]]) -> float:
    distortion = quality.Distortion(structural=True)
    for clean, image in pairs:
        distortion.add(clean, image)
    return distortion.ssim
