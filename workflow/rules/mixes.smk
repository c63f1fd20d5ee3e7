# Mixed manifests: rows that point at the videos of the single scenarios.
rule mixes:
    input:
        videos="manifests/{dataset}/{suite}/videos.parquet",
        sources="manifests/{dataset}/sources.parquet",
    output:
        severities="manifests/{dataset}/{suite}/mixed_severity.parquet",
        types="manifests/{dataset}/{suite}/mixed_types.parquet",
    log:
        "work/logs/{dataset}/{suite}/mixes.log",
    localrule: True
    resources:
        mem_mb=megabytes(2000),
        runtime=minutes(60),
    shell:
        "perturb rule mixes --videos {input.videos:q} --sources {input.sources:q} --severities {output.severities:q}"
        " --types {output.types:q} 2> {log:q}"


# Perturbed captions joined with perturbed videos: only rows, no new videos.
rule multimodal:
    input:
        videos="manifests/{dataset}/{suite}/videos.parquet",
        texts="manifests/{dataset}/{suite}/captions.parquet",
    output:
        "manifests/{dataset}/{suite}/multimodal.parquet",
    log:
        "work/logs/{dataset}/{suite}/multimodal.log",
    resources:
        mem_mb=megabytes(3000),
        runtime=minutes(60),
    shell:
        "perturb rule multimodal --videos {input.videos:q} --texts {input.texts:q} --output {output:q} 2> {log:q}"
