# Retrieval by a clip and an instruction (composed_<dataset>, egocvr). Instructions are perturbed by the rules `texts` and
# `texts_manifest`, as the captions of the collection <dataset>/composed.
rule composed_split:
    input:
        lambda wildcards: planned(composed_paths.annotation_files, FIRST_MODEL, wildcards.dataset),
        packs=lambda wildcards: in_store("refuse", "composed retrieval"),
    output:
        queries=layout.pattern("composed_queries"),
        qrels=layout.pattern("composed_qrels"),
        galleries=layout.pattern("composed_galleries"),
        pool=layout.pattern("composed_pool"),
        instructions=composed_paths.instructions("{dataset}"),
        rejected=layout.pattern("composed_rejected"),
    log:
        layout.at("log", job="{dataset}/composed/split"),
    benchmark:
        layout.at("benchmark", job="{dataset}/composed/split")
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*",
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(
            composed_paths.split_memory_mib(FIRST_MODEL), attempt
        ),
        runtime=composed_paths.split_minutes(FIRST_MODEL),
        gpu=composed_paths.split_gpus(FIRST_MODEL),
        device=lambda wildcards: composed_paths.split_device(FIRST_MODEL),
    params:
        settings=lambda wildcards: planned(composed.split_settings, FIRST_MODEL, wildcards.dataset),
        folder=lambda wildcards: composed_paths.folder(wildcards.dataset),
    message:
        "making the composed queries of {wildcards.dataset}"
    shell:
        command(
            "perturb rule composed-split --settings {params.settings:q} --output {params.folder:q}"
            " --instructions {output.instructions:q} --rejected {output.rejected:q} --device {resources.device:q} 2> {log:q}"
        )


rule composed_clips:
    input:
        unpack(lambda wildcards: planned(evaluation_paths.model_inputs, FIRST_MODEL)),
        sources=layout.pattern("sources"),
        packs=lambda wildcards: in_store("refuse", "composed retrieval"),
    output:
        composed_paths.features("{dataset}"),
    log:
        layout.at("log", job="{dataset}/composed/features"),
    benchmark:
        layout.at("benchmark", job="{dataset}/composed/features")
    conda:
        "../../envs/perturb.yaml"
    threads: evaluation_paths.readers(FIRST_MODEL)
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(6000, attempt),
        runtime=480,
        gpu=evaluation_paths.gpus(FIRST_MODEL),
        gpu_share=evaluation_paths.gpu_share(FIRST_MODEL),
        device=lambda wildcards: FIRST_MODEL.evaluation.device,
        reader=lambda wildcards: FIRST_MODEL.evaluation.reader,
    params:
        settings=lambda wildcards: composed.feature_settings(
            FIRST_MODEL, first_model_files_sha256()
        ),
        model=lambda wildcards: evaluation_paths.model_options(FIRST_MODEL),
    message:
        "encoding the clips of {wildcards.dataset} for composed retrieval"
    shell:
        command(
            "perturb rule composed-features --settings {params.settings:q} {params.model:q} --sources {input.sources:q}"
            " --device {resources.device:q} --reader {resources.reader:q} --output {output:q} 2> {log:q}"
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
        composed_paths.features("{dataset}", "{suite}", "{level}"),
    log:
        layout.at("log", job="{dataset}/composed/features/{suite}/{level}"),
    benchmark:
        layout.at("benchmark", job="{dataset}/composed/features/{suite}/{level}")
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*",
        suite="(?!clean)[a-z][a-z0-9_]*",
    conda:
        "../../envs/perturb.yaml"
    threads: evaluation_paths.readers(FIRST_MODEL)
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(6000, attempt),
        runtime=1440,
        gpu=evaluation_paths.gpus(FIRST_MODEL),
        gpu_share=evaluation_paths.gpu_share(FIRST_MODEL),
        device=lambda wildcards: FIRST_MODEL.evaluation.device,
        reader=lambda wildcards: FIRST_MODEL.evaluation.reader,
    params:
        parts=layout.folder("video_recipes"),
        shards=layout.folder("shard_list"),
        settings=lambda wildcards: composed.feature_settings(
            FIRST_MODEL, first_model_files_sha256()
        ),
        model=lambda wildcards: evaluation_paths.model_options(FIRST_MODEL),
        names=lambda wildcards: composed_paths.feature_names(
            FIRST_MODEL, wildcards.dataset, wildcards.suite, wildcards.level
        ),
        split=lambda wildcards: composed_paths.folder(wildcards.dataset),
    message:
        "encoding the query clips of {wildcards.dataset} under {wildcards.suite}, {wildcards.level}"
    shell:
        command(
            "perturb rule composed-features --settings {params.settings:q} {params.model:q}"
            " --parts {params.parts:q} --names {params.names:q}"
            " --shards {params.shards:q} --split {params.split:q}"
            " --device {resources.device:q} --reader {resources.reader:q} --output {output:q} 2> {log:q}"
        )


rule composed_evaluate:
    input:
        unpack(
            lambda wildcards: planned(
                composed_paths.inputs, FIRST_MODEL, wildcards.dataset, composed_job_of(wildcards)
            )
        ),
    output:
        results=layout.pattern("composed_part"),
        ranks=layout.pattern("composed_ranks_part"),
    log:
        layout.at("log", job="{dataset}/composed/results/{corpus}/{level}"),
    benchmark:
        layout.at("benchmark", job="{dataset}/composed/results/{corpus}/{level}")
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(4000, attempt),
        runtime=480,
        gpu=evaluation_paths.gpus(FIRST_MODEL),
        gpu_share=evaluation_paths.gpu_share(FIRST_MODEL),
        device=lambda wildcards: FIRST_MODEL.evaluation.device,
    params:
        settings=lambda wildcards: composed.settings(
            FIRST_MODEL, wildcards.dataset, composed_job_of(wildcards), first_model_files_sha256()
        ),
        model=lambda wildcards: evaluation_paths.model_options(FIRST_MODEL),
        asking=lambda wildcards, input: composed_paths.job_options(
            wildcards.dataset, dict(input.items())
        ),
        split=lambda wildcards: composed_paths.folder(wildcards.dataset),
    message:
        "composed retrieval on {wildcards.dataset}, query clips: {wildcards.corpus}, {wildcards.level}"
    shell:
        command(
            "perturb rule composed-scenarios --settings {params.settings:q} {params.model:q} --split {params.split:q}"
            " {params.asking:q} --device {resources.device:q} --output {output.results:q} --ranks {output.ranks:q} 2> {log:q}"
        )


rule composed_results:
    input:
        parts=lambda wildcards: composed_paths.planned_parts(FIRST_MODEL, wildcards.dataset),
    output:
        results=layout.pattern("composed_results"),
        ranks=layout.pattern("composed_ranks"),
    log:
        layout.at("log", job="{dataset}/composed/results"),
    benchmark:
        layout.at("benchmark", job="{dataset}/composed/results")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        protocol=lambda wildcards: evaluation_paths.protocol_options(CONFIG),
    message:
        "writing the results of composed retrieval on {wildcards.dataset}"
    shell:
        command(
            "perturb rule merge-results --parts {input.parts:q} {params.protocol:q}"
            " --output {output.results:q} --ranks {output.ranks:q} 2> {log:q}"
        )
