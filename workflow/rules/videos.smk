# The corpus: one shard of clips under one perturbation at one severity.
# The job's `recipe` is everything that determines its result; Snakemake reruns the job when it changes.
rule videos:
    input:
        unpack(
            lambda wildcards: planned(
                paths.video_inputs,
                recipe_of(wildcards),
                wildcards.dataset,
                wildcards.shard,
                plan_of,
            )
        ),
    output:
        **paths.marker(
            CONFIG, "<corpora>/{dataset}/{suite}/{perturbation}/{severity}/.{shard}.json"
        ),
        part="<work>/{dataset}/{suite}/{perturbation}/{severity}/{shard}.parquet",
    log:
        "<logs>/{dataset}/{suite}/{perturbation}/{severity}/{shard}.log",
    benchmark:
        "<benchmarks>/{dataset}/{suite}/{perturbation}/{severity}/{shard}.tsv"
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards: paths.video_memory_mb(recipe_of(wildcards), size_of(wildcards)),
        runtime=lambda wildcards: paths.video_minutes(recipe_of(wildcards), size_of(wildcards)),
        gpu=lambda wildcards: paths.video_gpus(CONFIG, recipe_of(wildcards)),
    params:
        recipe=lambda wildcards: recipe_of(wildcards).text,
        inputs=lambda wildcards, input: paths.options(dict(input.items())),
        # Not a key of its own: where there are no options, finished jobs of earlier versions stay finished.
        corpus=(
            [
                "corpora/{dataset}/{suite}/{perturbation}/{severity}",
                *CONFIG.storage.job_options,
            ]
            if CONFIG.storage.job_options
            else "corpora/{dataset}/{suite}/{perturbation}/{severity}"
        ),
    shell:
        command(
            "perturb rule videos --recipe {params.recipe:q} {params.inputs:q} --corpus {params.corpus:q} --output {output.part:q}"
            " 2> {log:q}"
        )
