# Jobs of seconds run where Snakemake does: on a cluster, each would wait in its queue and then for the next look at it.
# Captions, and the relevant clip per caption.
rule captions:
    input:
        captions=layout.pattern("all_captions"),
        sources=layout.pattern("sources"),
    output:
        captions=layout.pattern("captions"),
        qrels=layout.pattern("qrels"),
    log:
        layout.at("log", job="{dataset}/captions"),
    benchmark:
        layout.at("benchmark", job="{dataset}/captions")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        dataset=dataset_of,
    message:
        "writing the captions of {wildcards.dataset}"
    shell:
        command(
            "perturb rule captions --dataset {params.dataset:q} --captions {input.captions:q} --sources {input.sources:q}"
            " --output {output.captions:q} --qrels {output.qrels:q} 2> {log:q}"
        )


# Listed captions that cannot be used. Too many of them stop the run, as quarantined clips do.
rule rejected_captions:
    input:
        lists=lambda wildcards: paths.caption_lists(
            wildcards.dataset, caption_shards(wildcards.dataset)
        ),
        rejected=layout.pattern("rejected_captions"),
    output:
        layout.pattern("captions_quarantine"),
    log:
        layout.at("log", job="{dataset}/captions_quarantine"),
    benchmark:
        layout.at("benchmark", job="{dataset}/captions_quarantine")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        captions=layout.folder("caption_list"),
    message:
        "listing the captions of {wildcards.dataset} that cannot be used"
    shell:
        command(
            "perturb rule reject-captions --dataset {wildcards.dataset:q} --captions {params.captions:q}"
            " --rejected {input.rejected:q} --output {output:q} 2> {log:q}"
        )


rule check_captions:
    input:
        layout.pattern("captions_quarantine"),
    output:
        layout.pattern("captions_checked"),
    log:
        layout.at("log", job="{dataset}/captions_check"),
    benchmark:
        layout.at("benchmark", job="{dataset}/captions_check")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        allowed=lambda wildcards: str(CONFIG.max_failed_items_of(wildcards.dataset)),
    message:
        "checking the quarantined captions of {wildcards.dataset}"
    shell:
        command(
            "perturb rule check {input:q} --captions --allowed {params.allowed:q} --output {output:q} 2> {log:q}"
        )


# Perturbed captions: one shard under one perturbation at one severity. No video is needed.
rule texts:
    input:
        layout.pattern("caption_list"),
    output:
        layout.pattern("text_part"),
    log:
        layout.at("log", job="{dataset}/{suite}/captions/{perturbation}/{severity}/{shard}"),
    benchmark:
        layout.at("benchmark", job="{dataset}/{suite}/captions/{perturbation}/{severity}/{shard}")
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*(/composed)?",
    # A target of captions alone takes minutes: it does not wait for the videos of another.
    priority: 20
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(paths.text_memory_mb(CONFIG), attempt),
        runtime=240,
    params:
        similarities=layout.pattern("similarities"),
        recipe=lambda wildcards: caption_recipes.from_config(
            CONFIG,
            dataset_of(wildcards),
            wildcards.suite,
            wildcards.perturbation,
            int(wildcards.severity),
        ).text,
        dataset=dataset_of,
    message:
        "{wildcards.suite}/{wildcards.perturbation} severity {wildcards.severity} on the captions of"
        " {wildcards.dataset}, shard {wildcards.shard}"
    shell:
        command(
            "perturb rule texts --dataset {params.dataset:q} --recipe {params.recipe:q} --captions {input:q} --output {output:q}"
            " --similarities {params.similarities:q} 2> {log:q}"
        )


rule texts_manifest:
    input:
        parts=lambda wildcards: planned(
            paths.text_parts,
            CONFIG,
            wildcards.dataset,
            wildcards.suite,
            caption_shards(wildcards.dataset),
        ),
        recipes=lambda wildcards: planned(
            paths.text_recipes, CONFIG, wildcards.dataset, wildcards.suite
        ),
        rejected=layout.pattern("rejected_captions"),
        lists=lambda wildcards: in_store(
            lambda: paths.caption_lists(wildcards.dataset, caption_shards(wildcards.dataset))
        ),
    output:
        texts=layout.pattern("texts"),
        statistics=layout.pattern("text_statistics"),
        page=report(
            layout.pattern("caption_page"),
            category="{suite}",
            labels={**OF_FOLDER, "dataset": "{dataset}", "picture": "captions, before and after"},
        ),
    log:
        layout.at("log", job="{dataset}/{suite}/captions/manifest"),
    benchmark:
        layout.at("benchmark", job="{dataset}/{suite}/captions/manifest")
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*(/composed)?",
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(3000, attempt),
        runtime=60,
    params:
        captions=layout.folder("caption_list"),
        parts=layout.folder("text_recipes"),
        dataset=dataset_of,
        adapter=lambda wildcards: CONFIG.datasets[dataset_of(wildcards)].adapter,
        # A function, because Snakemake reads braces in a plain string as wildcards.
        skipped=lambda wildcards: paths.text_skipped(CONFIG, wildcards.dataset, wildcards.suite),
    message:
        "writing the perturbed captions of {wildcards.suite} on {wildcards.dataset}"
    shell:
        command(
            "perturb rule merge-texts --dataset {params.dataset:q} --adapter {params.adapter:q} --captions {params.captions:q}"
            " --parts {params.parts:q} --recipes {input.recipes:q}"
            " --rejected {input.rejected:q} --skipped {params.skipped:q}"
            " --output {output.texts:q} --statistics {output.statistics:q} --page {output.page:q} 2> {log:q}"
        )


# Perturbed captions joined with perturbed videos: only rows, no new videos.
rule multimodal:
    input:
        videos=layout.pattern("videos"),
        texts=layout.pattern("texts"),
    output:
        layout.pattern("multimodal"),
    log:
        layout.at("log", job="{dataset}/{suite}/multimodal"),
    benchmark:
        layout.at("benchmark", job="{dataset}/{suite}/multimodal")
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(3000, attempt),
        runtime=30,
    message:
        "joining captions and videos of {wildcards.suite} on {wildcards.dataset}"
    shell:
        command(
            "perturb rule combine --videos {input.videos:q} --texts {input.texts:q} --output {output:q} 2> {log:q}"
        )
