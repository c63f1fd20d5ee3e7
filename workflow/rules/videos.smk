# The corpus: one shard of clips under one perturbation at one severity.
# The job's `recipe` is everything that determines its result; Snakemake reruns the job when it changes.
rule videos:
    input:
        unpack(video_inputs_of),
    output:
        **PACK_OF_VIDEOS,
        part=layout.pattern("video_part"),
    log:
        layout.at("log", job="{dataset}/{suite}/{perturbation}/{severity}/{shard}"),
    benchmark:
        layout.at("benchmark", job="{dataset}/{suite}/{perturbation}/{severity}/{shard}")
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: paths.grown(
            paths.video_memory_mb(recipe_of(wildcards)), attempt
        ),
        runtime=240,
        gpu=lambda wildcards: paths.video_gpus(CONFIG, recipe_of(wildcards)),
        stall_limit_s=CONFIG.timeout_s,
    params:
        recipe=lambda wildcards: recipe_of(wildcards).text,
        inputs=lambda wildcards, input: paths.options(dict(input.items())),
        # Not a key of its own: where there is sound, finished jobs of earlier versions stay finished.
        corpus=(
            [layout.pattern("clips"), "--silent"]
            if CONFIG.storage.is_silent
            else layout.pattern("clips")
        ),
    message:
        "{wildcards.suite}/{wildcards.perturbation} severity {wildcards.severity} on {wildcards.dataset},"
        " shard {wildcards.shard}"
    shell:
        command(
            "perturb rule videos --recipe {params.recipe:q} {params.inputs:q} --corpus {params.corpus:q} --output {output.part:q}"
            " --stall-limit {resources.stall_limit_s:q} 2> {log:q}"
        )
