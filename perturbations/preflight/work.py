"""What a run is about to make: of Snakemake's own jobs, or of named targets as planning says. No NumPy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from perturbations.base.errors import ConfigError, did_you_mean
from perturbations.config.sections import Config
from perturbations.manifest import layout
from perturbations.plan import paths, recipe, sharding, targets
from perturbations.plan.extension import ClipScenario, TargetWork


@dataclass
class Work:
    """What a run makes, as far as the check before it looks at it.

    Attributes:
        clips: scenario -> the shards whose perturbed clips are made.
        unread: the collection and the shard of clean clips that are still to be read.
        captions: how many jobs perturb captions.
        checked: the collections whose quarantine is compared with `max_failed_items`.
        checked_captions: the datasets whose unusable captions are.
        rules: the names of the rules that run.
        sizes: lines that say how much work the targets are.
    """

    clips: dict[ClipScenario, list[str]] = field(default_factory=lambda: defaultdict(list))
    unread: set[tuple[str, str]] = field(default_factory=set)
    captions: int = 0
    checked: set[str] = field(default_factory=set)
    checked_captions: set[str] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)
    sizes: list[str] = field(default_factory=list)

    @property
    def collections(self) -> list[str]:
        """The collections whose lists of clips the check reads."""
        return sorted({name for name, *_ in self.clips} | {name for name, _ in self.unread} | self.checked)


def of_jobs(jobs: Iterable[tuple[str, Mapping[str, str]]]) -> Work:
    """What Snakemake is about to run: the rule and the wildcards of each job."""
    work = Work()
    for rule, names in jobs:
        work.rules.add(rule)
        if rule == "videos":
            scenario = names["dataset"], names["suite"], names["perturbation"], int(names["severity"])
            work.clips[scenario].append(names["shard"])
        elif rule == "sources":
            work.unread.add((names["dataset"], names["shard"]))
        elif rule == "texts":
            work.captions += 1
        elif rule == "check_quarantine":
            work.checked.add(names["dataset"])
        elif rule == "check_captions":
            work.checked_captions.add(names["dataset"])
    return work


def of_targets(config: Config, names: Sequence[str]) -> Work:
    """What targets of Snakemake still lack, by the files that are there.

    Raises `ConfigError` for a target that there is not, and as planning does.
    """
    plans, caption_shards = cache(partial(paths.plan, config)), cache(partial(paths.caption_shards, config))
    menu = {
        target.name: target for target in (targets.demo(config, plans), *targets.menu(config, plans, caption_shards))
    }
    for name in names:
        if name not in menu:
            hint = did_you_mean(name, list(menu)) or "."
            raise ConfigError(f"no target {name!r}{hint} `snakemake --list-target-rules` lists them")
    works = [menu[name].request() for name in dict.fromkeys(names)]
    asked = targets.together(works)
    work = Work(rules={*asked.rules}, sizes=list(asked.sizes), checked={name for name, _ in asked.corpora})
    corpora = [
        (collection, suite, name, severity)
        for collection, suite in asked.corpora
        for name, severity in recipe.scenarios(config, suite)
    ]
    for scenario in dict.fromkeys((*corpora, *asked.clips)):
        made = dict(zip(("dataset", "suite", "perturbation", "severity"), scenario, strict=True))
        shards = [shard for shard in plans(scenario[0]).shards if not _are_clips_there(config, made, shard)]
        work.clips |= {scenario: shards} if shards else {}
    evaluated = {sharding.dataset_of(name) for own in works if own.rules for name, _ in _datasets(own)}
    work.unread = {
        (name, shard)
        for name in {name for name, *_ in (*corpora, *asked.clips)} | evaluated
        for shard in plans(name).shards
        if not _is_there("source_part", dataset=name, shard=shard)
    }
    work.captions = sum(
        not _is_there("text_marker", dataset=name, suite=suite, shard=shard)
        for name, suite in dict.fromkeys(asked.captions)
        for shard in caption_shards(name)
    )
    work.checked_captions = {name for name, kind in _datasets(asked) if kind == "captions_checked"}
    return work


def _datasets(work: TargetWork) -> list[tuple[str, str]]:
    """The collection and the kind of each file of a collection."""
    places = filter(None, map(layout.place_of, work.files))
    return [(fields["dataset"], kind) for kind, fields in places if "dataset" in fields]


def _are_clips_there(config: Config, scenario: Mapping[str, object], shard: str) -> bool:
    kinds = ("video_part",) if config.storage.tier == "recipe" else ("video_part", "clip_marker")
    return all(_is_there(kind, **scenario, shard=shard) for kind in kinds)


def _is_there(kind: str, /, **fields: object) -> bool:
    return Path(layout.at(kind, **fields)).exists()
