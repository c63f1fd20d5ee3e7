# The functions of evaluation.smk.
from perturbations.evaluation import model_files
from perturbations.evaluation import paths as evaluation_paths
from perturbations.evaluation import planning as evaluation
from perturbations.evaluation import sizes as evaluation_sizes


@cache
def model_files_sha256():
    return planned(model_files.sha256, CONFIG)


@cache
def reported():
    requested = [TARGETS.get(name, name) for name in workflow.dag_settings.targets]
    return evaluation_paths.reported(CONFIG, requested)


def job_of(wildcards):
    return wildcards.direction, wildcards.corpus, wildcards.level
