# The code that needs Snakemake's own objects: wildcards, errors, output, and the path of the command `perturb`. All other
# computations of rules are functions of perturbations/plan/paths.py, evaluation_paths.py and targets.py.
import sys
from functools import cache
from pathlib import Path

from snakemake.settings.types import DeploymentMethod


wildcard_constraints:
    dataset="[a-z][a-z0-9_]*(/whole)?",
    suite="[a-z][a-z0-9_]*",
    perturbation="[A-Za-z0-9_]+",
    severity="[1-9][0-9]*",
    shard="s[0-9a-f]+",
    analysis="|".join(paths.ANALYSES),
    direction="v2t|t2v",
    level="[a-z0-9_]+",
    group="|".join(evaluation.GROUPS),
    kind="|".join(evaluation_paths.KINDS),


def planned(function, *arguments):
    """The result of a planning function. A mistake of the user stops Snakemake with one message."""
    try:
        return function(*arguments)
    except PerturbationError as error:
        raise WorkflowError(shown.lines(str(error))) from None


planned(paths.without_braces, "the working directory", Path.cwd())

# Every value in a command is quoted (`{params.x:q}`; a list item by item). Values from config.yaml are passed through a
# function, because Snakemake reads braces in a plain string of `params` as wildcards.
# With conda, the command is in the rule's environment; otherwise it is next to the Python that runs Snakemake.
if DeploymentMethod.CONDA not in workflow.deployment_settings.deployment_method:
    shell.prefix(paths.shell_prefix(Path(sys.executable)))

# Limits decide when a file is given up, but never change a result. So jobs read them from the environment, not from params.
limits.use(limits.parse(CONFIG.limits.model_dump_json()))


# Snakemake calls these functions once per job, and many jobs share their results.
@cache
def plan_of(collection):
    return planned(paths.plan, CONFIG, collection)


@cache
def caption_shards(dataset):
    return planned(paths.caption_shards, CONFIG, dataset)


@cache
def scenario_recipe(collection, suite, perturbation, severity):
    return planned(recipe.from_config, CONFIG, collection, suite, perturbation, int(severity))


@cache
def reported():
    return evaluation_paths.reported(CONFIG, workflow.dag_settings.targets)


@cache
def say(line):
    print(line, file=sys.stderr)


def files_of(target):
    """An input function: the files of a target."""

    def files(wildcards):
        work = planned(target.request)
        for line in work.sizes:
            say(line)
        return work.files

    return files


def describe(target):
    """Give a target its line in `snakemake --list-target-rules`."""
    workflow.get_rule(target.name).docstring = target.text


def shards_of(wildcards):
    return plan_of(wildcards.dataset).shards


def dataset_of(wildcards):
    return sharding.dataset_of(wildcards.dataset)


def recipe_of(wildcards):
    return scenario_recipe(
        wildcards.dataset, wildcards.suite, wildcards.perturbation, wildcards.severity
    )


def job_of(wildcards):
    return wildcards.direction, wildcards.corpus, wildcards.level


def composed_job_of(wildcards):
    return wildcards.corpus, wildcards.level


def check_before():
    """Before the first job: what cannot succeed stops the run, with one message. `--no-hooks` leaves it out."""
    if workflow.touch:
        return
    from perturbations.engine import preflight

    jobs = [(job.rule.name, job.wildcards_dict) for job in workflow.dag.needrun_jobs()]
    uses_conda = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
    cores = workflow.cores if workflow.local_exec else None
    local = workflow.local_exec and not uses_conda
    summary = planned(preflight.check, CONFIG, preflight_jobs.of_jobs(jobs), cores, local)
    for line in summary.text():
        say(shown.line(line))
    planned(summary.raise_errors)
