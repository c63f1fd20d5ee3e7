# What the rules share: the plan of each dataset, paths, and how jobs find the command `perturb`.
import shlex
import sys
from functools import cache
from pathlib import Path

from snakemake.settings.types import DeploymentMethod


wildcard_constraints:
    dataset="[a-z][a-z0-9_]*",
    suite="[a-z][a-z0-9_]*",
    perturbation="[a-z0-9_]+",
    severity="[1-9][0-9]*",
    shard="s[0-9a-f]+",
    analysis="motion|main_object|embedding|caption_embedding",


# With conda the command is in the rule's environment, otherwise beside the Python that runs Snakemake.
if DeploymentMethod.CONDA not in workflow.deployment_settings.deployment_method:
    shell.prefix(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")


@cache
def plan_of(dataset):
    """The shards of a dataset. Made when a target needs them, so that other datasets cost nothing."""
    try:
        configuration.check_backend_files(CONFIG.backends)
        return plan.make(dataset, CONFIG, Path("work") / dataset)
    except PerturbationError as error:
        raise WorkflowError(str(error)) from None


def corpus_of(suite, dataset):
    """An input function: every manifest of one suite on one dataset."""

    def files(wildcards):
        plan_of(dataset)
        check_calibration(suite, dataset)
        folder = f"manifests/{dataset}"
        return main_objects_of(suite, dataset) + [
            f"{folder}/sources.parquet",
            f"{folder}/captions.parquet",
            f"{folder}/qrels.parquet",
            f"{folder}/{suite}/videos.parquet",
            f"{folder}/{suite}/quarantine.parquet",
            f"{folder}/{suite}/mixed_severity.parquet",
            f"{folder}/{suite}/mixed_types.parquet",
            f"{folder}/{suite}/preview.png",
            f"work/{dataset}/{suite}/checked.txt",
        ]

    return files


def recipe_of(wildcards):
    """The recipe of a job's perturbation and severity."""
    severity = int(wildcards.severity)
    return recipe.from_config(
        CONFIG, wildcards.dataset, wildcards.suite, wildcards.perturbation, severity
    )


def analysis_part(wildcards):
    """The shard's part of the analysis that a perturbation needs."""
    analysis = recipe.analysis_of(recipe_of(wildcards))
    if analysis is None:
        return []
    return f"work/{{dataset}}/analyses/{analysis['analysis']}/{{shard}}.parquet"


def donors_index(wildcards):
    """The clips that a perturbation may take segments from."""
    corpus = recipe.donor_corpus(recipe_of(wildcards))
    return [] if corpus is None else f"manifests/{corpus}/embedding.parquet"


def main_objects_of(suite, dataset):
    """The list of main objects, where a suite looks for them, with its picture."""
    if not any(
        registry.get(f"{suite}/{name}").guide == "main_object"
        for name, _ in recipe.scenarios(CONFIG, suite)
    ):
        return []
    return [f"manifests/{dataset}/main_object.parquet", f"manifests/{dataset}/main_object.png"]


def analysis_memory_mb(analysis):
    """What a job of an analysis needs: a pretrained model's weights, or next to nothing."""
    sizes = {"main_object": 24000, "embedding": 4000, "caption_embedding": 4000}
    role = "main_object" if analysis == "main_object" else "embedding"
    pretrained = getattr(CONFIG.backends, role).backend == "pretrained"
    return sizes[analysis] if pretrained and analysis in sizes else 1000


def describe(rule_name, text):
    """Give a target its line in `snakemake --list-target-rules`."""
    workflow.get_rule(rule_name).docstring = text


def menu_entry(suite, dataset):
    scenarios = recipe.scenarios(CONFIG, suite)
    names = dict.fromkeys(name for name, _ in scenarios)
    severities = sorted({severity for _, severity in scenarios})
    return (
        f"{len(names)} perturbations of {suite} x severities {', '.join(map(str, severities))} "
        f"on the dataset `{dataset}` ({CONFIG.datasets[dataset].adapter})"
    )
