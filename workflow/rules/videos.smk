# The corpus: one shard of clips through one perturbation at one severity.
# The job's `recipe` is everything that determines its result; Snakemake reruns the job when it changes.
rule videos:
    input:
        unpack(inputs_of),
    output:
        "work/{dataset}/{suite}/{perturbation}/{severity}/{shard}.parquet",
    log:
        "work/logs/{dataset}/{suite}/{perturbation}/{severity}/{shard}.log",
    benchmark:
        "work/benchmarks/{dataset}/{suite}/{perturbation}/{severity}/{shard}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=240,
        stall_limit_s=CONFIG.stall_limit_s,
    params:
        recipe=lambda wildcards: recipe_of(wildcards).text,
        inputs=lambda wildcards, input: " ".join(f"--{name} {input[name]}" for name in input.keys()),
        corpus="corpora/{dataset}/{suite}/{perturbation}/{severity}",
    message:
        "{wildcards.suite}/{wildcards.perturbation} severity {wildcards.severity} on {wildcards.dataset},"
        " shard {wildcards.shard}"
    shell:
        "perturb videos --recipe {params.recipe:q} {params.inputs} --corpus {params.corpus} --output {output}"
        " --stall-limit {resources.stall_limit_s} 2> {log}"
