"""The distortion of one clip under many recipes: its frames, its guides and what models saw of it are kept."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perturbations.base.arrays import Image
from perturbations.base.errors import ConfigError, MediaError
from perturbations.engine import guided, rendering
from perturbations.engine.frame_orders import fitted
from perturbations.engine.planned import PlannedClip
from perturbations.engine.render_clip import MEASURED_FRAMES
from perturbations.engine.source import Source
from perturbations.guides import registry as guides
from perturbations.guides.analyses import Analysed, Work
from perturbations.guides.registry import Facts, Known
from perturbations.media import decoding, quality
from perturbations.media.clip import Frame, uniform_indices
from perturbations.plan.recipe import VideoRecipe


def known_of(sources: Sequence[Source], recipes: Iterable[VideoRecipe]) -> dict[str, Known]:
    """What analyses find about the clips of a sample, by the analysis's recipe: each clip may be the donor of others.

    What a guide can follow frame by frame is not analysed ahead. Raises `MediaError`.
    """
    known: dict[str, Known] = {}
    for recipe in recipes:
        analysis = recipe.analysis
        if analysis is None or recipe.guide is None or guides.get(recipe.guide.kind).on_the_fly:
            continue
        if analysis.text not in known:
            rows = [guided.analysed_now(analysis, source) for source in sources]
            known[analysis.text] = Known({row.item_id: row for row in rows}, rows)
    return known


class Held:
    """A clip's sampled frames, and what guided kernels must know of it. Memory does not grow with its length."""

    def __init__(self, source: Source, known: Mapping[str, Known]) -> None:
        self.source = source
        self._known = known
        self._sampled = uniform_indices(MEASURED_FRAMES, source.num_frames)
        self._places = sorted(set(self._sampled))  # a short clip's last frame counts once, as in its row
        self._frames = {frame.position: frame for frame in source.frames(self._places)}
        self._clean = [self._frames[place].image for place in self._places]
        self._facts: dict[str, Facts | None] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="perturb-")
        self._kept: dict[str, Path] = {}

    def measure(self, recipes: Sequence[VideoRecipe]) -> list[float]:
        """The SSIM of each of one perturbation's recipes, against the clean frames."""
        entry = recipes[0].entry
        if entry.moves_frames:
            return self._rearranged(recipes)
        images: Callable[[VideoRecipe], Iterable[Image]] = self._encoded if entry.encodes else self._changed
        return [_mean_ssim(zip(self._clean, images(recipe), strict=True)) for recipe in recipes]

    def _changed(self, recipe: VideoRecipe) -> Iterator[Image]:
        return (image for _, image in self._planned(recipe).changed(self._held, self._places))

    def _held(self, only: Iterable[int] | None) -> Iterator[Frame]:
        """The frames that are held; a guide that must see others gets its analysis from a file."""
        return (self._frames[place] for place in sorted(only or self._places))

    def _encoded(self, recipe: VideoRecipe) -> Iterator[Image]:
        return (frame.image for frame in self._planned(recipe).frames(only=set(self._places)))

    def _planned(self, recipe: VideoRecipe) -> PlannedClip:
        source = replace(self.source, facts=self._facts_of(recipe), kept=self._kept_by(recipe))
        return rendering.planned_clip(recipe, source)

    def _rearranged(self, recipes: Sequence[VideoRecipe]) -> list[float]:
        """Temporal recipes make no pixels: one pass compares all pairs of frames that any of them needs."""
        shown = []
        for recipe in recipes:
            plan = self._planned(recipe).order
            assert plan is not None
            clean_of = dict(zip(uniform_indices(MEASURED_FRAMES, len(plan)), self._sampled, strict=True))
            shown.append([(clean, plan[place]) for place, clean in clean_of.items()])
        compared: dict[int, set[int]] = {}
        for clean, position in (pair for pairs in shown for pair in pairs):
            compared.setdefault(position, set()).add(clean)
        similarity = {
            (clean, position): quality.ssim(self._frames[clean].image, image)
            for position, image in self._images_at(recipes[0], set(compared))
            for clean in compared[position]
        }
        return [statistics.fmean(similarity[pair] for pair in pairs) for pairs in shown]

    def _images_at(self, recipe: VideoRecipe, positions: set[int]) -> Iterator[tuple[int, Image]]:
        """The images at the positions of a plan: i is the clip's frame i, ~i the other clip's."""
        if own := {position for position in positions if position >= 0}:
            for frame in self.source.frames(own):
                yield frame.position, frame.image
        if others := {~position for position in positions if position < 0}:
            for frame in decoding.decode(guided.other_clip(recipe, self._facts_of(recipe)), only=others):
                yield ~frame.position, fitted(frame.image, self.source.size, antialiased=recipe.antialiases_donors)

    def _facts_of(self, recipe: VideoRecipe) -> Facts | None:
        if recipe.key not in self._facts:
            known = self._known.get(recipe.analysis.text) if recipe.analysis else None
            try:
                facts = guided.facts_of(recipe, self.source, known) if known else guided.facts_now(recipe, self.source)
            except MediaError as error:
                if known is None or recipe.donors is None:
                    raise
                message = f"{recipe.key} inserts segments of other clips: calibrate on two clips or more ({error})"
                raise ConfigError(message) from None
            self._facts[recipe.key] = facts
        return self._facts[recipe.key]

    def _kept_by(self, recipe: VideoRecipe) -> Path | None:
        """The file of the clip's analysis, made once, where the analysis keeps one."""
        analysis = recipe.analysis
        if analysis is None or (extension := guides.analysis(analysis.analysis).extension) is None:
            return None
        if analysis.text not in self._kept:
            path = Path(self._folder.name) / f"{len(self._kept)}{extension}"
            (result,) = guides.analysis(analysis.analysis).run(analysis, [self.source], Work(files=[path]))
            if not isinstance(result, Analysed):
                raise result
            self._kept[analysis.text] = path
        return self._kept[analysis.text]


def _mean_ssim(pairs: Iterable[tuple[Image, Image]]) -> float:
    distortion = quality.Distortion(structural=True)
    for clean, image in pairs:
        distortion.add(clean, image)
    return distortion.ssim
