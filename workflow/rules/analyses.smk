# What guided perturbations must know of a clip, once for all severities: its motion, its main object, its embedding.
rule analyses:
    input:
        sources="work/{dataset}/sources/{shard}.parquet",
        captions=lambda wildcards: (
            "work/{dataset}/analyses/main_object/{shard}.parquet"
            if wildcards.analysis == "caption_embedding"
            else []
        ),
    output:
        "work/{dataset}/analyses/{analysis}/{shard}.parquet",
    log:
        "work/logs/{dataset}/analyses/{analysis}/{shard}.log",
    benchmark:
        "work/benchmarks/{dataset}/analyses/{analysis}/{shard}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards: analysis_memory_mb(wildcards.analysis),
        runtime=240,
        stall_limit_s=CONFIG.stall_limit_s,
    params:
        recipe=lambda wildcards: analysis_recipe(wildcards).text,
        captions=lambda wildcards, input: f"--captions {input.captions}" if input.captions else "",
        folder="work/{dataset}/analyses/{analysis}/files",
    message:
        "{wildcards.analysis} of {wildcards.dataset}, shard {wildcards.shard}"
    shell:
        "perturb analyse --recipe {params.recipe:q} --sources {input.sources} {params.captions}"
        " --folder {params.folder} --output {output} --stall-limit {resources.stall_limit_s} 2> {log}"


# The same analysis of all clips: an index of donors, or a list of main objects to look at.
rule analyses_manifest:
    input:
        parts=lambda wildcards: expand(
            "work/{{dataset}}/analyses/{{analysis}}/{shard}.parquet",
            shard=plan_of(wildcards.dataset).shards,
        ),
        sources=lambda wildcards: expand(
            "work/{{dataset}}/sources/{shard}.parquet", shard=plan_of(wildcards.dataset).shards
        ),
    output:
        "manifests/{dataset}/{analysis}.parquet",
    log:
        "work/logs/{dataset}/analyses/{analysis}.log",
    benchmark:
        "work/benchmarks/{dataset}/analyses/{analysis}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        dataset=dataset_of,
        recipe=lambda wildcards: analysis_recipe(wildcards).text,
    message:
        "writing the {wildcards.analysis} manifest of {wildcards.dataset}"
    shell:
        "perturb merge analyses --dataset {params.dataset} --shards work/{wildcards.dataset}/shards"
        " --parts work/{wildcards.dataset}/analyses/{wildcards.analysis} --sources work/{wildcards.dataset}/sources"
        " --recipe {params.recipe:q} --output {output} 2> {log}"
