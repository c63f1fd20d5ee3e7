# The functions of composed.smk. Composed retrieval is made with the first model (evaluation_common.smk).
from perturbations.composed import paths as composed_paths
from perturbations.composed import planning as composed
from perturbations.evaluation import model_files
from perturbations.evaluation import paths as evaluation_paths
from perturbations.evaluation import planning as evaluation
from perturbations.evaluation import sizes as evaluation_sizes


@cache
def first_model_files_sha256():
    return planned(model_files.sha256, FIRST_MODEL)


@cache
def composed_reported(kind):
    datasets = composed_paths.reported(CONFIG, requested_targets())
    return [f"{composed_paths.folder(dataset)}/{kind}.parquet" for dataset in datasets]


RUN.further_results.append(composed_reported)


def composed_job_of(wildcards):
    return wildcards.corpus, wildcards.level
