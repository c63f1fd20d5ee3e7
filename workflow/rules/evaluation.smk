# Retrieval on the corpora: without adaptation (evaluate_<dataset>), with test-time adaptation (tta_<dataset>), and by a
# clip and an instruction (composed_<dataset>, egocvr).
from perturbations.evaluation.result_rows import KINDS
from perturbations.evaluation.plan.evaluation_rules import EvaluationRules

EVALUATION = EvaluationRules(JOBS, requested_targets)


# `model` is the key of a configured model; the results of other models are files that no rule makes.
wildcard_constraints:
    modality="clips|captions|middle",
    model="|".join(EVALUATION.models),
    job="[a-z0-9_/-]+",
    kind="|".join(KINDS),


# Before all other jobs: a folder without its tokenizer would otherwise be found after hours, or never.
rule check_model:
    input:
        unpack(EVALUATION.model_files),
    output:
        "work/models/{model}.json",
    log:
        "work/logs/models/{model}.log",
    priority: 100
    resources:
        mem_mb=megabytes(6000),
        runtime=minutes(30),
        gpu=EVALUATION.resource("gpus"),
        gpu_share=EVALUATION.resource("gpu_share"),
    params:
        settings=EVALUATION.model_settings,
        run=EVALUATION.run,
    shell:
        "perturb rule check_model {params.settings:q} {params.run:q} --output {output:q} 2> {log:q}"


rule gallery:
    input:
        unpack(EVALUATION.model_files),
        checked="work/models/{model}.json",
        sources="manifests/{dataset}/sources.parquet",
        captions=EVALUATION.gallery_captions,
    output:
        "work/{dataset}/evaluation/{model}/{modality}.safetensors",
    log:
        "work/logs/{dataset}/evaluation/{model}/{modality}.log",
    threads: EVALUATION.resource("threads")
    resources:
        mem_mb=megabytes(EVALUATION.mb),
        runtime=minutes(240),
        gpu=EVALUATION.resource("gpus"),
        gpu_share=EVALUATION.resource("gpu_share"),
    params:
        settings=EVALUATION.model_settings,
        run=EVALUATION.run,
    shell:
        "perturb rule gallery {params.settings:q} {params.run:q} --sources {input.sources:q} --captions {input.captions:q}"
        " --output {output:q} 2> {log:q}"


rule evaluate:
    input:
        unpack(EVALUATION.job_inputs),
        checked="work/models/{model}.json",
        sources="manifests/{dataset}/sources.parquet",
    output:
        results="work/{dataset}/evaluation/{model}/{job}.parquet",
        ranks="work/{dataset}/evaluation/{model}/{job}.ranks.parquet",
    log:
        "work/logs/{dataset}/evaluation/{model}/{job}.log",
    threads: EVALUATION.resource("threads")
    resources:
        mem_mb=megabytes(EVALUATION.mb),
        runtime=minutes(720),
        gpu=EVALUATION.resource("gpus"),
        gpu_share=EVALUATION.resource("gpu_share"),
    params:
        settings=EVALUATION.job_settings,
        run=EVALUATION.run,
    shell:
        "perturb rule evaluate {params.settings:q} {params.run:q} --sources {input.sources:q} --captions {input.captions:q}"
        " --results {output.results:q} --ranks {output.ranks:q} 2> {log:q}"


rule results:
    input:
        EVALUATION.result_parts,
    output:
        results="manifests/{dataset}/{kind}/{model}/results.parquet",
        ranks="manifests/{dataset}/{kind}/{model}/ranks.parquet",
    log:
        "work/logs/{dataset}/{kind}/{model}.log",
    localrule: True
    resources:
        mem_mb=megabytes(4000),
        runtime=minutes(30),
    params:
        settings=EVALUATION.result_settings,
    shell:
        "perturb rule results {params.settings:q} --parts+ {input:q} --results {output.results:q} --ranks {output.ranks:q}"
        " 2> {log:q}"


rule results_page:
    input:
        results=EVALUATION.reported_results,
        ranks=EVALUATION.reported_ranks,
    output:
        page="manifests/report.html",
        tables=directory("manifests/report.tables"),
    log:
        "work/logs/report.log",
    localrule: True
    resources:
        mem_mb=megabytes(2000),
        runtime=minutes(30),
    params:
        settings=EVALUATION.datasets,
    shell:
        "perturb rule results_page {params.settings:q} --results+ {input.results:q} --ranks+ {input.ranks:q}"
        " --page {output.page:q} 2> {log:q}"
