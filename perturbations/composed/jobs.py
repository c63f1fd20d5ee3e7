"""The commands of rules about composed retrieval: composed-split, -features, -scenarios."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import job_environment
from perturbations.cli.arguments import Commands, add_command, add_model
from perturbations.cli.common import need_models, provenance
from perturbations.manifest import layout

if TYPE_CHECKING:
    from perturbations.composed.modifications import Split
    from perturbations.composed.planning import ComposedScenario
    from perturbations.composed.runner import Queries


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    parser = add_command(commands, "composed-split", _split, "read or build a split for composed retrieval")
    parser.add_argument("--settings", required=True, help="JSON: what the split depends on")
    parser.add_argument("--output", type=Path, required=True, help="the folder of its manifests")
    parser.add_argument("--instructions", type=Path, required=True, help="the list of instructions, .jsonl")
    parser.add_argument("--rejected", type=Path, required=True, help="the list of those that cannot be used: of none")

    parser = add_command(
        commands, "composed-features", _features, "encode clips for composed retrieval, one vector per clip"
    )
    add_model(parser)
    parser.add_argument("--sources", type=Path, help="the clean clips, all of them")
    parser.add_argument("--parts", type=Path, help="a corpus's folder of parts; only query clips are encoded")
    parser.add_argument("--names", nargs="*", default=[], help="PERTURBATION/SEVERITY of the corpus's parts")
    parser.add_argument("--shards", type=Path, help="the folder of the shards' lists")
    parser.add_argument("--split", type=Path, help="the folder of the split's manifests")
    parser.add_argument("--output", type=Path, required=True, help="a .safetensors")

    parser = add_command(commands, "composed-scenarios", _evaluate, "run some scenarios of composed retrieval")
    add_model(parser)
    parser.add_argument("--split", type=Path, required=True, help="the folder of the split's manifests")
    parser.add_argument("--clips", type=Path, required=True, help="features of the clean clips")
    parser.add_argument("--queries", type=Path, help="features of perturbed query clips")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=Path, required=True)


def _split(options: argparse.Namespace) -> int:
    from perturbations.base import storage
    from perturbations.base.records import canonical, parse_record
    from perturbations.composed import manifests, sources
    from perturbations.composed.planning import SplitSettings
    from perturbations.datasets import registry
    from perturbations.plan import items

    settings = parse_record(SplitSettings, options.settings, "the settings of a split")
    adapter = registry.get(settings.adapter)
    source = sources.source_of(settings.adapter)
    assert source is not None
    dataset = adapter.settings.model_validate_json(settings.settings)
    listing = items.read(settings.dataset, dataset, videos=False)
    split = source.split(dataset, listing, settings.seed, settings.dataset)
    if settings.language_model is not None:
        split = _written(split, settings.language_model)
    about = provenance(options.output / layout.name("composed_queries"))
    manifests.write(
        split, options.output, settings.dataset, settings.galleries, about, deduplicate=settings.deduplicate
    )
    lines = [
        canonical({"caption_id": query.query_id, "item_id": query.clip, "text": query.instruction})
        for query in sorted(split.queries, key=lambda query: query.query_id)
    ]
    storage.write_text(options.instructions, "".join(f"{line}\n" for line in lines))
    storage.write_text(options.rejected, "")  # a split's queries all have instructions
    return 0


def _written(split: Split, writer: str) -> Split:
    """The split with the parts that a language model writes; `writer` is `plan.composed_config.Writer` as JSON."""
    need_models()
    from perturbations.composed import language
    from perturbations.composed.section import Writer
    from perturbations.models import language_model

    settings = Writer.model_validate_json(writer)
    device = job_environment.current().device()
    model = language_model.load(settings.model, revision=settings.revision, device=device, dtype=settings.dtype)
    return language.rewritten(split, model, settings.parts)


def _features(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.composed import manifests
    from perturbations.evaluation import backbone
    from perturbations.evaluation import features as composed_features
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import SOURCES, VIDEOS
    from perturbations.plan import listed

    settings = json.loads(options.settings)
    loaded = backbone.load(settings, options.pretrained, options.checkpoint, job_environment.current().device())
    how = {"num_frames": settings["num_frames"], "kept": settings["frames"], "reader": job_environment.current().reader}
    held = {}
    if options.sources is not None:
        rows = sets.read_part(options.sources, SOURCES)
        held[composed_features.CLEAN] = composed_features.of_clips(loaded, rows, **how)
    if options.names:
        split, _ = manifests.read(options.split)
        query_clips = {query.clip for query in split.queries}
        for name in options.names:
            parts = [
                options.parts / name / layout.name("video_part", shard=shard) for shard in listed.shards(options.shards)
            ]
            videos = [row for part in parts for row in sets.read_part(part, VIDEOS) if row.item_id in query_clips]
            held[name] = composed_features.of_clips(loaded, videos, **how)
    composed_features.write(options.output, held, loaded)
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    need_models()
    from perturbations.base.records import parse_record
    from perturbations.composed import manifests, paths
    from perturbations.composed import runner as composed_runner
    from perturbations.composed.planning import ComposedSettings
    from perturbations.evaluation import backbone
    from perturbations.evaluation import features as composed_features
    from perturbations.evaluation.planning import ModelSettings
    from perturbations.evaluation.rows import RANKS, RESULTS
    from perturbations.manifest import files, sets
    from perturbations.manifest.kinds import TEXTS

    settings = parse_record(ComposedSettings, options.settings, "the settings of composed retrieval")
    described: ModelSettings = {
        "model": settings.model,
        "pretrained": settings.pretrained,
        "revision": settings.revision,
        "num_frames": settings.num_frames,
    }
    loaded = backbone.load(described, options.pretrained, options.checkpoint, job_environment.current().device())
    split, dataset = manifests.read(options.split)
    shifted = {} if options.queries is None else composed_features.read(options.queries, loaded.sha256)

    def asking(scenario: ComposedScenario) -> Queries:
        clips, instructions = scenario.clips, scenario.instructions
        rows = []
        if instructions is not None:
            rows = sets.read_part(Path(paths.instructions_part(dataset, instructions)), TEXTS)
        return composed_runner.Queries(
            clips=None if clips is None else shifted[f"{clips.perturbation}/{clips.severity}"],
            instructions=None if instructions is None else {row.caption_id: row.text for row in rows if row.accepted},
            rows=rows,
        )

    encoded = composed_runner.Encoded(
        composed_features.read(options.clips, loaded.sha256)[composed_features.CLEAN],
        lambda texts: composed_features.of_texts(loaded, texts),
        loaded.sha256,
    )
    rows, ranks = composed_runner.evaluate(settings, split, dataset, encoded, asking)
    files.write(options.output, RESULTS, rows)
    files.write(options.ranks, RANKS, ranks)
    return 0
