# Configuration, includes and named targets.
#   snakemake --list-target-rules     list all targets
#   snakemake --cores 2               the demo, on any machine
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from perturbations.errors import PerturbationError
from perturbations.plan import captions, composed, composed_paths, config_file, evaluation
from perturbations.plan import evaluation_paths, evaluation_sizes, model_files, paths, places
from perturbations.plan import config as configuration
from perturbations.plan import preflight as preflight_jobs
from perturbations.plan import recipe, sharding, store, targets, workplace
from perturbations.system import limits, project, shown

min_version("9.0")


try:
    CONFIG_FILES = [Path("config.yaml"), *map(Path, workflow.overwrite_configfiles)]
    config_file.load(CONFIG_FILES)
except PerturbationError as error:
    raise WorkflowError(str(error)) from None


configfile: "config.yaml"


try:
    # The folder of a module's `prefix`; otherwise the working directory.
    PREFIX = workplace.of_module(workflow.modifier.path_modifier.replace_prefix)
    if workflow.modifier.skip_configfile:  # a module with `config:`
        PLACES = places.of_module(
            workflow.modifier.namespace,
            config,
            workflow.modifier_stack[0].globals["config"],
            map(Path, [*workflow.configfiles, *workflow.overwrite_configfiles]),
            workflow.config_settings.config,
        )
    else:
        PLACES = places.read(CONFIG_FILES, workflow.config_settings.config)
    CONFIG = configuration.parse(config, PLACES, PREFIX)
except PerturbationError as error:
    raise WorkflowError(shown.lines(str(error))) from None


# What `snakemake --report` opens on.
report: "workflow/report/description.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/store.smk"
include: "workflow/rules/sources.smk"
include: "workflow/rules/captions.smk"
include: "workflow/rules/analyses.smk"
include: "workflow/rules/calibration.smk"
include: "workflow/rules/videos.smk"
include: "workflow/rules/manifests.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/composed.smk"
include: "workflow/rules/report.smk"


onstart:
    check_before()


rule all:
    default_target: True
    input:
        files_of(targets.demo(CONFIG, plan_of)),


describe(targets.demo(CONFIG, plan_of))

for TARGET in targets.menu(CONFIG, plan_of, caption_shards):

    rule:
        name:
            TARGET.name
        input:
            files_of(TARGET),

    describe(TARGET)


onsuccess:
    list_failures()


onerror:
    list_failures()
