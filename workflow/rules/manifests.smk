# The parts of all shards are merged into one manifest. A run with too many failures fails at its end and lists them.
rule sources_manifest:
    input:
        parts=lambda wildcards: paths.source_parts(wildcards.dataset, shards_of(wildcards)),
        rejected=layout.pattern("rejected"),
        lists=lists_of,
    output:
        layout.pattern("sources"),
    log:
        layout.at("log", job="{dataset}/sources"),
    benchmark:
        layout.at("benchmark", job="{dataset}/sources")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        shards=layout.folder("shard_list"),
        parts=layout.folder("source_part"),
        dataset=dataset_of,
    message:
        "writing the sources manifest of {wildcards.dataset}"
    shell:
        command(
            "perturb rule merge sources --dataset {params.dataset:q} --shards {params.shards:q}"
            " --parts {params.parts:q} --rejected {input.rejected:q}"
            " --output {output:q} 2> {log:q}"
        )


rule videos_manifest:
    input:
        parts=lambda wildcards: paths.video_parts(
            CONFIG, wildcards.dataset, wildcards.suite, shards_of(wildcards)
        ),
        sources=layout.pattern("sources"),
        recipes=lambda wildcards: planned(
            paths.video_recipes, CONFIG, wildcards.dataset, wildcards.suite
        ),
        lists=lists_of,
    output:
        videos=layout.pattern("videos"),
        quarantine=layout.pattern("quarantine"),
        card=layout.pattern("card"),
    log:
        layout.at("log", job="{dataset}/{suite}/manifest"),
    benchmark:
        layout.at("benchmark", job="{dataset}/{suite}/manifest")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        shards=layout.folder("shard_list"),
        parts=layout.folder("video_recipes"),
        dataset=dataset_of,
        adapter=lambda wildcards: CONFIG.datasets[dataset_of(wildcards)].adapter,
        # Their numbers, not their list: a corrected caption alone does not make the manifest again.
        captions=lambda wildcards: paths.caption_counts(plan_of(wildcards.dataset)),
    message:
        "writing the manifest of {wildcards.suite} on {wildcards.dataset}"
    shell:
        command(
            "perturb rule merge-videos --dataset {params.dataset:q} --adapter {params.adapter:q} --suite {wildcards.suite:q}"
            " --shards {params.shards:q} --parts {params.parts:q}"
            " --recipes {input.recipes:q}"
            " --sources {input.sources:q} --quarantine {output.quarantine:q} --card {output.card:q}"
            " --captions {params.captions:q} --output {output.videos:q} 2> {log:q}"
        )


# Mixed manifests: rows that point at the videos of the single scenarios.
rule mixes:
    input:
        videos=layout.pattern("videos"),
        sources=layout.pattern("sources"),
    output:
        severities=layout.pattern("mixed_severity"),
        types=layout.pattern("mixed_types"),
    log:
        layout.at("log", job="{dataset}/{suite}/mixes"),
    benchmark:
        layout.at("benchmark", job="{dataset}/{suite}/mixes")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    message:
        "mixing severities and types of {wildcards.suite} on {wildcards.dataset}"
    shell:
        command(
            "perturb rule mix --videos {input.videos:q} --sources {input.sources:q} --severities {output.severities:q}"
            " --types {output.types:q} 2> {log:q}"
        )


rule check_quarantine:
    input:
        layout.pattern("quarantine"),
    output:
        layout.pattern("videos_checked"),
    log:
        layout.at("log", job="{dataset}/{suite}/check"),
    benchmark:
        layout.at("benchmark", job="{dataset}/{suite}/check")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        allowed=lambda wildcards: str(CONFIG.max_failed_items_of(dataset_of(wildcards))),
    message:
        "checking the quarantine of {wildcards.suite} on {wildcards.dataset}"
    shell:
        command(
            "perturb rule check {input:q} --allowed {params.allowed:q} --output {output:q} 2> {log:q}"
        )
