# The parts of all shards are merged into one manifest. A run with too many failures fails at its end and lists them.
rule sources_manifest:
    input:
        parts=lambda wildcards: paths.of_shards(
            "source_part", wildcards.dataset, shards_of(wildcards)
        ),
        rejected="<work>/{dataset}/rejected.jsonl",
        lists=shard_lists,
    output:
        "<manifests>/{dataset}/sources.parquet",
    log:
        "<logs>/{dataset}/sources.log",
    benchmark:
        "<benchmarks>/{dataset}/sources.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        shards="work/{dataset}/shards",
        parts="work/{dataset}/sources",
        dataset=dataset_of,
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
        clips=markers_of,
        sources="<manifests>/{dataset}/sources.parquet",
        recipes=lambda wildcards: planned(
            paths.video_recipes, CONFIG, wildcards.dataset, wildcards.suite
        ),
        lists=shard_lists,
    output:
        videos="<manifests>/{dataset}/{suite}/videos.parquet",
        quarantine="<manifests>/{dataset}/{suite}/quarantine.parquet",
        card="<manifests>/{dataset}/{suite}/README.md",
    log:
        "<logs>/{dataset}/{suite}/manifest.log",
    benchmark:
        "<benchmarks>/{dataset}/{suite}/manifest.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=2000,
        runtime=merge_minutes,
    params:
        shards="work/{dataset}/shards",
        parts="work/{dataset}/{suite}",
        dataset=dataset_of,
        adapter=lambda wildcards: CONFIG.datasets[dataset_of(wildcards)].adapter,
        # Their numbers, not their list: a corrected caption alone does not make the manifest again.
        captions=lambda wildcards: paths.caption_counts(plan_of(wildcards.dataset)),
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
        videos="<manifests>/{dataset}/{suite}/videos.parquet",
        sources="<manifests>/{dataset}/sources.parquet",
    output:
        severities="<manifests>/{dataset}/{suite}/mixed_severity.parquet",
        types="<manifests>/{dataset}/{suite}/mixed_types.parquet",
    log:
        "<logs>/{dataset}/{suite}/mixes.log",
    benchmark:
        "<benchmarks>/{dataset}/{suite}/mixes.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=2000,
        runtime=merge_minutes,
    shell:
        command(
            "perturb rule mix --videos {input.videos:q} --sources {input.sources:q} --severities {output.severities:q}"
            " --types {output.types:q} 2> {log:q}"
        )


rule check_quarantine:
    input:
        "<manifests>/{dataset}/{suite}/quarantine.parquet",
    output:
        "<work>/{dataset}/{suite}/checked.txt",
    log:
        "<logs>/{dataset}/{suite}/check.log",
    benchmark:
        "<benchmarks>/{dataset}/{suite}/check.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        allowed=lambda wildcards: str(CONFIG.max_failed_items_of(dataset_of(wildcards))),
    shell:
        command(
            "perturb rule check {input:q} --allowed {params.allowed:q} --output {output:q} 2> {log:q}"
        )
