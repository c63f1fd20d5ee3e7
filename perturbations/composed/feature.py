"""What `composed` brings to the configuration and the plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from perturbations.base.features import Feature, later
from perturbations.composed import split

if TYPE_CHECKING:
    from perturbations.composed.section import Composed
    from perturbations.config.sections import Config


def _section() -> type[Composed]:
    from perturbations.composed.section import Composed

    return Composed


def _readiness(config: Config, rules: Collection[str], local: bool) -> Iterator[str]:
    from perturbations.corpus import needs

    writer = config.composed.language_model
    if writer is not None and "composed_split" in rules:
        yield from needs.of_weights("composed.language_model.model", writer.model, tokenizer=True)


FEATURE = Feature(
    summary="retrieval by a clip and an instruction",
    places=split.PLACES,
    section=_section,
    problems=later("perturbations.composed.section", "problems_of"),
    kinds=split.kinds,
    readiness=_readiness,
)
