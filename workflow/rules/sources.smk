# The clean clips: each is decoded completely once, so that later jobs know its frames and properties.
rule sources:
    input:
        listed="<work>/{dataset}/shards/{shard}.jsonl",
    output:
        part="<work>/{dataset}/sources/{shard}.parquet",
    log:
        "<logs>/{dataset}/sources/{shard}.log",
    benchmark:
        "<benchmarks>/{dataset}/sources/{shard}.tsv"
    # Before videos: a damaged file is named early, and what does not need videos can begin.
    priority: 10
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards: costs.memory_mb(size_of(wildcards), 1000),
        runtime=lambda wildcards: costs.minutes(size_of(wildcards), costs.SOURCES),
    params:
        dataset=dataset_of,
        # `version` changes when decoding does.
        recipe=lambda wildcards: recipe.canonical({"version": 1}),
        demo=lambda wildcards: paths.demo_option(CONFIG, wildcards.dataset),
    shell:
        command(
            "perturb rule sources --dataset {params.dataset:q} --listed {input.listed:q} {params.demo:q} --output {output.part:q}"
            " 2> {log:q}"
        )
