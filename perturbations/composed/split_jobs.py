"""The job of the rule about splits for composed retrieval; `device` says where a language model runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perturbations.base.project import need_models
from perturbations.base.records import canonical
from perturbations.corpus.jobs.job_metadata import provenance

if TYPE_CHECKING:
    from perturbations.composed.split import Split


def composed_split(
    *,
    version: int,
    dataset: str,
    adapter: str,
    settings: str,
    seed: int,
    galleries: list[str],
    device: str,
    queries: Path,
    instructions: Path,
    rejected: Path,
    language_model: Mapping[str, Any] | None = None,
) -> None:
    """Read or build a split for composed retrieval; `settings` are the dataset's, as JSON.

    `version` changes when the rules of a split do.
    """
    from perturbations.base import storage
    from perturbations.composed import manifests, sources
    from perturbations.composed.split import UNLISTED
    from perturbations.corpus.plan import clip_lists, items
    from perturbations.datasets import adapter_registry
    from perturbations.manifest.rows import CaptionRow

    own = adapter_registry.get(adapter).settings.model_validate_json(settings)
    listing = items.read(dataset, own, videos=False)
    split = sources.read_split(own, listing, seed, dataset)
    if language_model is not None:
        split = _written(split, language_model, device)
    about = {**provenance(queries), "adapter": adapter, "language": own.language}
    about[UNLISTED] = len({*split.rows_of} - {item.item_id for item in listing.items})
    manifests.write(split, queries.parent, dataset, galleries, about)
    captions = [
        CaptionRow(dataset=dataset, caption_id=query.query_id, item_id=query.clip_id, text=query.instruction)
        for query in sorted(split.queries, key=lambda query: query.query_id)
    ]
    clip_lists.write(instructions, captions)
    storage.write_text(rejected, "")  # a split's queries all have instructions


def _written(split: Split, writer: Mapping[str, Any], device: str) -> Split:
    """The split with the parts that a language model writes; `writer` is `section.Writer` as JSON."""
    need_models()
    from perturbations.composed import language
    from perturbations.composed.split_settings import Writer
    from perturbations.models import language_model

    settings = Writer.model_validate_json(canonical(dict(writer)))
    model = language_model.load(settings.model, revision=settings.revision, device=device, dtype=settings.dtype)
    captions = None if settings.captions is None else language.read_captions(settings.captions, split)
    return language.rewritten(split, model, settings.parts, captions)
