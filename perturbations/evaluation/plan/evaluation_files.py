"""The files of an evaluation: its jobs and their inputs, the results on the page, and the targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from perturbations.base import storage
from perturbations.base.errors import ConfigError
from perturbations.base.shown import plural
from perturbations.composed.sources import check, gives_splits
from perturbations.config import sections as configuration
from perturbations.corpus.plan import caption_recipes, recipe, sharding
from perturbations.corpus.plan.folders import Inputs, clip_inputs, of_shards, without_braces
from perturbations.corpus.plan.targets import (
    CaptionShards,
    ClipScenario,
    Plans,
    Target,
    TargetWork,
    no_captions,
    skipped_lines,
    together,
    whole_collections,
)
from perturbations.datasets.adapter_registry import Dataset
from perturbations.evaluation.plan import composed_runs, planned_runs
from perturbations.evaluation.published import protocols
from perturbations.evaluation.result_rows import COMPOSED, Run, ranks_of
from perturbations.manifest import manifest_paths
from perturbations.manifest.skipped import Skipped


def skipped(config: configuration.Config, dataset: str) -> list[Skipped]:
    """The caption perturbations that an evaluation leaves out, by `suite/name`."""
    return [
        {**entry, "perturbation": f"{suite}/{entry['perturbation']}"}
        for suite in planned_runs.suites_of(config, "captions")
        for entry in caption_recipes.skipped(config, dataset, suite)
    ]


def jobs(config: configuration.Config, dataset: str, kind: str) -> dict[str, list[Run]]:
    """The runs of each job of a kind (`KINDS`), by the job's name, "v2t/query/mlvp/low/adaptation".

    The configuration is of one model.

    The jobs of a place share their journals: a job of another kind, or with a further method, makes only missing runs.
    """
    is_composed = kind == COMPOSED
    planned = composed_runs.scenarios(config, dataset) if is_composed else planned_runs.runs(config, dataset, kind)
    by_job: dict[str, list[Run]] = {}
    for run in planned:
        by_job.setdefault(f"{planned_runs.place_of(run)}/{kind}", []).append(run)
    return by_job


def result_parts(config: configuration.Config, dataset: str, jobs: Iterable[str]) -> list[str]:
    """The results that jobs write: one file per job."""
    key = planned_runs.model_key(config)
    return [manifest_paths.at("evaluation_part", dataset=dataset, model=key, job=job) for job in jobs]


def model_inputs(config: configuration.Config) -> Inputs:
    """The files that a model is loaded from. Raises `ConfigError` for a checkpoint with braces in its name."""
    inputs: Inputs = {}
    if config.evaluation.model is None:
        inputs["model"] = manifest_paths.at("demo_encoder")  # the demo's encoder, which the workflow trains
    if config.evaluation.checkpoint is not None:
        inputs["checkpoint"] = without_braces("evaluation.checkpoint", config.evaluation.checkpoint)
    return inputs


def job_inputs(
    config: configuration.Config, runs: Sequence[Run], plans: Plans, caption_shards: CaptionShards
) -> Inputs:
    """The inputs of a job by name: the model, what is perturbed, what is encoded, and banks, or a composed split."""
    dataset, key, is_composed = runs[0].dataset, runs[0].model_key, runs[0].direction == COMPOSED
    captioned = sharding.composed(dataset) if is_composed else dataset
    banks = {} if is_composed else planned_runs.banks_of(config, runs)
    clips: dict[str, dict[tuple[str, int | None], None]] = {}
    texts: dict[str, None] = {}
    mixes: set[str] = set()
    for run in runs:
        of_clips, of_texts = planned_runs.halves(run)
        if run.mix is not None:
            kind = "videos" if planned_runs.is_drawn(run.mix, run.seed) else run.mix
            mixes.add(manifest_paths.at(kind, dataset=dataset, suite=run.suite))
        elif of_clips is not None:
            suite, name, severity = of_clips
            clips.setdefault(suite, {})[name, severity] = None
        if of_texts is not None:
            texts[of_texts[0]] = None
    named: Inputs = {
        "captions": [] if is_composed else manifest_paths.at("captions", dataset=dataset),
        "clips": [
            path
            for suite, pairs in clips.items()
            for path in clip_inputs(config, dataset, suite, pairs, plans(dataset).shards)
        ],
        "texts": [
            path
            for suite in texts
            for path in of_shards("text_marker", captioned, caption_shards(captioned), suite=suite)
        ],
        "mixes": sorted(mixes),
        "encoded": [
            manifest_paths.at("encoded", dataset=collection, model=key, modality=modality)
            for collection, modality in planned_runs.features_of(runs, banks).values()
        ],
    }
    return (named | {"split": composed_runs.split_files(dataset)} if is_composed else named) | model_inputs(config)


_TARGETS = {"adaptation": "tta_{}", "evaluation": "evaluate_{}", COMPOSED: "composed_{}"}
"""The targets that make each of `KINDS`."""


def _results(dataset: str, kind: str, key: str) -> str:
    return manifest_paths.at("results", dataset=dataset, kind=kind, model=key)


def _ranks_beside(results: str) -> str:
    return str(Path(results).with_name(manifest_paths.name("ranks")))


def reported(config: configuration.Config, requested: Collection[str] = ()) -> list[str]:
    """The manifests of results that the report shows.

    These are the results that exist, of every model, and those that the same run makes (`requested`: names of targets,
    or files). Where a dataset and model have an adaptation and an evaluation, the adaptation is shown. Without any
    results, it is the adaptation of the first dataset.
    """
    configured = list(planned_runs.models(config))
    shown = []
    for dataset in config.datasets:
        of_kinds: dict[str, set[str]] = {}
        for kind, target in _TARGETS.items():
            there = config.at("").glob(manifest_paths.any_of("results", dataset=dataset, kind=kind))
            of_kinds[kind] = {path.parent.name for path in there} | {
                key
                for key in configured
                if target.format(dataset) in requested or str(config.at(_results(dataset, kind, key))) in requested
            }
        of_kinds["evaluation"] -= of_kinds["adaptation"]  # the adaptation includes the evaluation
        adapted = sorted((key, kind) for kind in ("adaptation", "evaluation") for key in of_kinds[kind])
        shown += [_results(dataset, kind, key) for key, kind in adapted]
        shown += [_results(dataset, COMPOSED, key) for key in sorted(of_kinds[COMPOSED])]
    return shown or [_results(next(iter(config.datasets)), "adaptation", key) for key in configured]


def report_ranks(config: configuration.Config, shown: Sequence[str]) -> list[str]:
    """The manifests of ranks that the report takes its intervals from, beside those of results.

    Existing results without ranks are not evaluated again for the ranks.
    """
    beside = {results: _ranks_beside(results) for results in shown}
    return [ranks for results, ranks in beside.items() if config.at(ranks).exists() or not config.at(results).exists()]


# --- targets ----------------------------------------------------------------------------------------------------------


def menu(config: configuration.Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    """Two targets per dataset, without and with adaptation, those of composed retrieval, and the page of results."""
    of_corpora = plans, caption_shards
    for dataset in config.datasets:
        text = f"retrieval with perturbed queries, on the dataset `{dataset}`"
        yield f"evaluate_{dataset}", text, partial(results, config, dataset, "evaluation", *of_corpora)
        text = "retrieval with perturbed queries, without and with test-time adaptation"
        request = partial(results, config, dataset, "adaptation", *of_corpora)
        yield f"tta_{dataset}", f"{text}, on the dataset `{dataset}`", request
    text = "composed retrieval on every dataset of the adapter `egocvr`"
    yield "egocvr", text, partial(_of_egocvr, config, *of_corpora)
    for name, settings in config.datasets.items():
        if gives_splits(settings.adapter):
            text = f"retrieval by a clip and an instruction, on the dataset `{name}`"
            yield f"composed_{name}", text, partial(_composed, config, name, *of_corpora)
    yield "report", "the page of all results", partial(_report, config, *of_corpora)


def _made_from(
    config: configuration.Config, dataset: str, kind: str, plans: Plans, caption_shards: CaptionShards
) -> list[str]:
    """The results of a model with all files that they are made from.

    Snakemake makes missing inputs of a target itself again, but not missing inputs of these inputs: otherwise results
    would stay as they are when a part was removed and its job failed.
    """
    key, by_job = planned_runs.model_key(config), jobs(config, dataset, kind)
    manifests, parts = _results(dataset, kind, key), result_parts(config, dataset, by_job)
    files = [manifests, _ranks_beside(manifests), *parts, *(str(ranks_of(Path(part))) for part in parts)]
    files.append(manifest_paths.at("checked_model", model=key))
    for runs in by_job.values():
        for path in job_inputs(config, runs, plans, caption_shards).values():
            files += [path] if isinstance(path, str) else path
    return list(dict.fromkeys(files))


def _report(config: configuration.Config, plans: Plans, caption_shards: CaptionShards) -> TargetWork:
    """The page of results, and the files from which existing results of this configuration are made."""
    models = planned_runs.models(config)
    files = [manifest_paths.at("results_page"), manifest_paths.at("results_tables")]
    for path in reported(config):
        _, own = manifest_paths.place_of(path) or ("", {})
        if config.at(path).exists() and own["model"] in models:
            files += _made_from(models[own["model"]], own["dataset"], own["kind"], plans, caption_shards)
    return TargetWork(files)


def _composed(config: configuration.Config, dataset: str, plans: Plans, caption_shards: CaptionShards) -> TargetWork:
    """A split for composed retrieval and its results by every model. Raises `ConfigError` where there is no split."""
    check(config, dataset)
    plans(dataset)
    runs = composed_runs.scenarios(config, dataset)
    size = ", ".join(f"{count} x {what}" for what, count in Counter(map(composed_runs.perturbed, runs)).items())
    own, suites = sharding.composed(dataset), composed_runs.text_suites(runs)
    files = [
        manifest_paths.at(name, dataset=own, suite=suite) for suite in suites for name in ("texts", "text_statistics")
    ]
    for alone in planned_runs.models(config).values():
        files += _made_from(alone, dataset, COMPOSED, plans, caption_shards)
    return TargetWork(
        [*composed_runs.split_files(dataset), *files],
        (f"composed retrieval on {dataset}, perturbed: {size}", *planned_runs.model_lines(config)),
        clips=tuple(_clips(config, runs)),
    )


def _of_egocvr(config: configuration.Config, plans: Plans, caption_shards: CaptionShards) -> TargetWork:
    names = [name for name, dataset in config.datasets.items() if dataset.adapter == "egocvr"]
    if not names:
        raise ConfigError("config.yaml has no dataset of the adapter 'egocvr'")
    return together([_composed(config, name, plans, caption_shards) for name in names])


def results(
    config: configuration.Config, dataset: str, kind: str, plans: Plans, caption_shards: CaptionShards
) -> TargetWork:
    """The results of every model on a dataset, without (`evaluation`) or with (`adaptation`) adapting.

    Raises `ConfigError` where nothing has a caption, or where a dataset other than the demo's lacks what the configured
    protocol needs.
    """
    models = planned_runs.models(config)
    _check_protocol(config, dataset)
    scenarios = planned_runs.scenarios(config, dataset)
    _check_captions(config, scenarios[0], plans, kind)
    sides = Counter(run.side for run in scenarios)
    of_models = [len(own.evaluation.method_settings()) if kind == "adaptation" else 1 for own in models.values()]
    runs = sides.total() * sum(of_models) * len(config.evaluation.seeds)
    methods = " to ".join(map(str, sorted({min(of_models), max(of_models)})))
    shown = ", ".join(f"{count} {'clean' if side == 'none' else side}" for side, count in sides.items())
    several = f" x {len(models)} models" if len(models) > 1 else ""
    number = f"{plural(sides.total(), 'scenario')} ({shown}) x {methods} method{'' if methods == '1' else 's'}{several}"
    sizes = [f"{kind} on {dataset}: {number} = {plural(runs, 'run')}"]
    sizes += planned_runs.other_severities(config, dataset)
    suites = planned_runs.suites_of(config, "captions")
    sizes += [line for suite in suites for line in skipped_lines(config, suite, dataset)]
    sizes += planned_runs.model_lines(config)
    return TargetWork(
        [path for own in models.values() for path in _made_from(own, dataset, kind, plans, caption_shards)],
        tuple(sizes),
        clips=tuple(_clips(config, scenarios)),
    )


def _check_protocol(config: configuration.Config, dataset: str) -> None:
    """Raise `ConfigError` where a dataset other than the demo's lacks what the configured protocol needs."""
    protocol = config.evaluation.protocol
    if protocol is None or config.datasets[dataset].adapter == "demo":
        return
    videos = {suite: config.suites[suite].perturbations for suite in planned_runs.suites_of(config, "clips")}
    listing = _listing(config.datasets[dataset])
    same = [name for name, own in config.datasets.items() if _listing(own) == listing]
    lacking = [
        line
        for own in planned_runs.models(config).values()
        for line in protocols.lacking(
            protocol, own.evaluation.model_dump(mode="json"), dataset, config.datasets[dataset].donors, videos, same
        )
    ]
    if lacking:
        raise ConfigError(
            "\n".join(dict.fromkeys(config.places.before("evaluation.protocol", line) for line in lacking))
        )


def _listing(dataset: Dataset) -> dict[str, Any]:
    """The settings that decide which items a dataset lists, without its name and the place of its files."""
    settings = dataset.model_dump(exclude={"donors", "max_failed_items", "language"})
    if dataset.annotations is not None:
        del settings["videos"]
    files = {name: path for name in ("annotations", "ids") if (path := settings[name]) is not None}
    return settings | {name: storage.sha256(path) if path.is_file() else path for name, path in files.items()}


def _check_captions(config: configuration.Config, run: Run, plans: Plans, kind: str) -> None:
    """Raise `ConfigError` where the evaluated dataset, or the dataset of a bank of captions, has no captions."""
    settings = [entry for own in planned_runs.models(config).values() for entry in own.evaluation.method_settings()]
    banks = planned_runs.banks_of(config, [planned_runs.by_method(run, entry, run.seed) for entry in settings])
    directions = {"bank": "t2v", "gallery_bank": "v2t"}  # directions in which a bank holds captions
    taken = [run.dataset]
    if kind == "adaptation":
        taken += [name for bank, name in banks.items() if directions[bank] in config.evaluation.directions]
    for name in taken:
        if not plans(name).captions:
            text = f"retrieval on {run.dataset} needs captions, and {no_captions(config, name)}"
            raise ConfigError(config.places.before(f"datasets.{name}.annotations", text))


def _clips(config: configuration.Config, runs: Iterable[Run]) -> Iterator[ClipScenario]:
    """The perturbed clips that evaluations read; a mix takes all clips of its corpus."""
    for run in runs:
        of_clips, _ = planned_runs.halves(run)
        if of_clips is None:
            continue
        suite, name, severity = of_clips
        pairs = [(name, severity)] if severity is not None else recipe.scenarios(config, suite)
        for collection in (run.dataset, *whole_collections(config, suite, run.dataset)):
            yield from ((collection, suite, *pair) for pair in pairs)
