# Retrieval on the corpora: without adaptation (evaluate_<dataset>) and with test-time adaptation (tta_<dataset>).
wildcard_constraints:
    direction="v2t|t2v",
    side="none|query|gallery|both",
    modality="|".join(evaluation.MODALITIES),
    model="|".join(MODELS),
    group="[a-z0-9_-]+",
    kind="|".join(evaluation_paths.KINDS),


# Before all other jobs: a folder without its tokenizer would otherwise be found after hours, or never.
rule check_model:
    input:
        unpack(lambda wildcards: planned(evaluation_paths.model_inputs, of_model(wildcards))),
    output:
        "<work>/models/{model}.json",
    log:
        "<logs>/models/{model}.log",
    benchmark:
        "<benchmarks>/models/{model}.tsv"
    priority: 100
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards: evaluation_sizes.model_memory_mb(of_model(wildcards)),
        runtime=30,
        gpu=lambda wildcards: evaluation_paths.gpus(of_model(wildcards)),
        gpu_share=lambda wildcards: evaluation_paths.gpu_share(of_model(wildcards)),
    params:
        settings=lambda wildcards: recipe.canonical(
            evaluation.model_settings(of_model(wildcards), model_files_sha256(wildcards.model))
        ),
        model=lambda wildcards: evaluation_paths.model_options(of_model(wildcards)),
    shell:
        command(
            "perturb rule check-model --settings {params.settings:q} --model {wildcards.model:q} {params.model:q}"
            " --output {output:q} 2> {log:q}"
        )


rule gallery:
    input:
        unpack(lambda wildcards: planned(evaluation_paths.loaded_inputs, of_model(wildcards))),
        unpack(
            lambda wildcards: evaluation_paths.encoded_inputs(
                wildcards.dataset, wildcards.modality
            )
        ),
    output:
        "<work>/{dataset}/evaluation/{model}/{modality}.safetensors",
    log:
        "<logs>/{dataset}/evaluation/{model}/{modality}.log",
    benchmark:
        "<benchmarks>/{dataset}/evaluation/{model}/{modality}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: lambda wildcards: evaluation_paths.readers(of_model(wildcards))
    resources:
        mem_mb=lambda wildcards: evaluation_sizes.gallery_memory_mb(
            of_model(wildcards), plan_of(wildcards.dataset)
        ),
        runtime=lambda wildcards: evaluation_sizes.encoding_minutes(
            of_model(wildcards), plan_of(wildcards.dataset), wildcards.modality
        ),
        gpu=lambda wildcards: evaluation_paths.gpus(of_model(wildcards)),
        gpu_share=lambda wildcards: evaluation_paths.gpu_share(of_model(wildcards)),
    params:
        settings=lambda wildcards: recipe.canonical(
            evaluation.model_settings(of_model(wildcards), model_files_sha256(wildcards.model))
        ),
        model=lambda wildcards: evaluation_paths.model_options(of_model(wildcards)),
        rows=lambda wildcards: paths.options(
            evaluation_paths.encoded_inputs(wildcards.dataset, wildcards.modality)
        ),
    shell:
        command(
            "perturb rule encode-gallery --settings {params.settings:q} --model {wildcards.model:q} {params.model:q} {params.rows:q}"
            " --output {output:q} 2> {log:q}"
        )


# The device and the reader are resources, not params, because they decide where and with what a job runs, and not what
# its result is.
rule evaluate:
    input:
        unpack(
            lambda wildcards: planned(
                evaluation_paths.inputs, *arguments_of_job(wildcards), plan_of, caption_shards
            )
        ),
    output:
        results="<work>/{dataset}/evaluation/{model}/{direction}/{side}/{corpus}/{level}/{group}.parquet",
        ranks="<work>/{dataset}/evaluation/{model}/{direction}/{side}/{corpus}/{level}/{group}.ranks.parquet",
    log:
        "<logs>/{dataset}/evaluation/{model}/{direction}/{side}/{corpus}/{level}/{group}.log",
    benchmark:
        "<benchmarks>/{dataset}/evaluation/{model}/{direction}/{side}/{corpus}/{level}/{group}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: lambda wildcards: evaluation_paths.readers(of_model(wildcards))
    resources:
        mem_mb=lambda wildcards: planned(
            evaluation_sizes.job_memory_mb,
            *arguments_of_job(wildcards),
            plan_of(wildcards.dataset),
        ),
        runtime=lambda wildcards: planned(
            evaluation_sizes.job_minutes,
            *arguments_of_job(wildcards),
            plan_of(wildcards.dataset),
        ),
        gpu=lambda wildcards: evaluation_paths.gpus(of_model(wildcards)),
        gpu_share=lambda wildcards: evaluation_paths.gpu_share(of_model(wildcards)),
    params:
        settings=lambda wildcards: recipe.canonical(
            evaluation.settings(*arguments_of_job(wildcards), model_files_sha256(wildcards.model))
        ),
        model=lambda wildcards: evaluation_paths.model_options(of_model(wildcards)),
        rejected=lambda wildcards: plan_of(wildcards.dataset).rejected_captions,
        asking=lambda wildcards, input: evaluation_paths.asking_options(
            wildcards.dataset, job_of(wildcards), dict(input.items())
        ),
    shell:
        command(
            "perturb rule evaluate --settings {params.settings:q} --model {wildcards.model:q} {params.model:q} --sources {input.sources:q}"
            " --captions {input.captions:q} --rejected {params.rejected:q} {params.asking:q}"
            " --output {output.results:q} --ranks {output.ranks:q} 2> {log:q}"
        )


rule results:
    input:
        parts=lambda wildcards: planned(
            evaluation_paths.result_parts, of_model(wildcards), wildcards.dataset, wildcards.kind
        ),
    output:
        results="<manifests>/{dataset}/{kind}/{model}/results.parquet",
        ranks="<manifests>/{dataset}/{kind}/{model}/ranks.parquet",
    log:
        "<logs>/{dataset}/{kind}/{model}.log",
    benchmark:
        "<benchmarks>/{dataset}/{kind}/{model}.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        skipped=lambda wildcards: evaluation_paths.skipped(CONFIG, wildcards.dataset),
        protocol=lambda wildcards: evaluation_paths.protocol_options(CONFIG),
    shell:
        command(
            "perturb rule merge-results --parts {input.parts:q} --skipped {params.skipped:q} {params.protocol:q}"
            " --output {output.results:q} --ranks {output.ranks:q} 2> {log:q}"
        )


rule report:
    input:
        results=lambda wildcards: [
            *[entry.results for entry in reported()],
            *further_results("results"),
        ],
        ranks=lambda wildcards: [
            *evaluation_paths.report_ranks(CONFIG, reported()),
            *further_results("ranks"),
        ],
    output:
        page=report(
            "<manifests>/report.html",
            category="evaluation",
            labels={**OF_FOLDER, "page": "tables and figures"},
        ),
        tables=directory("<manifests>/report.tables"),
    log:
        "<logs>/report.log",
    benchmark:
        "<benchmarks>/report.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        datasets=lambda wildcards: list(CONFIG.datasets),
    shell:
        command(
            "perturb report --results {input.results:q} --ranks {input.ranks:q}"
            " --datasets {params.datasets:q} --output {output.page:q} 2> {log:q}"
        )
