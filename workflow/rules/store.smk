# The rules that only runs in an object store have (store_common.smk).
if IN_STORE:

    # Planning writes lists where Snakemake was started; jobs need them in the store.
    rule lists:
        input:
            local("<work>/{list}.jsonl"),
        output:
            "<work>/{list}.jsonl",
        wildcard_constraints:
            list="(?!.*/composed/).+",
        priority: 50
        localrule: True
        threads: 1
        resources:
            mem_mb=100,
            runtime=10,
        shell:
            'cp "$PERTURB_STORE"/{input:q} {output:q}'

    # The user's videos of a shard.
    rule clips:
        input:
            local("<work>/{dataset}/shards/{shard}.jsonl"),
        output:
            "<work>/{dataset}/shards/{shard}.tar",
        log:
            "<logs>/{dataset}/clips/{shard}.log",
        priority: 50
        localrule: True
        conda:
            "../../envs/perturb.yaml"
        threads: 1
        resources:
            mem_mb=500,
            runtime=60,
        shell:
            'perturb rule pack-clips --listed "$PERTURB_STORE"/{input:q} --output {output:q} 2> {log:q}'
