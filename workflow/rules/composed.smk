# Retrieval by a clip and an instruction (composed_<dataset>, egocvr). Instructions are perturbed by the rules `texts` and
# `texts_manifest`, as the captions of the collection <dataset>/composed.
rule composed_split:
    input:
        lambda wildcards: planned(composed_paths.annotation_files, FIRST_MODEL, wildcards.dataset),
    output:
        queries="<manifests>/{dataset}/composed/queries.parquet",
        qrels="<manifests>/{dataset}/composed/qrels.parquet",
        galleries="<manifests>/{dataset}/composed/galleries.parquet",
        pool="<manifests>/{dataset}/composed/pool.parquet",
        instructions="<work>/{dataset}/composed/captions/s0.jsonl",
        rejected="<work>/{dataset}/composed/rejected_captions.jsonl",
    log:
        "<logs>/{dataset}/composed/split.log",
    benchmark:
        "<benchmarks>/{dataset}/composed/split.tsv"
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*",
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=composed_paths.split_memory_mib(FIRST_MODEL),
        runtime=composed_paths.split_minutes(FIRST_MODEL),
        gpu=composed_paths.split_gpus(FIRST_MODEL),
    params:
        settings=lambda wildcards: planned(composed.split_settings, FIRST_MODEL, wildcards.dataset),
        folder=lambda wildcards: composed_paths.folder(wildcards.dataset),
    shell:
        command(
            "perturb rule composed-split --settings {params.settings:q} --output {params.folder:q}"
            " --instructions {output.instructions:q} --rejected {output.rejected:q} 2> {log:q}"
        )


rule composed_clips:
    input:
        unpack(lambda wildcards: planned(evaluation_paths.model_inputs, FIRST_MODEL)),
        sources="<manifests>/{dataset}/sources.parquet",
    output:
        "<work>/{dataset}/composed/features/clean/clean.safetensors",
    log:
        "<logs>/{dataset}/composed/features.log",
    benchmark:
        "<benchmarks>/{dataset}/composed/features.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: evaluation_paths.readers(FIRST_MODEL)
    resources:
        mem_mb=6000,
        runtime=lambda wildcards: evaluation_sizes.encoding_minutes(
            FIRST_MODEL, plan_of(wildcards.dataset), "clips"
        ),
        gpu=evaluation_paths.gpus(FIRST_MODEL),
        gpu_share=evaluation_paths.gpu_share(FIRST_MODEL),
    params:
        settings=lambda wildcards: composed.feature_settings(
            FIRST_MODEL, first_model_files_sha256()
        ),
        model=lambda wildcards: evaluation_paths.model_options(FIRST_MODEL),
    shell:
        command(
            "perturb rule composed-features --settings {params.settings:q} {params.model:q} --sources {input.sources:q}"
            " --output {output:q} 2> {log:q}"
        )


rule composed_queries:
    input:
        unpack(
            lambda wildcards: planned(
                composed_paths.feature_inputs,
                FIRST_MODEL,
                wildcards.dataset,
                wildcards.suite,
                wildcards.level,
                plan_of,
            )
        ),
    output:
        "<work>/{dataset}/composed/features/{suite}/{level}.safetensors",
    log:
        "<logs>/{dataset}/composed/features/{suite}/{level}.log",
    benchmark:
        "<benchmarks>/{dataset}/composed/features/{suite}/{level}.tsv"
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*",
        suite="(?!clean)[a-z][a-z0-9_]*",
    conda:
        "../../envs/perturb.yaml"
    threads: evaluation_paths.readers(FIRST_MODEL)
    resources:
        mem_mb=6000,
        runtime=lambda wildcards: composed_paths.feature_minutes(
            FIRST_MODEL, wildcards.dataset, wildcards.suite, wildcards.level, plan_of
        ),
        gpu=evaluation_paths.gpus(FIRST_MODEL),
        gpu_share=evaluation_paths.gpu_share(FIRST_MODEL),
    params:
        parts="work/{dataset}/{suite}",
        shards="work/{dataset}/shards",
        settings=lambda wildcards: composed.feature_settings(
            FIRST_MODEL, first_model_files_sha256()
        ),
        model=lambda wildcards: evaluation_paths.model_options(FIRST_MODEL),
        names=lambda wildcards: composed_paths.feature_names(
            FIRST_MODEL, wildcards.dataset, wildcards.suite, wildcards.level
        ),
        split=lambda wildcards: composed_paths.folder(wildcards.dataset),
    shell:
        command(
            "perturb rule composed-features --settings {params.settings:q} {params.model:q}"
            " --parts {params.parts:q} --names {params.names:q}"
            " --shards {params.shards:q} --split {params.split:q}"
            " --output {output:q} 2> {log:q}"
        )


rule composed_evaluate:
    input:
        unpack(
            lambda wildcards: planned(
                composed_paths.inputs, FIRST_MODEL, wildcards.dataset, composed_job_of(wildcards)
            )
        ),
    output:
        results="<work>/{dataset}/composed/results/{corpus}/{level}.parquet",
        ranks="<work>/{dataset}/composed/results/{corpus}/{level}.ranks.parquet",
    log:
        "<logs>/{dataset}/composed/results/{corpus}/{level}.log",
    benchmark:
        "<benchmarks>/{dataset}/composed/results/{corpus}/{level}.tsv"
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=4000,
        runtime=lambda wildcards: composed_paths.job_minutes(
            FIRST_MODEL, wildcards.dataset, composed_job_of(wildcards), plan_of
        ),
        gpu=evaluation_paths.gpus(FIRST_MODEL),
        gpu_share=evaluation_paths.gpu_share(FIRST_MODEL),
    params:
        settings=lambda wildcards: composed.settings(
            FIRST_MODEL, wildcards.dataset, composed_job_of(wildcards), first_model_files_sha256()
        ),
        model=lambda wildcards: evaluation_paths.model_options(FIRST_MODEL),
        asking=lambda wildcards, input: composed_paths.job_options(dict(input.items())),
        split=lambda wildcards: composed_paths.folder(wildcards.dataset),
    shell:
        command(
            "perturb rule composed-scenarios --settings {params.settings:q} {params.model:q} --split {params.split:q}"
            " {params.asking:q} --output {output.results:q} --ranks {output.ranks:q} 2> {log:q}"
        )


rule composed_results:
    input:
        parts=lambda wildcards: composed_paths.result_parts(FIRST_MODEL, wildcards.dataset),
    output:
        results="<manifests>/{dataset}/composed/results.parquet",
        ranks="<manifests>/{dataset}/composed/ranks.parquet",
    log:
        "<logs>/{dataset}/composed/results.log",
    benchmark:
        "<benchmarks>/{dataset}/composed/results.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        protocol=lambda wildcards: evaluation_paths.protocol_options(CONFIG),
    shell:
        command(
            "perturb rule merge-results --parts {input.parts:q} {params.protocol:q}"
            " --output {output.results:q} --ranks {output.ranks:q} 2> {log:q}"
        )
