# The clean clips: each is decoded completely once, so that later jobs know its frames and properties.
# `timeout_s` is a resource, not a param, because it decides when a file is given up, and never changes a result.
rule sources:
    input:
        listed=layout.pattern("shard_list"),
        packs=lambda wildcards: in_store(
            "original_packs", CONFIG, wildcards.dataset, [wildcards.shard]
        ),
    output:
        **PACK_OF_SOURCES,
        part=layout.pattern("source_part"),
    log:
        layout.at("log", job="{dataset}/sources/{shard}"),
    benchmark:
        layout.at("benchmark", job="{dataset}/sources/{shard}")
    # Before videos: a damaged file is named early, and what does not need videos can begin.
    priority: 10
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(1000, attempt),
        runtime=240,
        stall_limit_s=CONFIG.timeout_s,
    params:
        dataset=dataset_of,
        # `version` changes when decoding does.
        recipe=lambda wildcards: recipe.canonical({"version": 1}),
        demo=lambda wildcards: paths.demo_option(CONFIG, wildcards.dataset),
    message:
        "reading the clips of {wildcards.dataset}, shard {wildcards.shard}"
    shell:
        command(
            "perturb rule sources --dataset {params.dataset:q} --listed {input.listed:q} {params.demo:q} --output {output.part:q}"
            " --stall-limit {resources.stall_limit_s:q} 2> {log:q}"
        )
