# The information about a clip that guided perturbations need, once for all severities: motion, main object, embedding.
rule analyses:
    input:
        sources="work/{dataset}/sources/{shard}.parquet",
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
        part="work/{dataset}/analyses/{analysis}/{shard}.parquet",
    log:
        "work/logs/{dataset}/analyses/{analysis}/{shard}.log",
    benchmark:
        "work/benchmarks/{dataset}/analyses/{analysis}/{shard}.tsv"
    priority: 10
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(
            paths.analysis_memory_mb(CONFIG, wildcards.analysis), attempt
        ),
        runtime=240,
        gpu=lambda wildcards: paths.analysis_gpus(CONFIG, wildcards.analysis),
        stall_limit_s=CONFIG.stall_limit_s,
    params:
        recipe=lambda wildcards: paths.analysis_recipe(CONFIG, wildcards.analysis).text,
        captions=lambda wildcards, input: paths.options({"captions": input.captions}),
        folder="work/{dataset}/analyses/{analysis}/files",
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
        "manifests/{dataset}/{analysis}.parquet",
    log:
        "work/logs/{dataset}/analyses/{analysis}.log",
    benchmark:
        "work/benchmarks/{dataset}/analyses/{analysis}.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        dataset=dataset_of,
        recipe=lambda wildcards: paths.analysis_recipe(CONFIG, wildcards.analysis).text,
    message:
        "writing the {wildcards.analysis} manifest of {wildcards.dataset}"
    shell:
        command(
            "perturb rule merge analyses --dataset {params.dataset:q} --shards work/{wildcards.dataset:q}/shards"
            " --parts work/{wildcards.dataset:q}/analyses/{wildcards.analysis:q} --sources work/{wildcards.dataset:q}/sources"
            " --recipe {params.recipe:q} --output {output:q} 2> {log:q}"
        )
