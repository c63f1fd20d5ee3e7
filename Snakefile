# Configuration, includes and named targets.
#   snakemake --list-target-rules     list all targets
#   snakemake --cores 2               the demo, on any machine
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from perturbations.base import limits, project, shown, wings
from perturbations.base.errors import PerturbationError
from perturbations.config import file as config_file
from perturbations.config import places
from perturbations.config import sections as configuration
from perturbations.manifest import layout
from perturbations.plan import captions, paths, recipe, sharding, targets, workplace

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


# Of the wings that are there; first the store's, which replaces functions of common.smk.
for RULES in sorted(wings.rules(), key=lambda name: name != "store"):

    include: f"workflow/rules/{RULES}.smk"


include: "workflow/rules/sources.smk"
include: "workflow/rules/captions.smk"
include: "workflow/rules/analyses.smk"
include: "workflow/rules/videos.smk"
include: "workflow/rules/manifests.smk"


onstart:
    planned(workplace.note_run, CONFIG.at(""))
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
    write_index()


onerror:
    list_failures()
    write_index()
