# What all rules share. Computations of rules are functions of perturbations/plan/paths.py and targets.py, and of the wings.
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from snakemake.logging import logger

from perturbations.base import console, job_environment
from perturbations.status import run_lines

# The profiles let Snakemake print little; this prints the jobs of a run, how far it is, and what failed.
run_lines.add_to(logger)


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

# What this run is, and what wings change of it (preflight.smk, composed_common.smk).
RUN = WorkflowRun(CONFIG, PREFIX, console.speaker(logger))

# Every value in a command is quoted (`{params.x:q}`; a list item by item). Values from config.yaml are passed through a
# function, because Snakemake reads braces in a plain string of `params` as wildcards.
# With conda, the command is in the rule's environment, with apptainer in the image; otherwise it is next to the Python that
# runs Snakemake.
COMMAND_PATH = ""
DEPLOYED = snakemake_inside.deployment(workflow)
if DEPLOYED == "apptainer":

    container: planned(project.image)

elif DEPLOYED == "conda":
    os.environ.update(planned(project.environment) | os.environ)
else:
    if snakemake_inside.may_start_jobs(workflow):
        planned(project.check_libraries)
    COMMAND_PATH = paths.shell_prefix(Path(sys.executable))
    # Snakemake starts itself as a module for jobs on other machines: not the `snakemake` of a stranger's folder.
    if os.environ.setdefault("PYTHONSAFEPATH", "jobs") == "jobs":
        COMMAND_PATH += "unset PYTHONSAFEPATH; "
    shell.prefix(COMMAND_PATH)

# Below a module's `prefix`, jobs work in its folder, where all paths are as elsewhere.
if PREFIX.parts:
    planned(workplace.prepare_module, PREFIX, MOVED.get("logs"))


def command(line):
    """A job's command, in the folder in which jobs work. `shell.prefix` would also move the user's own rules."""
    return workplace.enter(PREFIX) + line


# What decides when a file is given up, and where a job runs, but never a result: jobs read it from the environment, so that
# it is neither a param nor a resource, which a user who overrides resources would leave out.
limits.use(limits.parse(CONFIG.limits.model_dump_json()))
job_environment.use(timeout_s=CONFIG.timeout_s)


# Snakemake calls these functions once per job, and many jobs share their results.
@cache
def plan_of(collection):
    return planned(paths.plan, CONFIG, collection)


@cache
def caption_shards(dataset):
    return planned(paths.caption_shards, CONFIG, dataset)


@cache
def texts_of_recipes(dataset, suite):
    return planned(paths.texts_of_recipes, CONFIG, dataset, suite)


def text_markers(dataset, suite):
    return paths.of_shards("text_marker", dataset, caption_shards(dataset), suite=suite)


@cache
def scenario_recipe(collection, suite, perturbation, severity):
    return planned(recipe.from_config, CONFIG, collection, suite, perturbation, int(severity))


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
            RUN.say(line)
        clips = [
            path
            for collection, suite in work.corpora
            for path in paths.markers(CONFIG, collection, suite, plan_of(collection).shards)
        ]
        return [*work.files, *clips]

    return files


def describe(target):
    """Give a target its line in `snakemake --list-target-rules`."""
    name = snakemake_inside.describe(rules, target.name, target.text)
    RUN.names[name] = target.name


def requested_targets():
    return RUN.targets(snakemake_inside.targets(workflow))


def at_the_end(*words):
    """What a command about the run prints. Whatever happens here changes nothing of the run."""
    start = [sys.executable, "-P", "-m", "perturbations"]
    return subprocess.run(
        [*start, *words], capture_output=True, text=True, check=False, cwd=CONFIG.at("")
    )


def list_failures():
    """At the run's end, list what failed."""
    from perturbations.status import status, text

    if failures := text.failures(status.collect(CONFIG.at(""))):
        RUN.say(f"In {PREFIX}:\n{failures}" if PREFIX.parts else failures)


def write_index():
    """At the run's end, a failed one too, write the page of all pages."""
    if "report" not in wings.wings():
        return
    page = CONFIG.at("manifests/index.html")
    RUN.say(at_the_end("rule", "index").stderr.strip() or f"Pages: {page}")


def print_roots():
    """At the run's end, print the digests by which `perturb verify --root` knows what was made."""
    for line in roots.sentences(CONFIG.at("manifests")):
        RUN.say(line)


def markers_of(wildcards):
    return paths.markers(CONFIG, wildcards.dataset, wildcards.suite, shards_of(wildcards))


def size_of(wildcards):
    """The size of a job's clips, for what it requests; not computed in the job itself, which would plan the dataset again."""
    if not snakemake_inside.plans_all(workflow):
        return costs.NOTHING
    return plan_of(wildcards.dataset).size_of(wildcards.shard)


def merge_minutes(wildcards):
    """The time that a job requests that merges the rows of a corpus."""
    rows = len(recipe.scenarios(CONFIG, wildcards.suite)) * (
        plan_of(wildcards.dataset).listed if snakemake_inside.plans_all(workflow) else 0
    )
    return costs.merge_minutes(rows)


def shards_of(wildcards):
    return plan_of(wildcards.dataset).shards


def dataset_of(wildcards):
    return sharding.dataset_of(wildcards.dataset)


def recipe_of(wildcards):
    return scenario_recipe(
        wildcards.dataset, wildcards.suite, wildcards.perturbation, wildcards.severity
    )


def shard_lists(wildcards):
    return paths.of_shards("shard_list", wildcards.dataset, shards_of(wildcards))


def caption_lists(wildcards):
    return paths.of_shards("caption_list", wildcards.dataset, caption_shards(wildcards.dataset))
