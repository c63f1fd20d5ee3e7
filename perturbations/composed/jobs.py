"""The commands of rules about composed retrieval: composed-split, -features, -scenarios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import job_environment
from perturbations.cli.arguments import Commands, add_job
from perturbations.cli.common import need_models, provenance
from perturbations.manifest import layout

if TYPE_CHECKING:
    from perturbations.composed.modifications import Split
    from perturbations.composed.planning import ComposedScenario
    from perturbations.composed.runner import Queries


def add(commands: Commands) -> None:
    """Declare the commands of this file."""
    for job in (_composed_split, _composed_features, _composed_scenarios):
        add_job(commands, job)


def _composed_split(settings: str, output: Path, instructions: Path, rejected: Path) -> None:
    """Read or build a split for composed retrieval."""
    from perturbations.base import storage
    from perturbations.base.records import canonical, parse_record
    from perturbations.composed import manifests, sources
    from perturbations.composed.planning import SplitSettings
    from perturbations.datasets import registry
    from perturbations.plan import items

    wanted = parse_record(SplitSettings, settings, "the settings of a split")
    adapter = registry.get(wanted.adapter)
    source = sources.source_of(wanted.adapter)
    assert source is not None
    dataset = adapter.settings.model_validate_json(wanted.settings)
    listing = items.read(wanted.dataset, dataset, videos=False)
    split = source.split(dataset, listing, wanted.seed, wanted.dataset)
    if wanted.language_model is not None:
        split = _written(split, wanted.language_model)
    about = provenance(output / layout.name("composed_queries"))
    manifests.write(split, output, wanted.dataset, wanted.galleries, about, deduplicate=wanted.deduplicate)
    lines = [
        canonical({"caption_id": query.query_id, "item_id": query.clip, "text": query.instruction})
        for query in sorted(split.queries, key=lambda query: query.query_id)
    ]
    storage.write_text(instructions, "".join(f"{line}\n" for line in lines))
    storage.write_text(rejected, "")  # a split's queries all have instructions


def _written(split: Split, writer: str) -> Split:
    """The split with the parts that a language model writes; `writer` is `plan.composed_config.Writer` as JSON."""
    need_models()
    from perturbations.composed import language
    from perturbations.composed.section import Writer
    from perturbations.models import language_model

    settings = Writer.model_validate_json(writer)
    device = job_environment.current().device()
    model = language_model.load(settings.model, revision=settings.revision, device=device, dtype=settings.dtype)
    captions = None if settings.captions is None else language.read_captions(settings.captions, split)
    return language.rewritten(split, model, settings.parts, captions)


def _composed_features(
    settings: str,
    pretrained: str,
    output: Path,
    checkpoint: Path | None = None,
    sources: Path | None = None,
    parts: Path = Path(),
    names: list[str] | None = None,
    shards: Path = Path(),
    split: Path = Path(),
) -> None:
    """Encode clips for composed retrieval, one vector per clip: clean `sources`, and queries' clips of some `parts`.

    `names` are the PERTURBATION/SEVERITY of these, `shards` the folder of the shards' lists.
    """
    need_models()
    from perturbations.composed import manifests
    from perturbations.evaluation import backbone
    from perturbations.evaluation import features as composed_features
    from perturbations.manifest import sets
    from perturbations.manifest.kinds import SOURCES, VIDEOS
    from perturbations.plan import listed

    wanted = json.loads(settings)
    loaded = backbone.load(wanted, pretrained, checkpoint, job_environment.current().device())
    how = {"num_frames": wanted["num_frames"], "kept": wanted["frames"], "reader": job_environment.current().reader}
    held = {}
    if sources is not None:
        rows = sets.read_part(sources, SOURCES)
        held[composed_features.CLEAN] = composed_features.of_clips(loaded, rows, **how)
    if names:
        query_clips = {query.clip for query in manifests.read(split)[0].queries}
        for name in names:
            files = [parts / name / layout.name("video_part", shard=shard) for shard in listed.shards(shards)]
            videos = [row for file in files for row in sets.read_part(file, VIDEOS) if row.item_id in query_clips]
            held[name] = composed_features.of_clips(loaded, videos, **how)
    composed_features.write(output, held, loaded)


def _composed_scenarios(
    settings: str,
    pretrained: str,
    split: Path,
    clips: Path,
    output: Path,
    ranks: Path,
    checkpoint: Path | None = None,
    queries: Path | None = None,
) -> None:
    """Run some scenarios of composed retrieval, with the features of clean `clips` and of perturbed `queries`."""
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

    wanted = parse_record(ComposedSettings, settings, "the settings of composed retrieval")
    described: ModelSettings = {
        "model": wanted.model,
        "pretrained": wanted.pretrained,
        "revision": wanted.revision,
        "num_frames": wanted.num_frames,
    }
    loaded = backbone.load(described, pretrained, checkpoint, job_environment.current().device())
    whole, dataset = manifests.read(split)
    shifted = {} if queries is None else composed_features.read(queries, loaded.sha256)

    def asking(scenario: ComposedScenario) -> Queries:
        shift, instructions = scenario.clips, scenario.instructions
        part = None if instructions is None else Path(paths.instructions_part(dataset, instructions))
        rows = [] if part is None else [*sets.read_part(part, TEXTS)]
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
    files.write(output, RESULTS, rows)
    files.write(ranks, RANKS, rank_rows)
