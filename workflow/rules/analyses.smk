# The information about a clip that guided perturbations need, once for all severities: motion, main object, embedding.
rule analyses:
    input:
        sources="work/{dataset}/sources/{shard}.parquet",
        before=JOBS.analysis_before,
    output:
        "work/{dataset}/analyses/{analysis}/{shard}.parquet",
    log:
        "work/logs/{dataset}/analyses/{analysis}/{shard}.log",
    priority: 10
    resources:
        mem_mb=megabytes(JOBS.clips_mb),
        runtime=minutes(JOBS.clips_minutes),
        gpu=JOBS.clips_gpus,
    params:
        settings=JOBS.analysis_settings,
        run=JOBS.run,
    shell:
        "perturb rule analyses {params.settings:q} {params.run:q} --sources {input.sources:q} --before {input.before:q}"
        " --part {output:q} 2> {log:q}"


# One analysis of all clips: an index of donors, or a list of main objects to inspect.
rule analyses_manifest:
    input:
        parts=JOBS.of_shards("work/{dataset}/analyses/{analysis}/{shard}.parquet"),
        sources=JOBS.of_shards("work/{dataset}/sources/{shard}.parquet"),
        lists=JOBS.of_shards("work/{dataset}/shards/{shard}.jsonl"),
    output:
        "manifests/{dataset}/{analysis}.parquet",
    log:
        "work/logs/{dataset}/analyses/{analysis}.log",
    localrule: True
    resources:
        mem_mb=megabytes(2000),
        runtime=minutes(30),
    params:
        settings=JOBS.merged_analysis_settings,
        work=JOBS.work,
    shell:
        "perturb rule analyses_manifest {params.settings:q} --work {params.work:q} --output {output:q} 2> {log:q}"
