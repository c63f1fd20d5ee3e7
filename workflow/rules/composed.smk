# Splits for retrieval by a clip and an instruction. Instructions are perturbed by the rules `texts` and `texts_manifest`, as
# the captions of the collection <dataset>/composed, and evaluated by the rule `evaluate`.
from perturbations.composed.split_rules import SplitRules

SPLITS = SplitRules(JOBS)


rule composed_split:
    input:
        SPLITS.annotation_files,
    output:
        queries="manifests/{dataset}/composed/queries.parquet",
        qrels="manifests/{dataset}/composed/qrels.parquet",
        galleries="manifests/{dataset}/composed/galleries.parquet",
        pool="manifests/{dataset}/composed/pool.parquet",
        instructions="work/{dataset}/composed/captions/s0.jsonl",
        rejected="work/{dataset}/composed/rejected_captions.jsonl",
    log:
        "work/logs/{dataset}/composed/split.log",
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*",
    resources:
        mem_mb=SPLITS.mb,
        runtime=SPLITS.minutes,
        gpu=SPLITS.gpus,
    params:
        settings=SPLITS.settings,
        run=SPLITS.run,
    shell:
        "perturb rule composed_split {params.settings:q} {params.run:q} --queries {output.queries:q}"
        " --instructions {output.instructions:q} --rejected {output.rejected:q} 2> {log:q}"
