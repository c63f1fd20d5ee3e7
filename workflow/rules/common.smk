# What all rules share. Their functions are those of CorpusRules (perturbations/corpus/plan/corpus_rules.py), EvaluationRules, SplitRules.
from functools import cache, partial

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from perturbations.base import shown
from perturbations.base.errors import PerturbationError
from perturbations.corpus.plan import targets
from perturbations.models.guides.guide_registry import ANALYSES
from perturbations.corpus import run_lines


def stop(reason):
    workflow.scheduler.executor_error_callback(WorkflowError(reason))


# The profiles let Snakemake print little; this prints the jobs of a run, how far it is, why jobs wait, and what failed.
run_lines.add_to(logger, stop)


wildcard_constraints:
    dataset="[a-z][a-z0-9_]*(/whole)?",
    suite="[a-z][a-z0-9_]*",
    perturbation="[A-Za-z0-9_]+",
    severity="[1-9][0-9]*",
    shard="s[0-9a-f]+",
    analysis="|".join(ANALYSES),


# Every value in a command is quoted (`{params.x:q}`; a list item by item). The command is next to the Python that runs
# Snakemake, which starts itself as a module for jobs on other machines: not the `snakemake` of a stranger's folder.
COMMAND_PATH = folders.shell_prefix(Path(sys.executable))
if os.environ.setdefault("PYTHONSAFEPATH", "jobs") == "jobs":
    COMMAND_PATH += "unset PYTHONSAFEPATH; "
shell.prefix(COMMAND_PATH)

# Planning prints each line once.
say = cache(partial(print, file=sys.stderr))

JOBS = CorpusRules(CONFIG)
MENU = JOBS.menu()

# The name that each target has in the user's Snakefile -> its own. In `use rule * as other_*` they differ.
NAMES = {}


def describe(target):
    """Give a target its line in `snakemake --list-target-rules`."""
    described = getattr(rules, target).rule
    described.docstring, _ = MENU[target]
    NAMES[described.name] = target


def requested_targets():
    return [NAMES[word] for word in sys.argv[1:] if word in NAMES]


def is_mistyped(word):
    """Whether a word of the command line looks like one of these targets and is none. A user's workflow has others."""
    return word.isidentifier() and word not in NAMES and targets.meant(CONFIG, word, NAMES) != ""


def nearest_target(wildcards):
    """Stop with the target that a mistyped one may mean."""
    raise SystemExit("\n".join(targets.no_target(CONFIG, word, NAMES) for word in MISTYPED))


def stored(marker):
    """The marker of a job's clips, by which Snakemake sees them, as an output where clips are stored."""
    return {} if CONFIG.storage.tier == "recipe" else {"marker": marker}


def list_failures():
    """At the run's end, list what failed."""
    from perturbations.corpus import run_status

    if failures := run_status.failures(run_status.collect(CONFIG.at(""))):
        say(f"In {PREFIX}:\n{failures}" if PREFIX.parts else failures)


def write_index():
    """At the run's end, a failed one too, write the page of all pages."""
    from perturbations.pages import index

    try:
        say(f"Pages: {index.index(CONFIG.at('')).resolve()}")
    except (PerturbationError, OSError) as error:  # which changes nothing of the run
        say(shown.lines(str(error)))


def print_roots():
    """At the run's end, print the digests by which `perturb verify --root` knows what was made."""
    from perturbations.pages import index

    for line in index.roots(CONFIG.at("manifests")):
        say(line)
