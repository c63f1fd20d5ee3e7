# Configuration, includes, the named targets: nothing else.
#   snakemake --list-target-rules     what there is to make
#   snakemake --cores 2               the demo, on any machine
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from perturbations.errors import PerturbationError
from perturbations.plan import captions, config_file, evaluation, listed, recipe, sharding
from perturbations.plan import config as configuration
from perturbations.suites import registry
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
include: "workflow/rules/common_evaluation.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        corpus_of("mlvp", "demo") if "demo" in CONFIG.datasets else [],


describe(
    "all", "the demo: every perturbation of the suite `mlvp` on clips that the package draws itself"
)

# The papers' own corpora.
for TARGET, ADAPTER in (("msrvtt_p", "msrvtt"), ("youcook2_p", "youcook2")):

    rule:
        name:
            TARGET
        input:
            corpora_of("msrvtt_p", ADAPTER),

    describe(TARGET, f"the suite `msrvtt_p` on every dataset of the adapter `{ADAPTER}`")


for DATASET in CONFIG.datasets:

    rule:
        name:
            f"calibrate_{DATASET}"
        input:
            calibration_of(DATASET),

    describe(
        f"calibrate_{DATASET}", f"severities of even distortion, solved on clips of `{DATASET}`"
    )


for DATASET in CONFIG.datasets:
    for TARGET, KIND, TEXT in (
        ("evaluate", "evaluation", "retrieval with perturbed queries"),
        (
            "tta",
            "adaptation",
            "retrieval with perturbed queries, without and with test-time adaptation",
        ),
    ):

        rule:
            name:
                f"{TARGET}_{DATASET}"
            input:
                results_of(DATASET, KIND),

        describe(f"{TARGET}_{DATASET}", f"{TEXT}, on the dataset `{DATASET}`")


for SUITE in CONFIG.suites:
    for DATASET in CONFIG.datasets:

        rule:
            name:
                f"{SUITE}_{DATASET}"
            input:
                corpus_of(SUITE, DATASET),

        describe(f"{SUITE}_{DATASET}", menu_entry(SUITE, DATASET))
        if captions.scenarios(CONFIG, DATASET, SUITE):

            rule:
                name:
                    f"text_{SUITE}_{DATASET}"
                input:
                    texts_of(SUITE, DATASET),

            describe(f"text_{SUITE}_{DATASET}", text_menu_entry(SUITE, DATASET))
            if registry.suite(SUITE).combined:

                rule:
                    name:
                        f"multimodal_{SUITE}_{DATASET}"
                    input:
                        corpus_of(SUITE, DATASET),
                        texts_of(SUITE, DATASET),
                        f"manifests/{DATASET}/{SUITE}/multimodal.parquet",

                describe(
                    f"multimodal_{SUITE}_{DATASET}",
                    f"videos and captions of {SUITE} on the dataset `{DATASET}`, and the views that join them",
                )
