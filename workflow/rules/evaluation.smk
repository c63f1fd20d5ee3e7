# Retrieval on the corpora: without adaptation (evaluate_<dataset>) and with test-time adaptation (tta_<dataset>).
localrules:
    results,


rule demo_encoder:
    output:
        directory(evaluation_paths.DEMO_ENCODER),
    log:
        "work/logs/demo_encoder.log",
    benchmark:
        "work/benchmarks/demo_encoder.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 2
    resources:
        mem_mb=3000,
        runtime=60,
    params:
        # `version` changes when the training does.
        recipe=lambda wildcards: recipe.canonical({"version": 1, "seed": CONFIG.seed}),
        seed=CONFIG.seed,
    message:
        "training a small dual encoder on drawn scenes"
    shell:
        "perturb train-encoder --seed {params.seed:q} --output {output:q} 2> {log:q}"


rule gallery:
    input:
        unpack(lambda wildcards: planned(evaluation_paths.model_inputs, CONFIG)),
        sources="manifests/{dataset}/sources.parquet",
    output:
        evaluation_paths.gallery("{dataset}"),
    log:
        "work/logs/{dataset}/evaluation/gallery.log",
    benchmark:
        "work/benchmarks/{dataset}/evaluation/gallery.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: evaluation_paths.readers(CONFIG)
    resources:
        mem_mb=6000,
        runtime=240,
        gpu=evaluation_paths.gpus(CONFIG),
        device=lambda wildcards: CONFIG.evaluation.device,
        reader=lambda wildcards: CONFIG.evaluation.reader,
    params:
        settings=lambda wildcards: recipe.canonical(evaluation.model_settings(CONFIG)),
        model=lambda wildcards: evaluation_paths.model_options(CONFIG),
    message:
        "encoding the clean clips of {wildcards.dataset}"
    shell:
        "perturb encode-gallery --settings {params.settings:q} {params.model:q} --sources {input.sources:q}"
        " --device {resources.device:q} --reader {resources.reader:q} --output {output:q} 2> {log:q}"


# The device and the reader are resources, not params, because they decide where and with what a job runs, and not what
# its result is.
rule evaluate:
    input:
        unpack(
            lambda wildcards: planned(
                evaluation_paths.inputs,
                CONFIG,
                wildcards.dataset,
                job_of(wildcards),
                wildcards.group,
                plan_of,
                caption_shards,
            )
        ),
    output:
        results="work/{dataset}/evaluation/{direction}/{corpus}/{level}/{group}.parquet",
        ranks="work/{dataset}/evaluation/{direction}/{corpus}/{level}/{group}.ranks.parquet",
        pictures="work/{dataset}/evaluation/{direction}/{corpus}/{level}/{group}.pictures.json",
    log:
        "work/logs/{dataset}/evaluation/{direction}/{corpus}/{level}/{group}.log",
    benchmark:
        "work/benchmarks/{dataset}/evaluation/{direction}/{corpus}/{level}/{group}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: evaluation_paths.readers(CONFIG)
    resources:
        mem_mb=6000,
        runtime=1440,
        gpu=evaluation_paths.gpus(CONFIG),
        device=lambda wildcards: CONFIG.evaluation.device,
        reader=lambda wildcards: CONFIG.evaluation.reader,
    params:
        settings=lambda wildcards: recipe.canonical(
            evaluation.settings(CONFIG, wildcards.dataset, job_of(wildcards), wildcards.group)
        ),
        model=lambda wildcards: evaluation_paths.model_options(CONFIG),
        asking=lambda wildcards, input: evaluation_paths.query_options(
            wildcards.dataset, job_of(wildcards), dict(input.items())
        ),
    message:
        "{wildcards.direction}, {wildcards.corpus}, {wildcards.level}: {wildcards.group}, on {wildcards.dataset}"
    shell:
        "perturb evaluate --settings {params.settings:q} {params.model:q} --sources {input.sources:q}"
        " --captions {input.captions:q} {params.asking:q} --device {resources.device:q} --reader {resources.reader:q}"
        " --output {output.results:q} --ranks {output.ranks:q} --pictures {output.pictures:q} 2> {log:q}"


rule results:
    input:
        parts=lambda wildcards: evaluation_paths.result_parts(
            CONFIG, wildcards.dataset, wildcards.kind
        ),
    output:
        results="manifests/{dataset}/{kind}/results.parquet",
        ranks="manifests/{dataset}/{kind}/ranks.parquet",
    log:
        "work/logs/{dataset}/{kind}.log",
    benchmark:
        "work/benchmarks/{dataset}/{kind}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    message:
        "writing the results of {wildcards.dataset}"
    shell:
        "perturb merge-results --parts {input.parts:q} --output {output.results:q} --ranks {output.ranks:q} 2> {log:q}"
