# The code that needs Snakemake's own objects: wildcards, errors, output, and the path of the command `perturb`. All other
# computations of rules are functions of perturbations/plan/paths.py, evaluation_paths.py and targets.py.
import os
import subprocess
import sys
from contextlib import chdir
from functools import cache
from pathlib import Path

from snakemake.logging import logger
from snakemake.settings.types import DeploymentMethod, ExecMode

from perturbations.system import console

# A dry run prints a table of jobs per rule, with -p every job. A run also prints how much time is left.
if workflow.output_settings.dryrun and not workflow.output_settings.printshellcmds:
    console.summarize(logger)
    print("Jobs per rule; -n -p lists every job.", file=sys.stderr)
elif workflow.exec_mode == ExecMode.DEFAULT:
    logger.addHandler(console.Estimate())


wildcard_constraints:
    dataset="[a-z][a-z0-9_]*(/whole)?",
    suite="[a-z][a-z0-9_]*",
    perturbation="[A-Za-z0-9_]+",
    severity="[1-9][0-9]*",
    shard="s[0-9a-f]+",
    analysis="|".join(paths.ANALYSES),
    direction="v2t|t2v",
    side="none|query|gallery|both",
    modality="|".join(evaluation.MODALITIES),
    model="|".join(evaluation.models(CONFIG)),
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
COMMAND_PATH = ""
if DeploymentMethod.CONDA not in workflow.deployment_settings.deployment_method:
    COMMAND_PATH = paths.shell_prefix(Path(sys.executable))
    shell.prefix(COMMAND_PATH)
else:
    os.environ.update(planned(project.environment) | os.environ)

# Below a module's `prefix`, jobs work in its folder, where all paths are as elsewhere.
if PREFIX.parts:
    planned(workplace.prepare_module, PREFIX)


def command(line):
    """A job's command, in the folder in which jobs work. `shell.prefix` would also move the user's own rules."""
    return workplace.enter(PREFIX) + line


# Limits decide when a file is given up, but never change a result. So jobs read them from the environment, not from params.
limits.use(limits.parse(CONFIG.limits.model_dump_json()))


# Runs in an object store (`--default-storage-provider`), whose jobs share no folder. They work in Snakemake's local copy of
# the store, where all paths are as in the store and elsewhere; what they need there is declared in addition to what other
# runs declare: list files, and per part one pack of its clips (perturbations/plan/store.py). Elsewhere nothing is added.
STORE = workflow.storage_registry.default_storage_provider
IN_STORE = STORE is not None
if IN_STORE and PREFIX.parts:
    raise WorkflowError(
        "A module's `prefix` and --default-storage-provider: give the folder in the storage's prefix."
    )
# The second output of a job that makes clips.
PACK_OF_SOURCES = {"pack": "work/{dataset}/sources/{shard}.tar"} if IN_STORE else {}
PACK_OF_ANALYSES = {"pack": "work/{dataset}/analyses/{analysis}/{shard}.tar"} if IN_STORE else {}
PACK_OF_VIDEOS = (
    {"pack": "work/{dataset}/{suite}/{perturbation}/{severity}/{shard}.tar"} if IN_STORE else {}
)


if IN_STORE:
    STORE_PREFIX = planned(store.prefix, workflow.storage_settings.default_storage_prefix)
    WORKPLACE = Path(STORE.object(f"{STORE_PREFIX}/work").local_path()).parent
    planned(store.prepare, WORKPLACE)
    shell.prefix(COMMAND_PATH + store.shell_prefix(WORKPLACE))


def in_store(function, *arguments):
    """Further inputs of a job in a store; elsewhere none."""
    return planned(function, *arguments) if IN_STORE else []


def plan_in_store(collection):
    # A job on another machine has no annotations: the plan comes with the sources of the workflow.
    if workflow.remote_exec:
        return planned(store.read_plan, collection)
    plan = planned(paths.plan, CONFIG, collection)
    workflow.configfiles.append(str(store.write_plan(plan, collection)))
    store.remove_stale_lists(WORKPLACE, plan, collection)
    return plan


def caption_shards_in_store(dataset):
    if workflow.remote_exec:
        return planned(store.read_captions, dataset)
    shards = planned(paths.caption_shards, CONFIG, dataset)
    workflow.configfiles.append(str(store.write_captions(shards, dataset)))
    return shards


def video_inputs_of(wildcards):
    arguments = recipe_of(wildcards), wildcards.dataset, wildcards.shard, plan_of
    return in_store(store.video_inputs, CONFIG, *arguments) or paths.video_inputs(*arguments)


def lists_of(wildcards):
    return in_store(lambda: store.lists(wildcards.dataset, shards_of(wildcards)))


# Snakemake calls these functions once per job, and many jobs share their results.
@cache
def plan_of(collection):
    if IN_STORE:
        return plan_in_store(collection)
    return planned(paths.plan, CONFIG, collection)


@cache
def caption_shards(dataset):
    if IN_STORE:
        return caption_shards_in_store(dataset)
    return planned(paths.caption_shards, CONFIG, dataset)


@cache
def scenario_recipe(collection, suite, perturbation, severity):
    return planned(recipe.from_config, CONFIG, collection, suite, perturbation, int(severity))


# The configuration of the first model alone, with which composed retrieval is made.
FIRST_MODEL = next(iter(evaluation.models(CONFIG).values()))


@cache
def model_files_sha256(model):
    return planned(model_files.sha256, evaluation.models(CONFIG)[model])


# The name that each target has here -> its own name. In a module that is used `as perturbed_*` they differ.
TARGETS = {}


def requested_targets():
    return [TARGETS.get(name, name) for name in workflow.dag_settings.targets]


@cache
def reported():
    others = bool(composed_reported("results"))
    return evaluation_paths.reported(CONFIG, requested_targets(), others=others)


@cache
def composed_reported(kind):
    datasets = composed_paths.reported(CONFIG, requested_targets())
    return [f"{composed_paths.folder(dataset)}/{kind}.parquet" for dataset in datasets]


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
    # Found by the name that it has in this file, whatever a module's user calls it, and also where it is left out.
    described = getattr(rules, target.name).rule
    described.docstring = target.text
    TARGETS[described.name] = target.name


def own_rules():
    """The names in these files and the proxies of all rules that exist here."""
    return list(rules._rules.items())


def summarize_run():
    """Print the summary of the run that ends, and write its page. Whatever happens here changes nothing of the run."""
    if IN_STORE:
        say(f"Results are in {STORE_PREFIX}; `perturb fetch {STORE_PREFIX}` brings them here.")
        return
    if PREFIX.parts:
        say(f"In {PREFIX}:")
    words = [sys.executable, "-m", "perturbations", "summary", "--output", str(SUMMARY)]
    subprocess.run(words, stdout=sys.stderr, check=False, cwd=CONFIG.at(""))


def shards_of(wildcards):
    return plan_of(wildcards.dataset).shards


def dataset_of(wildcards):
    return sharding.dataset_of(wildcards.dataset)


def recipe_of(wildcards):
    return scenario_recipe(
        wildcards.dataset, wildcards.suite, wildcards.perturbation, wildcards.severity
    )


def job_of(wildcards):
    return wildcards.direction, wildcards.side, wildcards.corpus, wildcards.level


def composed_job_of(wildcards):
    return wildcards.corpus, wildcards.level


def check_before():
    """Before the first job: what cannot succeed stops the run, with one message. `--no-hooks` leaves it out."""
    if workflow.touch:
        return
    from perturbations.engine import preflight

    # In a module, rules may have other names, and other rules stand beside them.
    names = {proxy.rule: name for name, proxy in own_rules()}
    jobs = [
        (names[job.rule], job.wildcards_dict)
        for job in workflow.dag.needrun_jobs()
        if job.rule in names
    ]
    uses_conda = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
    cores = workflow.cores if workflow.local_exec else None
    local = workflow.local_exec and not uses_conda
    wanted = preflight_jobs.of_jobs(jobs)
    # No job has begun, so nothing else looks where the process is.
    with chdir(CONFIG.at("")):
        summary = planned(preflight.check, CONFIG, wanted, cores, local, IN_STORE)
    for line in summary.text():
        say(shown.line(line))
    planned(summary.raise_errors)
