# The small dual encoder of synthetic scenes, which evaluations take that name no model.
rule demo_encoder:
    output:
        directory("work/demo_encoder"),
    log:
        "work/logs/demo_encoder.log",
    # First, because every evaluation waits for it, and other jobs can run beside it.
    priority: 1
    resources:
        mem_mb=megabytes(1500),
        runtime=minutes(60),
    params:
        settings=JOBS.encoder_settings,
    shell:
        "perturb rule demo_encoder {params.settings:q} --output {output:q} 2> {log:q}"
