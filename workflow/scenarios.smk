# Several configurations in one run: snakemake --snakefile workflow/scenarios.smk mlvp_msrvtt
# scenarios.yaml, beside config.yaml, holds the keys in which each of them differs from it:
#   seed_1: {seed: 1}
#   as_printed: {suites: {mlvp: {variant: paper}}}
# Results lie in results/<scenario>. Targets make all scenarios; that of seed_1 alone is seed_1_mlvp_msrvtt.
import sys
from copy import deepcopy
from keyword import iskeyword
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

sys.path.insert(0, str(Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parent))

from perturbations.base.errors import PerturbationError
from perturbations.config import file as config_file

try:
    SCENARIOS, _ = config_file.load([Path("scenarios.yaml")])
except PerturbationError as error:
    raise WorkflowError(str(error)) from None
if not SCENARIOS or not all(name.isidentifier() for name in map(str, SCENARIOS)):
    raise WorkflowError(
        "scenarios.yaml: names (letters, digits and _) of scenarios with their keys are expected"
    )
# A module's name becomes a global of this file; these are set with each of them.
OWN = {*globals(), "SCENARIO", "KEYS", "SETTINGS", "RENAMED"}
if taken := [name for name in SCENARIOS if name in OWN or iskeyword(name)]:
    raise WorkflowError(
        f"scenarios.yaml: {taken[0]} means something else in a workflow: name the scenario otherwise"
    )


configfile: "config.yaml"


for SCENARIO, KEYS in SCENARIOS.items():
    SETTINGS = deepcopy(config)
    update_config(SETTINGS, KEYS or {})
    RENAMED = f"{SCENARIO}_"

    module:
        name: SCENARIO
        snakefile:
            "Snakefile"
        config:
            SETTINGS
        prefix:
            f"results/{SCENARIO}"

    use rule * from SCENARIO as RENAMED*


MODULES = {name: globals()[name] for name in SCENARIOS}
MENUS = {name: module.menu() for name, module in MODULES.items()}


def of_all(target):
    """An input function: the files of a target of all scenarios that have it."""

    def files(wildcards):
        there = [name for name in SCENARIOS if target in MENUS[name]]
        return [
            f"results/{name}/{file}"
            for name in there
            for file in MODULES[name].files_of(MENUS[name][target])(wildcards)
        ]

    return files


for TARGET in {target: None for menu in MENUS.values() for target in menu}:

    rule:
        name:
            TARGET
        input:
            of_all(TARGET),


workflow.default_target = "all"


onstart:
    for module in MODULES.values():
        module.onstart()


onsuccess:
    for module in MODULES.values():
        module.onsuccess()


onerror:
    for module in MODULES.values():
        module.onerror()
