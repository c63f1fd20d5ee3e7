# The functions of evaluation.smk.
from perturbations.evaluation import model_files
from perturbations.evaluation import paths as evaluation_paths
from perturbations.evaluation import planning as evaluation
from perturbations.evaluation import sizes as evaluation_sizes

# `model` is the key of a configured model; the results of other models are files that no rule makes.
MODELS = evaluation.models(CONFIG)

FIRST_MODEL = next(iter(MODELS.values()))

job_environment.use(
    reader=CONFIG.evaluation.reader,
    devices={name: model.evaluation.device for name, model in MODELS.items()}
    | {"": FIRST_MODEL.evaluation.device},
)


@cache
def model_files_sha256(model):
    return planned(model_files.sha256, MODELS[model])


def further_results(kind):
    return [path for of_wing in RUN.further_results for path in of_wing(kind)]


@cache
def reported():
    others = bool(further_results("results"))
    return evaluation_paths.reported(CONFIG, requested_targets(), others=others)


def of_model(wildcards):
    """The configuration of one model alone."""
    return MODELS[wildcards.model]


def job_of(wildcards):
    return wildcards.direction, wildcards.side, wildcards.corpus, wildcards.level


def arguments_of_job(wildcards):
    return of_model(wildcards), wildcards.dataset, job_of(wildcards), wildcards.group
