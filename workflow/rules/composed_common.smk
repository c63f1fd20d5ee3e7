# The functions of composed.smk.
from perturbations.composed import paths as composed_paths
from perturbations.composed import planning as composed
from perturbations.evaluation import model_files
from perturbations.evaluation import paths as evaluation_paths


def composed_job_of(wildcards):
    return wildcards.corpus, wildcards.level
