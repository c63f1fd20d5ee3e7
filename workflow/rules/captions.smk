# Jobs of seconds run where Snakemake does: on a cluster, each would wait in its queue and then for the next look at it.
# Captions, and the relevant clip per caption.
rule captions:
    input:
        listed="work/{dataset}/lists/captions.jsonl",
        sources="manifests/{dataset}/sources.parquet",
    output:
        captions="manifests/{dataset}/captions.parquet",
        qrels="manifests/{dataset}/qrels.parquet",
    log:
        "work/logs/{dataset}/captions.log",
    localrule: True
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    params:
        settings=JOBS.origin,
    shell:
        "perturb rule captions {params.settings:q} --listed {input.listed:q} --sources {input.sources:q}"
        " --captions {output.captions:q} --qrels {output.qrels:q} 2> {log:q}"


# Questions of multiple choice about the clips: also about those that turn out to be unusable.
rule questions:
    input:
        "work/{dataset}/lists/questions.jsonl",
    output:
        "manifests/{dataset}/questions.parquet",
    log:
        "work/logs/{dataset}/questions.log",
    localrule: True
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    params:
        settings=JOBS.dataset,
    shell:
        "perturb rule questions {params.settings:q} --listed {input:q} --output {output:q} 2> {log:q}"


# Listed captions that cannot be used. Too many of them stop the run, as quarantined clips do.
rule rejected_captions:
    input:
        lists=JOBS.of_caption_shards("work/{dataset}/captions/{shard}.jsonl"),
        rejected="work/{dataset}/rejected_captions.jsonl",
    output:
        "manifests/{dataset}/captions_quarantine.parquet",
    log:
        "work/logs/{dataset}/captions_quarantine.log",
    localrule: True
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    params:
        settings=JOBS.dataset,
        work=JOBS.work,
    shell:
        "perturb rule rejected_captions {params.settings:q} --work {params.work:q} --rejected {input.rejected:q}"
        " --output {output:q} 2> {log:q}"


rule check_captions:
    input:
        "manifests/{dataset}/captions_quarantine.parquet",
    output:
        "work/{dataset}/captions_checked.txt",
    log:
        "work/logs/{dataset}/captions_check.log",
    localrule: True
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    params:
        settings=JOBS.allowed_failures,
    shell:
        "perturb rule check_captions {params.settings:q} --quarantine {input:q} --output {output:q} 2> {log:q}"


# Perturbed captions: one shard under every perturbation at every severity, because a start takes longer than a
# perturbation. The job writes a part per scenario and keeps those that follow their recipe. No video is needed.
rule texts:
    input:
        captions="work/{dataset}/captions/{shard}.jsonl",
        recipes=JOBS.text_recipes,
    output:
        "work/{dataset}/{suite}/captions/{shard}.json",
    log:
        "work/logs/{dataset}/{suite}/captions/{shard}.log",
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*(/composed)?",
    # A target of captions alone takes minutes: it does not wait for the videos of another.
    priority: 20
    resources:
        mem_mb=megabytes(JOBS.text_mb),
        runtime=minutes(JOBS.text_minutes),
    params:
        settings=JOBS.dataset,
        recipes=JOBS.text_recipe_texts,
    shell:
        "perturb rule texts {params.settings:q} --recipes {input.recipes:q} --captions {input.captions:q}"
        " --marker {output:q} 2> {log:q}"


rule texts_manifest:
    input:
        parts=JOBS.of_caption_shards("work/{dataset}/{suite}/captions/{shard}.json"),
        recipes=JOBS.text_recipes,
        rejected="work/{dataset}/rejected_captions.jsonl",
        lists=JOBS.of_caption_shards("work/{dataset}/captions/{shard}.jsonl"),
    output:
        texts="manifests/{dataset}/{suite}/captions.parquet",
        statistics="manifests/{dataset}/{suite}/caption_statistics.parquet",
    log:
        "work/logs/{dataset}/{suite}/captions/manifest.log",
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*(/composed)?",
    resources:
        mem_mb=megabytes(3000),
        runtime=minutes(60),
    params:
        settings=JOBS.texts_settings,
        work=JOBS.work,
    shell:
        "perturb rule texts_manifest {params.settings:q} --work {params.work:q} --recipes {input.recipes:q}"
        " --rejected {input.rejected:q} --texts {output.texts:q} --statistics {output.statistics:q}"
        " 2> {log:q}"
