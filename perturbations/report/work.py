"""What a run is about to make: what its targets lack, by the files that are there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from perturbations.base.errors import ConfigError, ManifestError
from perturbations.config.sections import Config
from perturbations.corpus import paths, recipe, sharding, targets
from perturbations.corpus.targets import CaptionShards, ClipScenario, Plans, TargetWork
from perturbations.manifest import layout


@dataclass
class Work:
    """What a run makes, as far as the check before it looks at it.

    Attributes:
        clips: scenario -> the shards whose perturbed clips are made.
        unread: the collection and the shard of clean clips that are still to be read.
        captions: how many jobs perturb captions.
        caption_models: the names of the models that these use.
        checked: the collections whose quarantine is compared with `max_failed_items`.
        checked_captions: the datasets whose unusable captions are.
        rules: the names of the rules that run.
        sizes: lines that say how much work the targets are.
    """

    clips: dict[ClipScenario, list[str]] = field(default_factory=dict)
    unread: set[tuple[str, str]] = field(default_factory=set)
    captions: int = 0
    caption_models: set[str] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)
    checked_captions: set[str] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)
    sizes: tuple[str, ...] = ()

    @property
    def collections(self) -> list[str]:
        """The collections whose lists of clips the check reads."""
        return sorted({name for name, *_ in self.clips} | {name for name, _ in self.unread} | self.checked)


def of_targets(config: Config, names: Sequence[str]) -> Work:
    """What targets still lack. Raises `ConfigError` for a target that there is not, and as planning does."""
    plans, caption_shards = cache(partial(sharding.plan_clips, config)), cache(partial(sharding.plan_captions, config))
    menu = {name: request for name, _, request in targets.menu(config, plans, caption_shards)}
    for name in names:
        if name not in menu:
            raise ConfigError(targets.no_target(config, name, menu))
    return lacking(config, [menu[name]() for name in dict.fromkeys(names)], plans, caption_shards)


def lacking(config: Config, works: Sequence[TargetWork], plans: Plans, caption_shards: CaptionShards) -> Work:
    """What the work of targets still lacks."""
    asked = targets.together(works)
    work = Work(sizes=asked.sizes, checked={name for name, _ in asked.corpora})
    corpora = [
        (collection, suite, name, severity)
        for collection, suite in dict.fromkeys(asked.corpora)
        for name, severity in recipe.scenarios(config, suite)
    ]
    read = {name for name, *_ in (*corpora, *asked.clips)}
    for scenario in dict.fromkeys((*corpora, *asked.clips)):
        shards = [shard for shard in plans(scenario[0]).shards if _lacks(config, scenario, shard)]
        work.clips |= {scenario: shards} if shards else {}
    for own in works:
        if own.rules and not _are_there(config, own.files):
            work.rules |= {*own.rules}
            read |= {sharding.dataset_of(name) for name, _ in _datasets(own)}
    work.unread = {
        (name, shard)
        for name in read
        for shard in plans(name).shards
        if not _are_there(config, paths.of_shards("source_part", name, [shard]))
    }
    for name, suite in dict.fromkeys(asked.captions):
        markers = paths.of_shards("text_marker", name, caption_shards(name), suite=suite)
        jobs = sum(not _are_there(config, [marker]) for marker in markers)
        work.captions += jobs
        for text in paths.texts_of_recipes(config, name, suite).values() if jobs else ():
            work.caption_models |= {*json.loads(text)["players"].values()}
    work.checked_captions = {name for name, kind in _datasets(asked) if kind == "captions_checked"}
    return work


def _lacks(config: Config, scenario: ClipScenario, shard: str) -> bool:
    """Whether a shard's perturbed clips are not there, or are those of another recipe: of another number."""
    from perturbations.manifest import files

    collection, suite, name, severity = scenario
    parts = paths.clip_inputs(config, collection, suite, [(name, severity)], [shard])
    if not _are_there(config, parts):
        return True
    try:
        recipes = set(files.read_columns(config.at(parts[0]), "recipe")["recipe"].to_pylist())
    except ManifestError:  # jobs say what is wrong with it
        return True
    return not recipes <= {recipe.from_config(config, collection, suite, name, severity).text}


def _datasets(work: TargetWork) -> list[tuple[str, str]]:
    """The collection and the kind of each file of a collection."""
    places = filter(None, map(layout.place_of, work.files))
    return [(fields["dataset"], kind) for kind, fields in places if "dataset" in fields]


def _are_there(config: Config, files: Sequence[str]) -> bool:
    return all(config.at(path).exists() for path in files)
