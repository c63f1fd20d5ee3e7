# The parts of all shards are merged into one manifest. A run with too many failures fails at its end and lists them.
rule sources_manifest:
    input:
        parts=JOBS.of_shards("work/{dataset}/sources/{shard}.parquet"),
        rejected="work/{dataset}/lists/rejected.jsonl",
        attributes="work/{dataset}/lists/attributes.jsonl",
        lists=JOBS.of_shards("work/{dataset}/shards/{shard}.jsonl"),
    output:
        "manifests/{dataset}/sources.parquet",
    log:
        "work/logs/{dataset}/sources.log",
    localrule: True
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    params:
        settings=JOBS.dataset,
        work=JOBS.work,
    shell:
        "perturb rule sources_manifest {params.settings:q} --work {params.work:q} --rejected {input.rejected:q}"
        " --attributes {input.attributes:q} --output {output:q} 2> {log:q}"


rule videos_manifest:
    input:
        parts=JOBS.video_parts,
        clips=JOBS.clip_markers,
        sources="manifests/{dataset}/sources.parquet",
        recipes=JOBS.video_recipes,
        lists=JOBS.of_shards("work/{dataset}/shards/{shard}.jsonl"),
    output:
        videos="manifests/{dataset}/{suite}/videos.parquet",
        quarantine="manifests/{dataset}/{suite}/quarantine.parquet",
        card="manifests/{dataset}/{suite}/README.md",
    log:
        "work/logs/{dataset}/{suite}/manifest.log",
    localrule: True
    resources:
        mem_mb=megabytes(2000),
        runtime=minutes(60),
    params:
        settings=JOBS.corpus_settings,
        work=JOBS.work,
    shell:
        "perturb rule videos_manifest {params.settings:q} --work {params.work:q} --recipes {input.recipes:q}"
        " --sources {input.sources:q} --videos {output.videos:q} --quarantine {output.quarantine:q} --card {output.card:q}"
        " 2> {log:q}"


rule check_quarantine:
    input:
        "manifests/{dataset}/{suite}/quarantine.parquet",
    output:
        "work/{dataset}/{suite}/checked.txt",
    log:
        "work/logs/{dataset}/{suite}/check.log",
    localrule: True
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    params:
        settings=JOBS.allowed_failures,
    shell:
        "perturb rule check_quarantine {params.settings:q} --quarantine {input:q} --output {output:q} 2> {log:q}"
