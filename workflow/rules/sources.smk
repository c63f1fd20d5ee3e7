# The clean clips: each is decoded completely once, so that later jobs know its frames and properties.
rule sources:
    input:
        "work/{dataset}/shards/{shard}.jsonl",
    output:
        "work/{dataset}/sources/{shard}.parquet",
    log:
        "work/logs/{dataset}/sources/{shard}.log",
    # Before videos: a damaged file is named early, and what does not need videos can begin.
    priority: 10
    resources:
        mem_mb=megabytes(JOBS.clips_mb),
        runtime=minutes(JOBS.clips_minutes),
    params:
        settings=JOBS.source_settings,
        run=JOBS.run,
    shell:
        "perturb rule sources {params.settings:q} {params.run:q} --listed {input:q} --part {output:q} 2> {log:q}"
