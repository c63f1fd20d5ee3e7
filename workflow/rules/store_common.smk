# Runs in an object store (`--default-storage-provider`), whose jobs share no folder. They work in Snakemake's local copy of
# the store, where all paths are as in the store and elsewhere; what they need there is declared in addition to what other
# runs declare: list files, and per part one pack of its clips (perturbations/store/planning.py). Elsewhere nothing is added.
from perturbations.store import planning as store

if IN_STORE:
    if PREFIX.parts:
        raise WorkflowError(
            "A module's `prefix` and --default-storage-provider: give the folder in the storage's prefix."
        )
    STORE = workflow.storage_registry.default_storage_provider
    STORE_PREFIX = planned(store.prefix, workflow.storage_settings.default_storage_prefix)
    WORKPLACE = Path(STORE.object(f"{STORE_PREFIX}/work").local_path()).parent
    planned(store.prepare, WORKPLACE)
    shell.prefix(COMMAND_PATH + store.shell_prefix(WORKPLACE))
    # The second output of a job that makes clips.
    PACK_OF_SOURCES = {"pack": layout.pattern("source_pack")}
    PACK_OF_ANALYSES = {"pack": layout.pattern("analysis_pack")}
    PACK_OF_VIDEOS = {"pack": layout.pattern("video_pack")}

    def in_store(function, *arguments):
        return planned(getattr(store, function), *arguments)

    def plan_collection(collection):
        # A job on another machine has no annotations: the plan comes with the sources of the workflow.
        if workflow.remote_exec:
            return planned(store.read_plan, collection)
        plan = planned(paths.plan, CONFIG, collection)
        workflow.configfiles.append(str(store.write_plan(plan, collection)))
        store.remove_stale_lists(WORKPLACE, plan, collection)
        return plan

    def plan_captions(dataset):
        if workflow.remote_exec:
            return planned(store.read_captions, dataset)
        shards = planned(paths.caption_shards, CONFIG, dataset)
        workflow.configfiles.append(str(store.write_captions(shards, dataset)))
        return shards
