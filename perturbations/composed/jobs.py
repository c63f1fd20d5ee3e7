"""The jobs of rules about composed retrieval.

`device` and `reader` say where and with what a job runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perturbations.base.project import need_models
from perturbations.base.readers import Reader
from perturbations.base.records import canonical
from perturbations.cli.common import provenance
from perturbations.manifest import layout

if TYPE_CHECKING:
    from perturbations.composed.modifications import Split
    from perturbations.composed.planning import ComposedScenario
    from perturbations.composed.runner import Queries
    from perturbations.evaluation.backbone import LoadedBackbone
    from perturbations.evaluation.planning import ModelSettings


def composed_split(
    *, settings: Mapping[str, Any], device: str, reader: Reader, queries: Path, instructions: Path, rejected: Path
) -> None:
    """Read or build a split for composed retrieval."""
    from perturbations.base import storage
    from perturbations.base.records import parse_record
    from perturbations.composed import manifests, sources
    from perturbations.composed.planning import SplitSettings
    from perturbations.datasets import registry
    from perturbations.plan import items

    wanted = parse_record(SplitSettings, canonical(settings), "the settings of a split")
    adapter = registry.get(wanted.adapter)
    source = sources.source_of(wanted.adapter)
    assert source is not None
    dataset = adapter.settings.model_validate_json(wanted.settings)
    listing = items.read(wanted.dataset, dataset, videos=False)
    split = source.split(dataset, listing, wanted.seed, wanted.dataset)
    if wanted.language_model is not None:
        split = _written(split, wanted.language_model, device)
    about = provenance(queries)
    manifests.write(split, queries.parent, wanted.dataset, wanted.galleries, about, deduplicate=wanted.deduplicate)
    lines = [
        canonical({"caption_id": query.query_id, "item_id": query.clip, "text": query.instruction})
        for query in sorted(split.queries, key=lambda query: query.query_id)
    ]
    storage.write_text(instructions, "".join(f"{line}\n" for line in lines))
    storage.write_text(rejected, "")  # a split's queries all have instructions


def _written(split: Split, writer: str, device: str) -> Split:
    """The split with the parts that a language model writes; `writer` is `plan.composed_config.Writer` as JSON."""
    need_models()
    from perturbations.composed import language
    from perturbations.composed.section import Writer
    from perturbations.models import language_model

    settings = Writer.model_validate_json(writer)
    model = language_model.load(settings.model, revision=settings.revision, device=device, dtype=settings.dtype)
    captions = None if settings.captions is None else language.read_captions(settings.captions, split)
    return language.rewritten(split, model, settings.parts, captions)


def composed_clips(
    *,
    settings: ModelSettings,
    pretrained: str,
    device: str,
    reader: Reader,
    sources: Path,
    output: Path,
    checkpoint: str | None = None,
) -> None:
    """Encode clean clips for composed retrieval, one vector per clip."""
    need_models()
    from perturbations.evaluation import features
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import SOURCES

    loaded = _loaded(settings, pretrained, checkpoint, device)
    rows = sets.read_part(sources, SOURCES)
    held = {features.CLEAN: features.of_clips(loaded, rows, **_how(settings, reader))}
    features.write(output, held, loaded)


def composed_queries(
    *,
    settings: ModelSettings,
    pretrained: str,
    names: list[str],
    device: str,
    reader: Reader,
    work: Path,
    suite: str,
    split: list[Path],
    output: Path,
    checkpoint: str | None = None,
) -> None:
    """Encode the clips of queries under a suite's perturbations; `names` are the PERTURBATION/SEVERITY of these."""
    need_models()
    from perturbations.composed import manifests
    from perturbations.evaluation import features
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import VIDEOS
    from perturbations.plan import listed

    loaded = _loaded(settings, pretrained, checkpoint, device)
    query_clips = {query.clip for query in manifests.read(split[0].parent)[0].queries}
    shards = listed.shards(work / "shards")
    held = {}
    for name in names:
        files = [work / suite / name / layout.name("video_part", shard=shard) for shard in shards]
        videos = [row for file in files for row in sets.read_part(file, VIDEOS) if row.item_id in query_clips]
        held[name] = features.of_clips(loaded, videos, **_how(settings, reader))
    features.write(output, held, loaded)


def _loaded(settings: ModelSettings, pretrained: str, checkpoint: str | None, device: str) -> LoadedBackbone:
    from perturbations.evaluation import backbone

    return backbone.load(settings, pretrained, None if checkpoint is None else Path(checkpoint), device)


def _how(settings: Mapping[str, Any], reader: Reader) -> dict[str, Any]:
    """How clips are read."""
    return {"num_frames": settings["num_frames"], "kept": settings["frames"], "reader": reader}


def composed_evaluate(
    *,
    settings: Mapping[str, Any],
    pretrained: str,
    device: str,
    reader: Reader,
    split: list[Path],
    clips: Path,
    results: Path,
    ranks: Path,
    checkpoint: str | None = None,
    queries: Path | None = None,
    texts: list[Path],
) -> None:
    """Run some scenarios of composed retrieval, with the features of clean `clips` and of perturbed `queries`.

    `texts` are the markers of perturbed instructions, one per suite.
    """
    need_models()
    from perturbations.base.records import parse_record
    from perturbations.composed import manifests
    from perturbations.composed import runner as composed_runner
    from perturbations.composed.planning import ComposedSettings
    from perturbations.evaluation import features as composed_features
    from perturbations.evaluation.rows import RANKS, RESULTS
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import TEXTS

    wanted = parse_record(ComposedSettings, canonical(settings), "the settings of composed retrieval")
    described: ModelSettings = {
        "model": wanted.model,
        "pretrained": wanted.pretrained,
        "revision": wanted.revision,
        "num_frames": wanted.num_frames,
    }
    loaded = _loaded(described, pretrained, checkpoint, device)
    whole, dataset = manifests.read(split[0].parent)
    of_suites = {marker.parents[1].name: marker for marker in texts}
    shifted = {} if queries is None else composed_features.read(queries, loaded.sha256)

    def asking(scenario: ComposedScenario) -> Queries:
        shift, instructions = scenario.clips, scenario.instructions
        rows = []
        if instructions is not None:
            marker = of_suites[instructions.suite]
            part = layout.name("text_part", shard=layout.shard_of(marker))
            place = marker.parent / instructions.perturbation / str(instructions.severity)
            rows = [*sets.read_part(place / part, TEXTS)]
        return composed_runner.Queries(
            clips=None if shift is None else shifted[shift.part],
            instructions=None if instructions is None else {row.caption_id: row.text for row in rows if row.accepted},
            rows=rows,
        )

    encoded = composed_runner.Encoded(
        composed_features.read(clips, loaded.sha256)[composed_features.CLEAN],
        lambda texts: composed_features.of_texts(loaded, texts),
        loaded.sha256,
        loaded.architecture,
    )
    rows, rank_rows = composed_runner.evaluate(wanted, whole, dataset, encoded, asking)
    files.write(results, RESULTS, rows)
    files.write(ranks, RANKS, rank_rows)
