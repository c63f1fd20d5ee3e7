# The information about a clip that guided perturbations need, once for all severities: motion, main object, embedding.
rule analyses:
    input:
        sources="<work>/{dataset}/sources/{shard}.parquet",
        captions=lambda wildcards: paths.analysis_captions(
            wildcards.dataset, wildcards.analysis, wildcards.shard
        ),
    output:
        part="<work>/{dataset}/analyses/{analysis}/{shard}.parquet",
    log:
        "<logs>/{dataset}/analyses/{analysis}/{shard}.log",
    benchmark:
        "<benchmarks>/{dataset}/analyses/{analysis}/{shard}.tsv"
    priority: 10
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards: paths.analysis_memory_mb(
            CONFIG, wildcards.analysis, size_of(wildcards)
        ),
        runtime=lambda wildcards: paths.analysis_minutes(
            CONFIG, wildcards.analysis, size_of(wildcards)
        ),
        gpu=lambda wildcards: paths.analysis_gpus(CONFIG, wildcards.analysis),
    params:
        recipe=lambda wildcards: paths.analysis_recipe(CONFIG, wildcards.analysis).text,
        captions=lambda wildcards, input: paths.options({"captions": input.captions}),
        folder="work/{dataset}/analyses/{analysis}/files",
    shell:
        command(
            "perturb rule analyse --recipe {params.recipe:q} --sources {input.sources:q} {params.captions:q}"
            " --folder {params.folder:q} --output {output.part:q} 2> {log:q}"
        )


# One analysis of all clips: an index of donors, or a list of main objects to inspect.
rule analyses_manifest:
    input:
        parts=lambda wildcards: paths.of_shards(
            "analysis_part", wildcards.dataset, shards_of(wildcards), analysis=wildcards.analysis
        ),
        sources=lambda wildcards: paths.of_shards(
            "source_part", wildcards.dataset, shards_of(wildcards)
        ),
        lists=shard_lists,
    output:
        "<manifests>/{dataset}/{analysis}.parquet",
    log:
        "<logs>/{dataset}/analyses/{analysis}.log",
    benchmark:
        "<benchmarks>/{dataset}/analyses/{analysis}.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        shards="work/{dataset}/shards",
        parts="work/{dataset}/analyses/{analysis}",
        sources="work/{dataset}/sources",
        dataset=dataset_of,
        recipe=lambda wildcards: paths.analysis_recipe(CONFIG, wildcards.analysis).text,
    shell:
        command(
            "perturb rule merge analyses --dataset {params.dataset:q} --shards {params.shards:q}"
            " --parts {params.parts:q} --sources {params.sources:q}"
            " --recipe {params.recipe:q} --output {output:q} 2> {log:q}"
        )
