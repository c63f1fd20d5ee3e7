# The small dual encoder of synthetic scenes, which evaluations take that name no model.
rule demo_encoder:
    output:
        directory("<work>/demo_encoder"),
    log:
        "<logs>/demo_encoder.log",
    benchmark:
        "<benchmarks>/demo_encoder.tsv"
    # First, because every evaluation waits for it, and other jobs can run beside it.
    priority: 1
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1500,
        runtime=60,
    params:
        # `version` changes when the training does.
        recipe=lambda wildcards: recipe.canonical({"version": 3, "seed": CONFIG.seed}),
        seed=CONFIG.seed,
    shell:
        command("perturb rule train-encoder --seed {params.seed:q} --output {output:q} 2> {log:q}")
