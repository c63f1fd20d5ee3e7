# Runs in an object store (`--default-storage-provider`), whose jobs share no folder. They work in Snakemake's local copy of
# the store, where all paths are as in the store and elsewhere; what they need there is declared in addition to what other
# runs declare: per part one pack of its clips (perturbations/store/planning.py). Elsewhere nothing is added.
from perturbations.store import planning as store

if IN_STORE:
    if PREFIX.parts:
        raise WorkflowError(
            "A module's `prefix` and --default-storage-provider: give the folder in the storage's prefix."
        )
    STORE_PREFIX = planned(store.prefix, snakemake_inside.store_prefix(workflow))
    snakemake_inside.remember_objects(workflow, f"{STORE_PREFIX}/work")
    WORKPLACE = snakemake_inside.local_copy(workflow, f"{STORE_PREFIX}/work").parent
    planned(store.prepare, WORKPLACE)
    shell.prefix(COMMAND_PATH + store.shell_prefix(WORKPLACE))
    RUN.jobs = store.Store(
        place=WORKPLACE,
        elsewhere=snakemake_inside.is_elsewhere(workflow),
        send=lambda file: snakemake_inside.send(workflow, file),
        has=lambda file: snakemake_inside.is_stored(workflow, f"{STORE_PREFIX}/{file}"),
    )
