# The rules that only runs in an object store have (store_common.smk).
if IN_STORE:

    # Planning writes lists where Snakemake was started; jobs need them in the store.
    rule lists:
        input:
            local(f"{layout.WORK}/{{list}}.jsonl"),
        output:
            f"{layout.WORK}/{{list}}.jsonl",
        wildcard_constraints:
            list="(?!.*/composed/).+",
        priority: 50
        localrule: True
        threads: 1
        resources:
            mem_mb=100,
            runtime=10,
        message:
            "storing the list {wildcards.list}"
        shell:
            'cp "$PERTURB_STORE"/{input:q} {output:q}'

    # The user's videos of a shard.
    rule clips:
        input:
            local(layout.pattern("shard_list")),
        output:
            layout.pattern("clip_pack"),
        log:
            layout.at("log", job="{dataset}/clips/{shard}"),
        priority: 50
        localrule: True
        conda:
            "../../envs/perturb.yaml"
        threads: 1
        resources:
            mem_mb=500,
            runtime=60,
        message:
            "storing the clips of {wildcards.dataset}, shard {wildcards.shard}"
        shell:
            'perturb rule pack-clips --listed "$PERTURB_STORE"/{input:q} --output {output:q} 2> {log:q}'
