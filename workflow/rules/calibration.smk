# Severities of even distortion, on request: `snakemake calibrate_<dataset>`, and then `severity: calibrated`.
# The table is not an input of any job. Its numbers are in the recipes, so a changed number reruns only its own jobs.
rule calibration:
    input:
        sources=layout.pattern("sources"),
        packs=lambda wildcards: in_store("refuse", "a calibration"),
    output:
        table=layout.pattern("calibration_table"),
        report=layout.pattern("calibration_page"),
    log:
        layout.at("log", job="{dataset}/calibration"),
    benchmark:
        layout.at("benchmark", job="{dataset}/calibration")
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(2000, attempt),
        runtime=480,
    params:
        seed=CONFIG.seed,
        perturbations=lambda wildcards: list(paths.calibrated(CONFIG)),
        # Not used on the command line: a kernel with a new version is measured again.
        versions=lambda wildcards: recipe.canonical(paths.calibrated(CONFIG)),
        variants=lambda wildcards: paths.variants(CONFIG),
    message:
        "solving severities of even distortion on {wildcards.dataset}"
    shell:
        command(
            "perturb rule calibrate --sources {input.sources:q} --perturbations {params.perturbations:q} --variants {params.variants:q}"
            " --seed {params.seed:q} --output {output.table:q} --report {output.report:q} 2> {log:q}"
        )
