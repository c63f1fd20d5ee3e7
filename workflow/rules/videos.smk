# The corpus: one shard of clips under one perturbation at one severity.
# The job's settings are everything that determines its result; Snakemake reruns the job when they change.
rule videos:
    input:
        sources="work/{dataset}/sources/{shard}.parquet",
        analysis=JOBS.video_analysis,
        donors=JOBS.donors,
        whole=JOBS.whole_videos,
    output:
        **stored("corpora/{dataset}/{suite}/{perturbation}/{severity}/.{shard}.json"),
        part="work/{dataset}/{suite}/{perturbation}/{severity}/{shard}.parquet",
    log:
        "work/logs/{dataset}/{suite}/{perturbation}/{severity}/{shard}.log",
    resources:
        mem_mb=megabytes(JOBS.clips_mb),
        runtime=minutes(JOBS.clips_minutes),
        gpu=JOBS.clips_gpus,
    params:
        settings=JOBS.video_settings,
        run=JOBS.run,
    shell:
        "perturb rule videos {params.settings:q} {params.run:q} --sources {input.sources:q} --analysis {input.analysis:q}"
        " --donors {input.donors:q} --whole+ {input.whole:q} --output+ {output:q} 2> {log:q}"
