# The information about a clip that guided perturbations need, once for all severities: motion, main object, embedding.
rule analyses:
    input:
        sources=layout.pattern("source_part"),
        captions=lambda wildcards: paths.analysis_captions(
            wildcards.dataset, wildcards.analysis, wildcards.shard
        ),
        packs=lambda wildcards: in_store(
            "analysis_inputs",
            CONFIG,
            wildcards.dataset,
            wildcards.analysis,
            wildcards.shard,
        ),
    output:
        **PACK_OF_ANALYSES,
        part=layout.pattern("analysis_part"),
    log:
        layout.at("log", job="{dataset}/analyses/{analysis}/{shard}"),
    benchmark:
        layout.at("benchmark", job="{dataset}/analyses/{analysis}/{shard}")
    priority: 10
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(
            paths.analysis_memory_mb(CONFIG, wildcards.analysis), attempt
        ),
        runtime=240,
        gpu=lambda wildcards: paths.analysis_gpus(CONFIG, wildcards.analysis),
        stall_limit_s=CONFIG.timeout_s,
    params:
        recipe=lambda wildcards: paths.analysis_recipe(CONFIG, wildcards.analysis).text,
        captions=lambda wildcards, input: paths.options({"captions": input.captions}),
        folder=layout.pattern("analysis_files"),
    message:
        "{wildcards.analysis} of {wildcards.dataset}, shard {wildcards.shard}"
    shell:
        command(
            "perturb rule analyse --recipe {params.recipe:q} --sources {input.sources:q} {params.captions:q}"
            " --folder {params.folder:q} --output {output.part:q} --stall-limit {resources.stall_limit_s:q} 2> {log:q}"
        )


# One analysis of all clips: an index of donors, or a list of main objects to inspect.
rule analyses_manifest:
    input:
        parts=lambda wildcards: paths.analysis_parts(
            wildcards.dataset, wildcards.analysis, shards_of(wildcards)
        ),
        sources=lambda wildcards: paths.source_parts(wildcards.dataset, shards_of(wildcards)),
        lists=lists_of,
    output:
        layout.pattern("analyses"),
    log:
        layout.at("log", job="{dataset}/analyses/{analysis}"),
    benchmark:
        layout.at("benchmark", job="{dataset}/analyses/{analysis}")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        shards=layout.folder("shard_list"),
        parts=layout.folder("analysis_part"),
        sources=layout.folder("source_part"),
        dataset=dataset_of,
        recipe=lambda wildcards: paths.analysis_recipe(CONFIG, wildcards.analysis).text,
    message:
        "writing the {wildcards.analysis} manifest of {wildcards.dataset}"
    shell:
        command(
            "perturb rule merge analyses --dataset {params.dataset:q} --shards {params.shards:q}"
            " --parts {params.parts:q} --sources {params.sources:q}"
            " --recipe {params.recipe:q} --output {output:q} 2> {log:q}"
        )
