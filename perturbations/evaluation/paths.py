"""What the rules of an evaluation need: the inputs, options and resources of its jobs, and what the report shows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from perturbations.base import features
from perturbations.base.errors import ConfigError
from perturbations.config import sections as configuration
from perturbations.evaluation import planning as evaluation
from perturbations.evaluation.layout import KINDS as KINDS
from perturbations.evaluation.protocols import registry as protocols
from perturbations.manifest import layout
from perturbations.manifest.skipped import as_json
from perturbations.plan import caption_recipes, recipe
from perturbations.plan.extension import CaptionShards, ClipScenario, Plans, Target, TargetWork
from perturbations.plan.paths import Inputs, clip_inputs, of_shards, without_braces
from perturbations.plan.targets import skipped_lines, whole_collections


def groups_of(config: configuration.Config, kind: str) -> list[str]:
    """The groups of methods that the jobs of one of `KINDS` run."""
    return [*evaluation.groups(config, unadapted=kind == "evaluation")]


def skipped(config: configuration.Config, dataset: str) -> str:
    """What an evaluation leaves out of the perturbed captions, as JSON: perturbations by `suite/name`."""
    return as_json(
        replace(entry, perturbation=f"{suite}/{entry.perturbation}")
        for suite in evaluation.caption_suites(config)
        for entry in caption_recipes.skipped(config, dataset, suite)
    )


def result_parts(config: configuration.Config, dataset: str, kind: str) -> list[str]:
    """The results that the jobs of one of `KINDS` write: one file per job."""
    names = {"dataset": dataset, "model": evaluation.model_key(config)}
    return [
        layout.at("evaluation_part", direction=direction, side=side, corpus=corpus, level=level, group=group, **names)
        for group in groups_of(config, kind)
        for direction, side, corpus, level in evaluation.jobs(config, dataset)
    ]


def encoder(config: configuration.Config) -> str:
    """The encoder that the workflow trains when no model is configured. Raises `ConfigError` where it trains none."""
    kind = features.only(feature.encoder for feature in features.features().values())
    if kind is None:
        key = "evaluation.pretrained"
        raise ConfigError(config.places.before(key, f"{key}: name a model; this installation trains no small encoder"))
    return layout.at(kind)


def model_inputs(config: configuration.Config) -> Inputs:
    """The files that a model is loaded from. Raises `ConfigError` for a checkpoint with braces in its name."""
    inputs: Inputs = {}
    if config.evaluation.pretrained is None:
        inputs["pretrained"] = encoder(config)
    if config.evaluation.checkpoint is not None:
        inputs["checkpoint"] = without_braces("evaluation.checkpoint", config.evaluation.checkpoint)
    return inputs


def _encoded(config: configuration.Config, dataset: str, modality: str) -> str:
    """The clean clips or captions of a dataset, encoded by the configured model."""
    return layout.at("encoded", dataset=dataset, model=evaluation.model_key(config), modality=modality)


def encoded_inputs(dataset: str, modality: str) -> Inputs:
    """The manifests that the clean clips or captions of a dataset are read from."""
    named: Inputs = {"sources": layout.at("sources", dataset=dataset)}
    return named | ({"captions": layout.at("captions", dataset=dataset)} if modality == "captions" else {})


def inputs(
    config: configuration.Config,
    dataset: str,
    job: evaluation.JobKey,
    group: str,
    plans: Plans,
    caption_shards: CaptionShards,
) -> Inputs:
    """The inputs of a job besides the clean rows: what is perturbed or encoded, and banks. Raises `ConfigError`."""
    direction, side, suite, _ = job
    scenarios = evaluation.of_job(config, dataset, job)
    members = evaluation.group_of(config, group)
    seed = members.seed
    mixes = {scenario.mix for scenario in scenarios if scenario.mix is not None}
    named: Inputs = {
        **model_inputs(config),
        "clips": [],
        "texts": [],
        "mixes": sorted(
            {
                layout.at("videos" if evaluation.is_drawn(mix, seed) else mix, dataset=dataset, suite=suite)
                for mix in mixes
            }
        ),
    }
    plain = [scenario for scenario in scenarios if scenario.mix is None]
    if evaluation.perturbs("clips", direction, side):
        parts = dict.fromkeys((scenario.perturbation, scenario.severity) for scenario in plain)
        shards = plans(dataset).shards if parts else ()
        named["clips"] = clip_inputs(config, dataset, suite, parts, shards)
    if evaluation.perturbs("captions", direction, side):
        named["texts"] = of_shards("text_marker", dataset, caption_shards(dataset), suite=suite)
    clean = [name for name in evaluation.MODALITIES if not evaluation.perturbs(name, direction, side)]
    asks: evaluation.Modality = "clips" if direction == "v2t" else "captions"
    if side == "none":  # clean queries are encoded as perturbed ones are, so that their time is measured
        clean.remove(asks)
    named["encoded"] = [_encoded(config, dataset, name) for name in clean]
    answers: evaluation.Modality = "captions" if asks == "clips" else "clips"
    of_queries, of_gallery = members.banks
    if of_queries:
        named["bank"] = _encoded(config, of_queries, asks)
    if of_gallery:
        named["gallery_bank"] = _encoded(config, of_gallery, answers)
    return named


def asking_places(
    config: configuration.Config, dataset: str, suite: str, named: Mapping[str, str | Sequence[str]]
) -> dict[str, str]:
    """Where a job finds its perturbed rows and what is encoded; `named` holds the job's inputs by name."""
    places = {}
    if named["clips"]:
        places["parts"] = layout.folder("video_recipes", dataset=dataset, suite=suite)
        places["shards"] = layout.folder("shard_list", dataset=dataset)
    if named["texts"]:
        places["text_parts"] = layout.folder("text_recipes", dataset=dataset, suite=suite)
        places["text_shards"] = layout.folder("caption_list", dataset=dataset)
    if named["mixes"]:
        places["mixes"] = layout.folder("videos", dataset=dataset, suite=suite)
    encoded = {f"encoded_{Path(path).stem}": path for path in named["encoded"]}
    encoded |= {name: str(path) for name, path in named.items() if name in ("bank", "gallery_bank")}
    return {**places, **{name: os.path.relpath(path, config.at("")) for name, path in encoded.items()}}


def gpus(config: configuration.Config) -> int:
    """How many GPUs a job takes."""
    return 1 if config.evaluation.device.startswith("cuda") else 0


def gpu_share(config: configuration.Config) -> int:
    """How many percent of a GPU a job takes."""
    return gpus(config) * 100 // int(config.evaluation.jobs_per_gpu)


def readers(config: configuration.Config) -> int:
    """How many threads a job takes.

    On a GPU, several threads decode, so that the GPU does not wait for one core. On a CPU, the model uses the cores
    itself, one job per core.
    """
    return 8 if gpus(config) else 1


@dataclass(frozen=True)
class Reported:
    """Results that the report shows, of one of `KINDS`, of the configured model or of another one."""

    dataset: str
    kind: str
    model_key: str

    @property
    def results(self) -> str:
        """The manifest of results."""
        return layout.at("results", dataset=self.dataset, kind=self.kind, model=self.model_key)

    @property
    def ranks(self) -> str:
        """The manifest of the ranks of its queries."""
        return layout.at("ranks", dataset=self.dataset, kind=self.kind, model=self.model_key)


_TARGETS = {"adaptation": "tta_{}", "evaluation": "evaluate_{}"}
"""The targets that make each of `KINDS`."""


def reported(config: configuration.Config, requested: Collection[str] = (), *, others: bool = False) -> list[Reported]:
    """The results that the report shows.

    These are those that exist, of every model, and those that are made in the same run (`requested`: names of targets,
    or files). Of a dataset and model that have both kinds it is the adaptation. Without any, and without `others` on
    the page, it is the adaptation of the first dataset.
    """
    configured = list(evaluation.models(config))
    shown = []
    for dataset in config.datasets:
        kinds: dict[str, str] = {}
        for kind in reversed(KINDS):  # an adaptation replaces an evaluation
            kinds |= {
                path.parent.name: kind
                for path in config.at("").glob(layout.any_of("results", dataset=dataset, kind=kind))
            }
            for key in configured:
                own = Reported(dataset, kind, key)
                if _TARGETS[kind].format(dataset) in requested or str(config.at(own.results)) in requested:
                    kinds[key] = kind
        shown += [Reported(dataset, kind, model_key) for model_key, kind in sorted(kinds.items())]
    if shown or others:
        return shown
    return [Reported(next(iter(config.datasets)), "adaptation", key) for key in configured]


def report_ranks(config: configuration.Config, shown: Sequence[Reported]) -> list[str]:
    """The manifests of ranks that the report takes its intervals from.

    Results that lie there without ranks are not evaluated again for them.
    """
    return [entry.ranks for entry in shown if config.at(entry.ranks).exists() or not config.at(entry.results).exists()]


def protocol_settings(config: configuration.Config) -> dict[str, object]:
    """Which published protocol the configuration follows, for the merging of results."""
    name = config.evaluation.protocol
    return {} if name is None else {"protocol": name}


# --- targets ----------------------------------------------------------------------------------------------------------


def menu(config: configuration.Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    """Two targets per dataset: without and with adaptation."""
    for dataset in config.datasets:
        text = f"retrieval with perturbed queries, on the dataset `{dataset}`"
        yield Target(f"evaluate_{dataset}", text, partial(results, config, dataset, "evaluation", plans))
        text = "retrieval with perturbed queries, without and with test-time adaptation"
        request = partial(results, config, dataset, "adaptation", plans)
        yield Target(f"tta_{dataset}", f"{text}, on the dataset `{dataset}`", request)


def results(config: configuration.Config, dataset: str, kind: str, plans: Plans) -> TargetWork:
    """The results of every model on a dataset, without (`evaluation`) or with (`adaptation`) adapting.

    Raises `ConfigError` where a dataset other than the demo's lacks what the configured protocol needs.
    """
    plans(dataset)
    models = evaluation.models(config)
    protocol = config.evaluation.protocol
    if protocol is not None and config.datasets[dataset].adapter != "demo":
        donors = config.datasets[dataset].donors
        videos = {suite: config.suites[suite].perturbations for suite in evaluation.video_suites(config)}
        lacking = [
            line
            for own in models.values()
            for line in protocols.lacking(protocol, own.evaluation.model_dump(mode="json"), dataset, donors, videos)
        ]
        if lacking:
            raise ConfigError(
                "\n".join(dict.fromkeys(config.places.before("evaluation.protocol", line) for line in lacking))
            )
    scenarios = Counter(scenario.side for scenario in evaluation.scenarios(config, dataset))
    of_models = [len(own.evaluation.method_settings()) if kind == "adaptation" else 1 for own in models.values()]
    runs = scenarios.total() * sum(of_models) * len(config.evaluation.seeds)
    methods = " to ".join(map(str, sorted({min(of_models), max(of_models)})))
    sides = ", ".join(f"{count} {'clean' if side == 'none' else side}" for side, count in scenarios.items())
    several = f" x {len(models)} models" if len(models) > 1 else ""
    sizes = [
        f"{kind} on {dataset}: {scenarios.total()} scenarios ({sides}) x {methods} methods{several} = {runs:,} runs"
    ]
    sizes += evaluation.other_severities(config, dataset)
    sizes += [line for suite in evaluation.caption_suites(config) for line in skipped_lines(config, suite, dataset)]
    reported = [Reported(dataset, kind, key) for key in models]
    return TargetWork(
        [path for own in reported for path in (own.results, own.ranks)],
        tuple(sizes),
        clips=tuple(_clips(config, dataset)),
        captions=tuple(
            (dataset, scenario.suite)
            for scenario in evaluation.scenarios(config, dataset)
            if evaluation.perturbs("captions", scenario.direction, scenario.side)
        ),
        rules=("evaluate",),
    )


def _clips(config: configuration.Config, dataset: str) -> Iterator[ClipScenario]:
    """The perturbed clips that a dataset's evaluations read; a mix takes all clips of its corpus."""
    for scenario in evaluation.scenarios(config, dataset):
        if scenario.mix is None and not evaluation.perturbs("clips", scenario.direction, scenario.side):
            continue
        own = [(scenario.perturbation, scenario.severity)]
        pairs = own if scenario.mix is None else recipe.scenarios(config, scenario.suite)
        for collection in (dataset, *whole_collections(config, scenario.suite, dataset)):
            yield from ((collection, scenario.suite, name, severity) for name, severity in pairs if severity)
