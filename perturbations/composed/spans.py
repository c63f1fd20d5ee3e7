"""A split for composed retrieval from a dataset's items, where those are parts of longer videos."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from perturbations.composed.builder import build
from perturbations.composed.instructions import words_of
from perturbations.composed.modifications import PoolClip, Split
from perturbations.datasets.listing import Item


def _pool_of(items: Sequence[Item]) -> list[PoolClip]:
    """The items as clips of a pool; the first caption of each is its narration."""
    return [
        PoolClip(
            name=item.item_id,
            video_id=item.source_video_id,
            narration=item.texts[0] if item.texts else "",
            start_s=item.start_s,
            end_s=item.end_s,
        )
        for item in items
    ]


def split_of(items: Sequence[Item], *, seed: int, dataset: str) -> Split:
    """The split that `builder.build` makes of a dataset's items, with the tagger and the lemmas that work offline."""
    from perturbations.models import registry as models

    tagger, inflector = models.load("tagger", "offline"), models.load("inflector", "offline")
    analyse = partial(words_of, tagger=tagger, lemma=inflector.lemma)
    return build(_pool_of(items), analyse, seed=seed, dataset=dataset)
