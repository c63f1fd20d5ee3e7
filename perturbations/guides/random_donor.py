"""A random donor: another clip of a corpus, as MVTamperBench's code takes one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from perturbations.base.errors import MediaError
from perturbations.guides.donor import CorpusName, DonorFacts, VideoEmbedding, facts_of, is_the_same
from perturbations.guides.guide import Facts, GuideRecipe, GuideSettings, Known
from perturbations.manifest.kinds import AnalysisRow

if TYPE_CHECKING:
    from perturbations.media.footage import CleanClip


class RandomDonorGuide(GuideRecipe):
    """The kernel takes frames of any other clip of a corpus, whose clips are listed by their analysis."""

    summary: ClassVar = "another clip, drawn"
    facts: ClassVar = DonorFacts
    role: ClassVar = "embedding"

    kind: Literal["random_donor"] = "random_donor"
    corpus: CorpusName
    analysis: VideoEmbedding

    @classmethod
    def settle(cls, settings: GuideSettings) -> RandomDonorGuide:
        """The recipe for a clip of the dataset of donors."""
        return cls(corpus=settings.donors, analysis=VideoEmbedding.settle(settings))

    def donors(self) -> tuple[str, str]:
        """Clips are drawn out of those that have an analysis."""
        return self.corpus, "embedding"

    def find(
        self, item_id: str, known: Known, *, seed: int, draw: float, parameters: Mapping[str, object]
    ) -> DonorFacts:
        """A clip of the corpus, drawn for the clip out of those long enough, or out of all where none is.

        Never the clip itself, nor one of its file or its frames.
        """
        query = known.row(item_id)
        seconds = parameters["seconds"]
        assert isinstance(seconds, float | int)
        others = [row for row in known.donors if not is_the_same(row, query)]
        if not others:
            raise MediaError("no other clip in the donors' corpus to take frames of")
        long_enough = [row for row in others if row.frame_count >= query.fps * seconds] or others
        return facts_of(long_enough[int(draw * len(long_enough))])

    def argument(self, facts: Facts, clip: CleanClip, kept: Path | None) -> tuple[int, float]:
        """The number of the donor's frames, and the clip's frames per second."""
        assert isinstance(facts, DonorFacts)
        return facts.donor.frame_count, clip.fps

    def models(self, row: AnalysisRow | None) -> str:
        """None: which clips there are does not depend on how they are compared."""
        return "{}"
