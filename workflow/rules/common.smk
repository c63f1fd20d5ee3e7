# The code that needs Snakemake's own objects: wildcards, errors, output, and the path of the command `perturb`. All other
# computations of rules are functions of perturbations/plan/paths.py and targets.py, and of the wings.
import os
import subprocess
import sys
from contextlib import chdir
from functools import cache
from pathlib import Path

from snakemake.logging import logger
from snakemake.settings.types import DeploymentMethod

from perturbations.base import console

# A dry run prints a table of jobs per rule, with -p every job.
if workflow.output_settings.dryrun and not workflow.output_settings.printshellcmds:
    console.summarize(logger)
    print("Jobs per rule; -n -p lists every job.", file=sys.stderr)


wildcard_constraints:
    dataset="[a-z][a-z0-9_]*(/whole)?",
    suite="[a-z][a-z0-9_]*",
    perturbation="[A-Za-z0-9_]+",
    severity="[1-9][0-9]*",
    shard="s[0-9a-f]+",
    analysis="|".join(paths.ANALYSES),
    level="[a-z0-9_]+",


def planned(function, *arguments):
    """The result of a planning function. A mistake of the user stops Snakemake with one message."""
    try:
        return function(*arguments)
    except PerturbationError as error:
        raise WorkflowError(shown.lines(str(error))) from None


planned(paths.without_braces, "the working directory", Path.cwd())

# Every value in a command is quoted (`{params.x:q}`; a list item by item). Values from config.yaml are passed through a
# function, because Snakemake reads braces in a plain string of `params` as wildcards.
# With conda, the command is in the rule's environment, with apptainer in the image; otherwise it is next to the Python that
# runs Snakemake.
COMMAND_PATH = ""
DEPLOYED = workflow.deployment_settings.deployment_method
if DeploymentMethod.APPTAINER in DEPLOYED:

    container: planned(project.image)

elif DeploymentMethod.CONDA in DEPLOYED:
    os.environ.update(planned(project.environment) | os.environ)
else:
    COMMAND_PATH = paths.shell_prefix(Path(sys.executable))
    # Snakemake starts itself as a module for jobs on other machines: not the `snakemake` of a stranger's folder.
    if os.environ.setdefault("PYTHONSAFEPATH", "jobs") == "jobs":
        COMMAND_PATH += "unset PYTHONSAFEPATH; "
    shell.prefix(COMMAND_PATH)

# Below a module's `prefix`, jobs work in its folder, where all paths are as elsewhere.
if PREFIX.parts:
    planned(workplace.prepare_module, PREFIX)


def command(line):
    """A job's command, in the folder in which jobs work. `shell.prefix` would also move the user's own rules."""
    return workplace.enter(PREFIX) + line


# Limits decide when a file is given up, but never change a result. So jobs read them from the environment, not from params.
limits.use(limits.parse(CONFIG.limits.model_dump_json()))


# What a run in an object store adds to its jobs; store_common.smk replaces these.
IN_STORE = workflow.storage_registry.default_storage_provider is not None
if IN_STORE and "store" not in wings.wings():
    raise WorkflowError("this installation cannot run in an object store")
PACK_OF_SOURCES = {}
PACK_OF_ANALYSES = {}
PACK_OF_VIDEOS = {}


def in_store(function, *arguments):
    """What a function of the store's planning gives, in a store; elsewhere nothing: further inputs of a job."""
    return []


def video_inputs_of(wildcards):
    arguments = recipe_of(wildcards), wildcards.dataset, wildcards.shard, plan_of
    return in_store("video_inputs", CONFIG, *arguments) or paths.video_inputs(*arguments)


def lists_of(wildcards):
    return in_store("lists", wildcards.dataset, shards_of(wildcards))


def plan_collection(collection):
    return planned(paths.plan, CONFIG, collection)


def plan_captions(dataset):
    return planned(paths.caption_shards, CONFIG, dataset)


# Snakemake calls these functions once per job, and many jobs share their results.
@cache
def plan_of(collection):
    return plan_collection(collection)


@cache
def caption_shards(dataset):
    return plan_captions(dataset)


@cache
def scenario_recipe(collection, suite, perturbation, severity):
    return planned(recipe.from_config, CONFIG, collection, suite, perturbation, int(severity))


# The name that each target has here -> its own name. In a module that is used `as perturbed_*` they differ.
TARGETS = {}


# Functions of wings that give further files of results for one page: of "results", "ranks".
FURTHER_RESULTS = []


def requested_targets():
    return [TARGETS.get(name, name) for name in workflow.dag_settings.targets]


@cache
def say(line):
    print(line, file=sys.stderr)


@cache
def menu():
    """Every target by its own name; the first is the default, `all`."""
    every = targets.demo(CONFIG, plan_of), *targets.menu(CONFIG, plan_of, caption_shards)
    return {target.name: target for target in every}


# Where several modules make corpora, their reports name the folder.
OF_FOLDER = {"folder": str(PREFIX)} if PREFIX.parts else {}


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


def list_failures():
    """At the run's end, list what failed. Whatever happens here changes nothing of the run."""
    if IN_STORE:
        say(f"Results are in {STORE_PREFIX}; `perturb fetch {STORE_PREFIX}` brings them here.")
        return
    words = [sys.executable, "-P", "-m", "perturbations", "status", "--failures"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=CONFIG.at(""))
    if done.stdout:
        say(f"In {PREFIX}:\n{done.stdout}" if PREFIX.parts else done.stdout)


def write_index():
    """At the run's end, a failed one too, write the page of all pages. Whatever happens changes nothing of the run."""
    if IN_STORE or "report" not in wings.wings():
        return
    words = [sys.executable, "-P", "-m", "perturbations", "rule", "index"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=CONFIG.at(""))
    say(done.stderr.strip() or f"Pages: {CONFIG.at(layout.at('index'))}")


def shards_of(wildcards):
    return plan_of(wildcards.dataset).shards


def dataset_of(wildcards):
    return sharding.dataset_of(wildcards.dataset)


def recipe_of(wildcards):
    return scenario_recipe(
        wildcards.dataset, wildcards.suite, wildcards.perturbation, wildcards.severity
    )


def check_before():
    """Before the first job; preflight.smk replaces it."""
