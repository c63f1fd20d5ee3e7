# Jobs of seconds run where Snakemake does: on a cluster, each would wait in its queue and then for the next look at it.
# Captions, and the relevant clip per caption.
rule captions:
    input:
        captions="<work>/{dataset}/captions.jsonl",
        sources="<manifests>/{dataset}/sources.parquet",
    output:
        captions="<manifests>/{dataset}/captions.parquet",
        qrels="<manifests>/{dataset}/qrels.parquet",
    log:
        "<logs>/{dataset}/captions.log",
    benchmark:
        "<benchmarks>/{dataset}/captions.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        dataset=dataset_of,
    shell:
        command(
            "perturb rule captions --dataset {params.dataset:q} --captions {input.captions:q} --sources {input.sources:q}"
            " --output {output.captions:q} --qrels {output.qrels:q} 2> {log:q}"
        )


# Listed captions that cannot be used. Too many of them stop the run, as quarantined clips do.
rule rejected_captions:
    input:
        lists=caption_lists,
        rejected="<work>/{dataset}/rejected_captions.jsonl",
    output:
        "<manifests>/{dataset}/captions_quarantine.parquet",
    log:
        "<logs>/{dataset}/captions_quarantine.log",
    benchmark:
        "<benchmarks>/{dataset}/captions_quarantine.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        captions="work/{dataset}/captions",
    shell:
        command(
            "perturb rule reject-captions --dataset {wildcards.dataset:q} --captions {params.captions:q}"
            " --rejected {input.rejected:q} --output {output:q} 2> {log:q}"
        )


rule check_captions:
    input:
        "<manifests>/{dataset}/captions_quarantine.parquet",
    output:
        "<work>/{dataset}/captions_checked.txt",
    log:
        "<logs>/{dataset}/captions_check.log",
    benchmark:
        "<benchmarks>/{dataset}/captions_check.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        allowed=lambda wildcards: str(CONFIG.max_failed_items_of(wildcards.dataset)),
    shell:
        command(
            "perturb rule check {input:q} --captions --allowed {params.allowed:q} --output {output:q} 2> {log:q}"
        )


# Perturbed captions: one shard under every perturbation at every severity, because a start takes longer than a
# perturbation. The job writes a part per scenario and keeps those that follow their recipe. No video is needed.
rule texts:
    input:
        captions="<work>/{dataset}/captions/{shard}.jsonl",
        recipes=lambda wildcards: planned(
            paths.text_recipes, CONFIG, wildcards.dataset, wildcards.suite
        ),
    output:
        marker="<work>/{dataset}/{suite}/captions/{shard}.json",
    log:
        "<logs>/{dataset}/{suite}/captions/{shard}.log",
    benchmark:
        "<benchmarks>/{dataset}/{suite}/captions/{shard}.tsv"
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*(/composed)?",
    # A target of captions alone takes minutes: it does not wait for the videos of another.
    priority: 20
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards: paths.text_memory_mb(CONFIG),
        runtime=lambda wildcards: paths.text_minutes(CONFIG),
    params:
        # Only for Snakemake, which compares it: the command reads the file, because all recipes are long for a line.
        recipes=lambda wildcards: recipe.canonical(
            texts_of_recipes(wildcards.dataset, wildcards.suite)
        ),
        dataset=dataset_of,
    shell:
        command(
            "perturb rule texts --dataset {params.dataset:q} --recipes {input.recipes:q} --captions {input.captions:q}"
            " --output {output.marker:q} 2> {log:q}"
        )


rule texts_manifest:
    input:
        parts=lambda wildcards: text_markers(wildcards.dataset, wildcards.suite),
        recipes=lambda wildcards: planned(
            paths.text_recipes, CONFIG, wildcards.dataset, wildcards.suite
        ),
        rejected="<work>/{dataset}/rejected_captions.jsonl",
        lists=caption_lists,
    output:
        texts="<manifests>/{dataset}/{suite}/captions.parquet",
        statistics="<manifests>/{dataset}/{suite}/caption_statistics.parquet",
    log:
        "<logs>/{dataset}/{suite}/captions/manifest.log",
    benchmark:
        "<benchmarks>/{dataset}/{suite}/captions/manifest.tsv"
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*(/composed)?",
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=3000,
        runtime=60,
    params:
        captions="work/{dataset}/captions",
        parts="work/{dataset}/{suite}/captions",
        dataset=dataset_of,
        adapter=lambda wildcards: CONFIG.datasets[dataset_of(wildcards)].adapter,
        # A function, because Snakemake reads braces in a plain string as wildcards.
        skipped=lambda wildcards: paths.text_skipped(CONFIG, wildcards.dataset, wildcards.suite),
    shell:
        command(
            "perturb rule merge-texts --dataset {params.dataset:q} --adapter {params.adapter:q} --captions {params.captions:q}"
            " --parts {params.parts:q} --recipes {input.recipes:q}"
            " --rejected {input.rejected:q} --skipped {params.skipped:q}"
            " --output {output.texts:q} --statistics {output.statistics:q} 2> {log:q}"
        )


# Perturbed captions joined with perturbed videos: only rows, no new videos.
rule multimodal:
    input:
        videos="<manifests>/{dataset}/{suite}/videos.parquet",
        texts="<manifests>/{dataset}/{suite}/captions.parquet",
    output:
        "<manifests>/{dataset}/{suite}/multimodal.parquet",
    log:
        "<logs>/{dataset}/{suite}/multimodal.log",
    benchmark:
        "<benchmarks>/{dataset}/{suite}/multimodal.tsv"
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=3000,
        runtime=merge_minutes,
    shell:
        command(
            "perturb rule combine --videos {input.videos:q} --texts {input.texts:q} --output {output:q} 2> {log:q}"
        )
