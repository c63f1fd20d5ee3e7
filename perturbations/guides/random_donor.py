"""A random donor: another clip of a corpus, as MVTamperBench's code takes one."""

from __future__ import annotations

from typing import Literal

from perturbations.base.errors import MediaError
from perturbations.guides import donor
from perturbations.guides.analyses import GuideSettings
from perturbations.guides.registry import ClipShape, Facts, FactsRequest, Guide, GuideRecipe


class _RandomDonorGuide(GuideRecipe):
    """The kernel takes frames of any other clip of a corpus, whose clips are listed by their analysis."""

    kind: Literal["random_donor"] = "random_donor"
    corpus: donor.CorpusName
    analysis: donor.VideoEmbedding

    def donors(self) -> tuple[str, str]:
        """Clips are drawn out of those that have an analysis."""
        return self.corpus, "embedding"


def _settle(settings: GuideSettings) -> _RandomDonorGuide:
    return _RandomDonorGuide(corpus=settings.donors, analysis=donor.settle_embedding(settings))


def _find(request: FactsRequest) -> donor.DonorFacts:
    """A clip of the corpus, drawn for the clip out of those long enough, or out of all where none is.

    Never the clip itself, nor one of its file or its frames.
    """
    query = request.analysed_row()
    seconds = request.parameters["seconds"]
    assert isinstance(seconds, float | int)
    others = [row for row in request.known.donors if not donor.is_the_same(row, query)]
    if not others:
        raise MediaError("no other clip in the donors' corpus to take frames of")
    return donor.facts_of(request.choice([row for row in others if row.frame_count >= query.fps * seconds] or others))


def _make(recipe: GuideRecipe, facts: Facts, shape: ClipShape) -> tuple[int, float]:
    """The number of the donor's frames, and the clip's frames per second."""
    assert isinstance(facts, donor.DonorFacts)
    return facts.donor.frame_count, shape.fps


GUIDE = Guide(
    name="random_donor",
    summary="another clip, drawn",
    recipe=_RandomDonorGuide,
    facts=donor.DonorFacts,
    settle=_settle,
    find=_find,
    make=_make,
    models=lambda recipe, row: "{}",  # which clips there are does not depend on how they are compared
    other=donor.clip_of,
)
