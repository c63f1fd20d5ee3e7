# Configuration, includes and named targets.
#   snakemake --list-target-rules     list all targets
#   snakemake --cores 2               the demo, on any machine
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from perturbations.errors import PerturbationError
from perturbations.plan import captions, composed, composed_paths, config_file, evaluation
from perturbations.plan import evaluation_paths, evaluation_sizes, paths, recipe
from perturbations.plan import config as configuration
from perturbations.plan import sharding, targets
from perturbations.system import limits, shown

min_version("9.0")


try:
    for FILE in ("config.yaml", *workflow.overwrite_configfiles):
        config_file.check(Path(FILE))
except PerturbationError as error:
    raise WorkflowError(str(error)) from None


configfile: "config.yaml"


try:
    CONFIG = configuration.parse(config)
except PerturbationError as error:
    raise WorkflowError(shown.lines(str(error))) from None


include: "workflow/rules/common.smk"
include: "workflow/rules/sources.smk"
include: "workflow/rules/captions.smk"
include: "workflow/rules/analyses.smk"
include: "workflow/rules/calibration.smk"
include: "workflow/rules/videos.smk"
include: "workflow/rules/manifests.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/composed.smk"
include: "workflow/rules/report.smk"


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
