"""What the rules of an evaluation need: the inputs, options and resources of its jobs, and what the report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from perturbations.errors import ConfigError
from perturbations.plan import config as configuration
from perturbations.plan import evaluation
from perturbations.plan.paths import CaptionShards, Inputs, Plans, options, without_braces

DEMO_ENCODER = "work/demo_encoder"
"""The encoder that the workflow trains when no pretrained model is configured."""

KINDS = ("adaptation", "evaluation")
"""What `tta_<dataset>` and `evaluate_<dataset>` make; an adaptation includes the model without adaptation."""


def groups(kind: str) -> tuple[str, ...]:
    """The groups of methods that the jobs of one of `KINDS` run."""
    return (evaluation.AS_IT_IS,) if kind == "evaluation" else evaluation.GROUPS


def result_parts(config: configuration.Config, dataset: str, kind: str, ending: str = "parquet") -> list[str]:
    """What the jobs of one of `KINDS` write: one file per job and group of methods."""
    return [
        f"work/{dataset}/evaluation/{'/'.join(job)}/{group}.{ending}"
        for job in evaluation.jobs(config, dataset)
        for group in groups(kind)
    ]


def model_inputs(config: configuration.Config) -> Inputs:
    """The files that a model is loaded from. Raises `ConfigError` for a checkpoint with braces in its name."""
    inputs: Inputs = {}
    if config.evaluation.pretrained is None:
        inputs["pretrained"] = DEMO_ENCODER
    if config.evaluation.checkpoint is not None:
        inputs["checkpoint"] = without_braces("evaluation.checkpoint", config.evaluation.checkpoint)
    return inputs


def model_options(config: configuration.Config) -> list[str]:
    """The model's files as options of a command."""
    wanted = config.evaluation
    checkpoint = [f"--checkpoint={wanted.checkpoint}"] if wanted.checkpoint else []
    return [f"--pretrained={wanted.pretrained or DEMO_ENCODER}", *checkpoint]


def gallery(dataset: str) -> str:
    """The encoded clean clips of a dataset."""
    return f"work/{dataset}/evaluation/gallery.safetensors"


def inputs(
    config: configuration.Config,
    dataset: str,
    job: evaluation.Job,
    group: str,
    plans: Plans,
    caption_shards: CaptionShards,
) -> Inputs:
    """The inputs of a job: the model, the queries, the gallery and the bank. Raises `ConfigError`."""
    direction, suite, _ = job
    scenarios = evaluation.jobs(config, dataset).get(job)
    if scenarios is None:
        raise ConfigError(f"config.yaml asks for no evaluation {'/'.join(job)} of {dataset}")
    perturbed = [scenario for scenario in scenarios if scenario.suite != evaluation.CLEAN and scenario.mix is None]
    mixes = {scenario.mix for scenario in scenarios if scenario.mix is not None}
    folder = query_parts(dataset, direction, suite)
    named: Inputs = {
        "sources": f"manifests/{dataset}/sources.parquet",
        "captions": f"manifests/{dataset}/captions.parquet",
        **model_inputs(config),
        "parts": [
            f"{folder}/{scenario.perturbation}/{scenario.severity}/{shard}.parquet"
            for scenario in perturbed
            for shard in (caption_shards(dataset) if direction == "t2v" else plans(dataset).shards)
        ],
        "mixes": sorted(f"manifests/{dataset}/{suite}/{mix}.parquet" for mix in mixes),
    }
    if direction == "t2v":
        named["gallery"] = gallery(dataset)
    return named | bank_inputs(config, direction, group)


def bank_inputs(config: configuration.Config, direction: str, group: str) -> Inputs:
    """The training queries of a method that needs them."""
    bank = config.evaluation.bank
    if bank is None or not evaluation.needs_bank(config, group):
        return {}
    if direction == "t2v":
        return {"bank_captions": f"manifests/{bank}/captions.parquet"}
    return {"bank_gallery": gallery(bank)}


def query_parts(dataset: str, direction: str, suite: str) -> str:
    """The folder of the parts that hold a suite's perturbed queries."""
    return f"work/{dataset}/{suite}/captions" if direction == "t2v" else f"work/{dataset}/{suite}"


def query_options(dataset: str, job: Sequence[str], named: Mapping[str, str | Sequence[str]]) -> list[str]:
    """The options that tell a job where its queries, gallery and bank are; `named` holds the job's inputs by name."""
    direction, suite, _ = job
    places: Inputs = {}
    if named["parts"]:
        places["parts"] = query_parts(dataset, direction, suite)
        places["shards"] = f"work/{dataset}/{'captions' if direction == 't2v' else 'shards'}"
    if named["mixes"]:
        places["mixes"] = f"manifests/{dataset}/{suite}"
    optional = {name: named[name] for name in ("gallery", "bank_captions", "bank_gallery") if name in named}
    return options({**places, **optional})


def gpus(config: configuration.Config) -> int:
    """How many GPUs a job takes."""
    return 1 if config.evaluation.device.startswith("cuda") else 0


def readers(config: configuration.Config) -> int:
    """How many threads a job takes.

    On a GPU, several threads decode, so that the GPU does not wait for one core. On a CPU, the model uses the cores
    itself, one job per core.
    """
    return 8 if gpus(config) else 1


def reported(config: configuration.Config) -> list[tuple[str, str]]:
    """The (dataset, kind) pairs whose results the report shows.

    These are the results that exist now (the adaptation where a dataset has both kinds). Without any results, it is
    the adaptation of the first dataset.
    """
    pairs = []
    for dataset in config.datasets:
        kinds = [kind for kind in KINDS if Path(f"manifests/{dataset}/{kind}/results.parquet").exists()]
        pairs += [(dataset, kind) for kind in kinds[:1]]
    return pairs or [(next(iter(config.datasets)), "adaptation")]


def report_results(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """The manifests of results that the report shows."""
    return [f"manifests/{dataset}/{kind}/results.parquet" for dataset, kind in pairs]


def report_pictures(config: configuration.Config, pairs: Sequence[tuple[str, str]]) -> list[str]:
    """The files from which the report draws its pictures."""
    return [part for dataset, kind in pairs for part in result_parts(config, dataset, kind, "pictures.json")]
