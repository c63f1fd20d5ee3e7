# Retrieval on the corpora: without adaptation (evaluate_<dataset>) and with test-time adaptation (tta_<dataset>).
# Paths hold the configured model's key, not a wildcard: another model's results are files that no rule makes.
wildcard_constraints:
    direction="v2t|t2v",
    group="|".join(evaluation.GROUPS),
    kind="|".join(evaluation_paths.KINDS),


MODEL_KEY = evaluation.model_key(CONFIG)
PARTS = evaluation_paths.parts_folder(CONFIG, "{dataset}")
RESULTS = evaluation_paths.results_folder(CONFIG, "{dataset}", "{kind}")
LOGS = f"work/logs/{{dataset}}/evaluation/{MODEL_KEY}"
BENCHMARKS = f"work/benchmarks/{{dataset}}/evaluation/{MODEL_KEY}"


rule demo_encoder:
    output:
        directory(evaluation_paths.DEMO_ENCODER),
    log:
        "work/logs/demo_encoder.log",
    benchmark:
        "work/benchmarks/demo_encoder.tsv"
    # First, because every evaluation waits for it, and other jobs can run beside it.
    priority: 1
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=60,
    params:
        # `version` changes when the training does.
        recipe=lambda wildcards: recipe.canonical({"version": 3, "seed": CONFIG.seed}),
        seed=CONFIG.seed,
    message:
        "training a small dual encoder on drawn scenes"
    shell:
        command("perturb rule train-encoder --seed {params.seed:q} --output {output:q} 2> {log:q}")


# Before all other jobs: a folder without its tokenizer would otherwise be found after hours, or never.
rule check_model:
    input:
        unpack(lambda wildcards: planned(evaluation_paths.model_inputs, CONFIG)),
        packs=lambda wildcards: in_store("refuse", "an evaluation"),
    output:
        evaluation_paths.checked(CONFIG),
    log:
        f"work/logs/models/{MODEL_KEY}.log",
    benchmark:
        f"work/benchmarks/models/{MODEL_KEY}.tsv"
    priority: 100
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: evaluation_sizes.model_memory_mb(CONFIG, attempt),
        runtime=30,
        gpu=evaluation_paths.gpus(CONFIG),
        gpu_share=evaluation_paths.gpu_share(CONFIG),
        device=lambda wildcards: CONFIG.evaluation.device,
    params:
        settings=lambda wildcards: recipe.canonical(
            evaluation.model_settings(CONFIG, model_files_sha256())
        ),
        model=lambda wildcards: evaluation_paths.model_options(CONFIG),
    message:
        "checking that the model's tokenizer, image processor and weights fit each other"
    shell:
        command(
            "perturb rule check-model --settings {params.settings:q} {params.model:q} --device {resources.device:q}"
            " --output {output:q} 2> {log:q}"
        )


rule gallery:
    input:
        unpack(lambda wildcards: planned(evaluation_paths.loaded_inputs, CONFIG)),
        sources="manifests/{dataset}/sources.parquet",
    output:
        evaluation_paths.gallery(CONFIG, "{dataset}"),
    log:
        f"{LOGS}/gallery.log",
    benchmark:
        f"{BENCHMARKS}/gallery.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: evaluation_paths.readers(CONFIG)
    resources:
        mem_mb=lambda wildcards, attempt: evaluation_sizes.gallery_memory_mb(
            CONFIG, plan_of(wildcards.dataset), attempt
        ),
        runtime=lambda wildcards, attempt: evaluation_sizes.gallery_minutes(
            CONFIG, plan_of(wildcards.dataset), attempt
        ),
        gpu=evaluation_paths.gpus(CONFIG),
        gpu_share=evaluation_paths.gpu_share(CONFIG),
        device=lambda wildcards: CONFIG.evaluation.device,
        reader=lambda wildcards: CONFIG.evaluation.reader,
    params:
        settings=lambda wildcards: recipe.canonical(
            evaluation.model_settings(CONFIG, model_files_sha256())
        ),
        model=lambda wildcards: evaluation_paths.model_options(CONFIG),
    message:
        "encoding the clean clips of {wildcards.dataset}"
    shell:
        command(
            "perturb rule encode-gallery --settings {params.settings:q} {params.model:q} --sources {input.sources:q}"
            " --device {resources.device:q} --reader {resources.reader:q} --output {output:q} 2> {log:q}"
        )


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
        results=f"{PARTS}/{{direction}}/{{corpus}}/{{level}}/{{group}}.parquet",
        ranks=f"{PARTS}/{{direction}}/{{corpus}}/{{level}}/{{group}}.ranks.parquet",
        pictures=f"{PARTS}/{{direction}}/{{corpus}}/{{level}}/{{group}}.pictures.json",
    log:
        f"{LOGS}/{{direction}}/{{corpus}}/{{level}}/{{group}}.log",
    benchmark:
        f"{BENCHMARKS}/{{direction}}/{{corpus}}/{{level}}/{{group}}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: evaluation_paths.readers(CONFIG)
    resources:
        mem_mb=lambda wildcards, attempt: planned(
            evaluation_sizes.job_memory_mb,
            CONFIG,
            wildcards.dataset,
            job_of(wildcards),
            wildcards.group,
            plan_of(wildcards.dataset),
            attempt,
        ),
        runtime=lambda wildcards, attempt: planned(
            evaluation_sizes.job_minutes,
            CONFIG,
            wildcards.dataset,
            job_of(wildcards),
            wildcards.group,
            plan_of(wildcards.dataset),
            attempt,
        ),
        gpu=evaluation_paths.gpus(CONFIG),
        gpu_share=evaluation_paths.gpu_share(CONFIG),
        device=lambda wildcards: CONFIG.evaluation.device,
        reader=lambda wildcards: CONFIG.evaluation.reader,
    params:
        settings=lambda wildcards: recipe.canonical(
            evaluation.settings(
                CONFIG, wildcards.dataset, job_of(wildcards), wildcards.group, model_files_sha256()
            )
        ),
        model=lambda wildcards: evaluation_paths.model_options(CONFIG),
        asking=lambda wildcards, input: evaluation_paths.query_options(
            wildcards.dataset, job_of(wildcards), dict(input.items())
        ),
    message:
        "{wildcards.direction}, {wildcards.corpus}, {wildcards.level}: {wildcards.group}, on {wildcards.dataset}"
    shell:
        command(
            "perturb rule evaluate --settings {params.settings:q} {params.model:q} --sources {input.sources:q}"
            " --captions {input.captions:q} {params.asking:q} --device {resources.device:q} --reader {resources.reader:q}"
            " --output {output.results:q} --ranks {output.ranks:q} --pictures {output.pictures:q} 2> {log:q}"
        )


rule results:
    input:
        parts=lambda wildcards: planned(
            evaluation_paths.planned_parts, CONFIG, wildcards.dataset, wildcards.kind
        ),
    output:
        results=f"{RESULTS}/results.parquet",
        ranks=f"{RESULTS}/ranks.parquet",
    log:
        f"work/logs/{{dataset}}/{{kind}}/{MODEL_KEY}.log",
    benchmark:
        f"work/benchmarks/{{dataset}}/{{kind}}/{MODEL_KEY}.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        skipped=lambda wildcards: evaluation_paths.skipped(CONFIG, wildcards.dataset),
    message:
        "writing the results of {wildcards.dataset}"
    shell:
        command(
            "perturb rule merge-results --parts {input.parts:q} --skipped {params.skipped:q} --output {output.results:q} --ranks {output.ranks:q} 2> {log:q}"
        )


rule report:
    input:
        results=lambda wildcards: evaluation_paths.report_results(reported()),
        ranks=lambda wildcards: evaluation_paths.report_ranks(CONFIG, reported()),
        pictures=lambda wildcards: evaluation_paths.report_pictures(CONFIG, reported()),
    output:
        report(
            "manifests/report.html", category="evaluation", labels={"page": "tables and figures"}
        ),
    log:
        "work/logs/report.log",
    benchmark:
        "work/benchmarks/report.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        datasets=lambda wildcards: list(CONFIG.datasets),
    message:
        "writing manifests/report.html"
    shell:
        command(
            "perturb report --results {input.results:q} --ranks {input.ranks:q} --pictures {input.pictures:q}"
            " --datasets {params.datasets:q} --output {output:q} 2> {log:q}"
        )
