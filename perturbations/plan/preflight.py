"""What a run is about to do: its jobs, from Snakemake's own plan or from named targets. No NumPy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from perturbations.guides import registry as guides
from perturbations.plan import composed, evaluation, evaluation_paths, paths, recipe, sharding
from perturbations.plan import config as configuration
from perturbations.plan.paths import CaptionShards, Plans


class VideoJob(NamedTuple):
    """One job of the rule `videos`."""

    collection: str
    suite: str
    perturbation: str
    severity: int
    shard: str


class CaptionJob(NamedTuple):
    """One job of the rule `texts`."""

    collection: str
    suite: str
    perturbation: str
    severity: int
    shard: str


class EvaluationJob(NamedTuple):
    """One job of the rule `evaluate`."""

    model_key: str
    dataset: str
    direction: evaluation.Direction
    side: evaluation.Side
    suite: str
    level: str
    group: str


@dataclass
class Wanted:
    """The jobs of a run that this check looks at.

    Attributes:
        videos: jobs of perturbed clips.
        sources: (collection, shard) whose clips are read.
        analyses: (collection, analysis, shard).
        captions: jobs of perturbed captions.
        checked: collections whose quarantine is checked against `max_quarantine`.
        checked_captions: datasets whose captions are.
        evaluates: whether the evaluation's model is loaded.
        evaluations: jobs of retrieval with it.
        galleries: datasets whose clean clips it encodes.
        checks_model: whether the evaluation's model is checked.
        trains: whether the demo's encoder is trained.
        composes: whether a split of composed retrieval is evaluated.
    """

    videos: set[VideoJob] = field(default_factory=set)
    sources: set[tuple[str, str]] = field(default_factory=set)
    analyses: set[tuple[str, str, str]] = field(default_factory=set)
    captions: set[CaptionJob] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)
    checked_captions: set[str] = field(default_factory=set)
    evaluates: bool = False
    evaluations: set[EvaluationJob] = field(default_factory=set)
    galleries: set[str] = field(default_factory=set)
    checks_model: bool = False
    trains: bool = False
    composes: bool = False

    @property
    def scenarios(self) -> dict[tuple[str, str, str, int], list[str]]:
        """(collection, suite, perturbation, severity) -> the shards to make."""
        shards: dict[tuple[str, str, str, int], list[str]] = {}
        for job in sorted(self.videos):
            shards.setdefault(job[:4], []).append(job.shard)
        return shards


_EVALUATING = ("evaluate", "gallery", "check_model", "composed_clips", "composed_queries")
"""The rules whose jobs load the evaluation's model."""


def of_jobs(jobs: Iterable[tuple[str, Mapping[str, str]]]) -> Wanted:
    """What Snakemake plans: the rule and the wildcards of each job that it will run."""
    wanted = Wanted()
    for rule, names in jobs:
        if rule == "videos":
            place = names["dataset"], names["suite"], names["perturbation"], int(names["severity"]), names["shard"]
            wanted.videos.add(VideoJob(*place))
        elif rule == "sources":
            wanted.sources.add((names["dataset"], names["shard"]))
        elif rule == "analyses":
            wanted.analyses.add((names["dataset"], names["analysis"], names["shard"]))
        elif rule == "texts":
            place = names["dataset"], names["suite"], names["perturbation"], int(names["severity"]), names["shard"]
            wanted.captions.add(CaptionJob(*place))
        elif rule == "evaluate":
            job = (names[part] for part in ("model", "dataset", "direction", "side", "corpus", "level", "group"))
            wanted.evaluations.add(EvaluationJob(*job))  # type: ignore[arg-type]
        elif rule == "gallery" and names["modality"] == "clips":
            wanted.galleries.add(names["dataset"])
        elif rule == "check_quarantine":
            wanted.checked.add(names["dataset"])
        elif rule == "check_captions":
            wanted.checked_captions.add(names["dataset"])
        wanted.evaluates |= rule in _EVALUATING
        wanted.checks_model |= rule == "check_model"
        wanted.trains |= rule == "demo_encoder"
        wanted.composes |= rule in ("composed_clips", "composed_queries")
    return wanted


_CORPUS = re.compile(r"manifests/(?P<collection>[^/]+(?:/whole)?)/(?P<suite>[^/]+)/videos\.parquet")
_TEXTS = re.compile(r"manifests/(?P<dataset>[^/]+)/(?P<suite>[^/]+)/captions\.parquet")
_CHECKED = re.compile(r"work/(?P<collection>[^/]+(?:/whole)?)/[^/]+/checked\.txt")
_CHECKED_CAPTIONS = re.compile(r"work/(?P<dataset>[^/]+)/captions_checked\.txt")
_RESULTS = re.compile(r"manifests/(?P<dataset>[^/]+)/(?P<kind>adaptation|evaluation)/(?P<model>[^/]+)/results\.parquet")
_COMPOSED = re.compile(r"manifests/(?P<dataset>[^/]+)/composed/results\.parquet")
_PART = re.compile(r"work/(.+?)/([a-z][a-z0-9_]*)/([A-Za-z0-9_]+)/([0-9]+)/(s[0-9a-f]+)\.parquet")

_CAPTION_PART = re.compile(r"work/(.+?)/([a-z][a-z0-9_]*)/captions/([A-Za-z0-9_]+)/([0-9]+)/(s[0-9a-f]+)\.parquet")


def of_files(config: configuration.Config, files: Iterable[str], plans: Plans, shards: CaptionShards) -> Wanted:
    """What targets' files need that does not exist yet. Raises `PerturbationError` as planning does."""
    wanted = Wanted()
    parts: set[str] = set()
    for file in files:
        if match := _CORPUS.fullmatch(file):
            collection = match["collection"]
            parts.update(paths.video_parts(config, collection, match["suite"], plans(collection).shards))
        elif match := _RESULTS.fullmatch(file):
            wanted.evaluates = True
            if (own := evaluation.models(config).get(match["model"])) is not None:
                parts.update(_asked(own, match["dataset"], match["kind"], plans, shards, wanted))
        elif match := _COMPOSED.fullmatch(file):
            wanted.evaluates = wanted.composes = True
            dataset = match["dataset"]
            shifts = {scenario.clips for scenario in composed.scenarios(config, dataset) if scenario.clips is not None}
            names = [f"work/{dataset}/{shift.suite}/{shift.part}" for shift in shifts]
            parts.update(f"{name}/{shard}.parquet" for name in names for shard in plans(dataset).shards)
        elif match := _TEXTS.fullmatch(file):
            parts.update(paths.text_parts(config, match["dataset"], match["suite"], shards(match["dataset"])))
        elif match := _CHECKED.fullmatch(file):
            wanted.checked.add(match["collection"])
        elif match := _CHECKED_CAPTIONS.fullmatch(file):
            wanted.checked_captions.add(match["dataset"])
    for part in sorted(parts):
        match = _CAPTION_PART.fullmatch(part) or _PART.fullmatch(part)
        if match is None or Path(part).exists():
            continue
        collection, suite, name, severity, shard = match.groups()
        if match.re is _PART:
            wanted.videos.add(VideoJob(collection, suite, name, int(severity), shard))
        else:
            wanted.captions.add(CaptionJob(collection, suite, name, int(severity), shard))
    _add_needed(config, wanted, plans)
    return wanted


def _asked(
    config: configuration.Config, dataset: str, kind: str, plans: Plans, shards: CaptionShards, wanted: Wanted
) -> Iterator[str]:
    """The parts of perturbed clips and captions that an evaluation asks with, and all of a corpus that it mixes."""
    key, folder = evaluation.model_key(config), evaluation_paths.parts_folder(config, dataset)
    for job in evaluation.jobs(config, dataset):
        for group in evaluation_paths.groups(kind):
            inputs = evaluation_paths.inputs(config, dataset, job, group, plans, shards)
            if not Path(f"{folder}/{'/'.join(job)}/{group}.parquet").exists():
                wanted.evaluations.add(EvaluationJob(key, dataset, *job, group))
                encoded = [(dataset, file) for file in inputs["encoded"]]
                encoded += [(config.evaluation.bank or "", str(inputs["bank"]))] if "bank" in inputs else []
                missing = {
                    name for name, file in encoded if file.endswith("/clips.safetensors") and not Path(file).exists()
                }
                wanted.galleries |= missing
                wanted.checks_model |= not Path(evaluation_paths.checked(config)).exists()
                wanted.trains |= config.evaluation.pretrained is None and not _has_encoder()
            yield from inputs["clips"]
            yield from inputs["texts"]
            if inputs["mixes"]:
                yield from paths.video_parts(config, dataset, job[2], plans(dataset).shards)


def _has_encoder() -> bool:
    return Path(evaluation_paths.DEMO_ENCODER).exists()


def _add_needed(config: configuration.Config, wanted: Wanted, plans: Plans) -> None:
    """Add the clean clips and analyses that jobs of perturbed clips need."""
    for (collection, suite, name, severity), shards in wanted.scenarios.items():
        job = recipe.from_config(config, collection, suite, name, severity)
        needed = [(collection, shard) for shard in shards]
        if job.whole_videos:
            whole = sharding.whole(collection)
            needed += [(whole, shard) for shard in plans(whole).shards]
        if job.donors is not None:
            needed += [(job.donors[0], shard) for shard in plans(job.donors[0]).shards]
        analysis = job.analysis.analysis if job.analysis else None
        while analysis is not None:
            for place, shard in needed:
                if not place.endswith("/whole"):
                    wanted.analyses.add((place, analysis, shard))
            analysis = guides.analysis(analysis).after
        wanted.sources.update(needed)
    wanted.sources = {pair for pair in wanted.sources if not Path("work/{}/sources/{}.parquet".format(*pair)).exists()}
    wanted.analyses = {
        job for job in wanted.analyses if not Path("work/{}/analyses/{}/{}.parquet".format(*job)).exists()
    }
