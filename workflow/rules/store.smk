# Runs in an object store (`--default-storage-provider`), whose jobs share no folder. They work in Snakemake's local copy of
# the store, where all paths are as in the store and elsewhere; what they need there is declared in addition to what other
# runs declare: list files, and per part one pack of its clips (perturbations/plan/store.py). Elsewhere nothing is added.
STORE = workflow.storage_registry.default_storage_provider
IN_STORE = STORE is not None
# The second output of a job that makes clips.
PACK_OF_SOURCES = ["work/{dataset}/sources/{shard}.tar"] if IN_STORE else []
PACK_OF_ANALYSES = ["work/{dataset}/analyses/{analysis}/{shard}.tar"] if IN_STORE else []
PACK_OF_VIDEOS = (
    ["work/{dataset}/{suite}/{perturbation}/{severity}/{shard}.tar"] if IN_STORE else []
)


def in_store(function, *arguments):
    """Further inputs of a job in a store; elsewhere none."""
    return planned(function, *arguments) if IN_STORE else []


def plan_in_store(collection):
    # A job on another machine has no annotations: the plan comes with the sources of the workflow.
    if workflow.remote_exec:
        return planned(store.read_plan, collection)
    plan = planned(paths.plan, CONFIG, collection)
    workflow.configfiles.append(str(store.write_plan(plan, collection)))
    store.remove_stale_lists(WORKPLACE, plan, collection)
    return plan


def caption_shards_in_store(dataset):
    if workflow.remote_exec:
        return planned(store.read_captions, dataset)
    shards = planned(paths.caption_shards, CONFIG, dataset)
    workflow.configfiles.append(str(store.write_captions(shards, dataset)))
    return shards


def video_inputs_of(wildcards):
    arguments = recipe_of(wildcards), wildcards.dataset, wildcards.shard, plan_of
    return in_store(store.video_inputs, CONFIG, *arguments) or paths.video_inputs(*arguments)


def lists_of(wildcards):
    return in_store(lambda: store.lists(wildcards.dataset, shards_of(wildcards)))


if IN_STORE:
    STORE_PREFIX = planned(store.prefix, workflow.storage_settings.default_storage_prefix)
    WORKPLACE = Path(STORE.object(f"{STORE_PREFIX}/work").local_path()).parent
    planned(store.prepare, WORKPLACE)
    shell.prefix(COMMAND_PATH + store.shell_prefix(WORKPLACE))

    # Planning writes lists where Snakemake was started; jobs need them in the store.
    rule lists:
        input:
            local("work/{list}.jsonl"),
        output:
            "work/{list}.jsonl",
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
            local("work/{dataset}/shards/{shard}.jsonl"),
        output:
            "work/{dataset}/shards/{shard}.tar",
        log:
            "work/logs/{dataset}/clips/{shard}.log",
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
