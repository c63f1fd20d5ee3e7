# Severities of even distortion, on request: `snakemake calibrate_<dataset>`, and then `severity: calibrated`.
# The table is not an input of any job. Its numbers are in the recipes, so a changed number reruns only its own jobs.
from perturbations.calibration import planning as calibration_planning


rule calibration:
    input:
        sources="<manifests>/{dataset}/sources.parquet",
    output:
        table="<manifests>/{dataset}/calibration.json",
        report="<manifests>/{dataset}/calibration.md",
    log:
        "<logs>/{dataset}/calibration.log",
    benchmark:
        "<benchmarks>/{dataset}/calibration.tsv"
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards: costs.memory_mb(plan_of(wildcards.dataset).size, 2000),
        runtime=lambda wildcards: calibration_planning.minutes(
            plan_of(wildcards.dataset), paths.calibrated(CONFIG)
        ),
    params:
        seed=CONFIG.seed,
        perturbations=lambda wildcards: list(paths.calibrated(CONFIG)),
        # Not used on the command line: a kernel with a new version is measured again.
        versions=lambda wildcards: recipe.canonical(paths.calibrated(CONFIG)),
        variants=lambda wildcards: paths.variants(CONFIG),
    shell:
        command(
            "perturb rule calibrate --sources {input.sources:q} --perturbations {params.perturbations:q} --variants {params.variants:q}"
            " --seed {params.seed:q} --output {output.table:q} --report {output.report:q} 2> {log:q}"
        )
