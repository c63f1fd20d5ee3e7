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


# With conda the command is in the rule's environment, otherwise beside the Python that runs Snakemake.
if DeploymentMethod.CONDA not in workflow.deployment_settings.deployment_method:
    shell.prefix(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")


@cache
def plan_of(dataset):
    """The shards of a dataset. Made when a target needs them, so that other datasets cost nothing."""
    try:
        return plan.make(dataset, CONFIG, Path("work") / dataset)
    except PerturbationError as error:
        raise WorkflowError(str(error)) from None


def corpus_of(suite, dataset):
    """An input function: every manifest of one suite on one dataset."""

    def files(wildcards):
        plan_of(dataset)
        folder = f"manifests/{dataset}"
        return [
            f"{folder}/sources.parquet",
            f"{folder}/captions.parquet",
            f"{folder}/qrels.parquet",
            f"{folder}/{suite}/videos.parquet",
            f"{folder}/{suite}/quarantine.parquet",
            f"{folder}/{suite}/preview.png",
            f"work/{dataset}/{suite}/checked.txt",
        ]

    return files


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
