# Retrieval by a clip and an instruction (composed_<dataset>, egocvr). Instructions are perturbed by the rules `texts` and
# `texts_manifest`, as the captions of the collection <dataset>/composed.
from perturbations.composed.rules import ComposedRules

COMPOSED = ComposedRules(JOBS, EVALUATION, requested_targets)


rule composed_split:
    input:
        COMPOSED.annotation_files,
    output:
        queries="manifests/{dataset}/composed/queries.parquet",
        qrels="manifests/{dataset}/composed/qrels.parquet",
        galleries="manifests/{dataset}/composed/galleries.parquet",
        pool="manifests/{dataset}/composed/pool.parquet",
        instructions="work/{dataset}/composed/captions/s0.jsonl",
        rejected="work/{dataset}/composed/rejected_captions.jsonl",
    log:
        "work/logs/{dataset}/composed/split.log",
    benchmark:
        "work/benchmarks/{dataset}/composed/split.tsv"
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*",
    resources:
        mem_mb=COMPOSED.split_mb,
        runtime=COMPOSED.split_minutes,
        gpu=COMPOSED.split_gpus,
    params:
        settings=COMPOSED.split_settings,
        run=COMPOSED.run,
    shell:
        "perturb rule composed_split {params.settings:q} {params.run:q} --queries {output.queries:q}"
        " --instructions {output.instructions:q} --rejected {output.rejected:q} 2> {log:q}"


rule composed_clips:
    input:
        unpack(COMPOSED.model_files),
        sources="manifests/{dataset}/sources.parquet",
    output:
        "work/{dataset}/composed/features/clean/clean.safetensors",
    log:
        "work/logs/{dataset}/composed/features.log",
    benchmark:
        "work/benchmarks/{dataset}/composed/features.tsv"
    threads: COMPOSED.threads
    resources:
        mem_mb=doubled(6000),
        runtime=COMPOSED.clip_minutes,
        gpu=COMPOSED.gpus,
        gpu_share=COMPOSED.gpu_share,
    params:
        settings=COMPOSED.clip_settings,
        run=COMPOSED.run,
    shell:
        "perturb rule composed_clips {params.settings:q} {params.run:q} --sources {input.sources:q} --output {output:q}"
        " 2> {log:q}"


rule composed_queries:
    input:
        unpack(COMPOSED.query_inputs),
    output:
        "work/{dataset}/composed/features/{suite}/{level}.safetensors",
    log:
        "work/logs/{dataset}/composed/features/{suite}/{level}.log",
    benchmark:
        "work/benchmarks/{dataset}/composed/features/{suite}/{level}.tsv"
    wildcard_constraints:
        dataset="[a-z][a-z0-9_]*",
        suite="(?!clean)[a-z][a-z0-9_]*",
    threads: COMPOSED.threads
    resources:
        mem_mb=doubled(6000),
        runtime=COMPOSED.query_minutes,
        gpu=COMPOSED.gpus,
        gpu_share=COMPOSED.gpu_share,
    params:
        settings=COMPOSED.query_settings,
        run=COMPOSED.run,
        work=JOBS.work,
    shell:
        "perturb rule composed_queries {params.settings:q} {params.run:q} --work {params.work:q} --split+ {input.split:q}"
        " --output {output:q} 2> {log:q}"


rule composed_evaluate:
    input:
        unpack(COMPOSED.job_inputs),
    output:
        results="work/{dataset}/composed/results/{corpus}/{level}.parquet",
        ranks="work/{dataset}/composed/results/{corpus}/{level}.ranks.parquet",
    log:
        "work/logs/{dataset}/composed/results/{corpus}/{level}.log",
    benchmark:
        "work/benchmarks/{dataset}/composed/results/{corpus}/{level}.tsv"
    resources:
        mem_mb=doubled(4000),
        runtime=COMPOSED.job_minutes,
        gpu=COMPOSED.gpus,
        gpu_share=COMPOSED.gpu_share,
    params:
        settings=COMPOSED.job_settings,
        run=COMPOSED.run,
    shell:
        "perturb rule composed_evaluate {params.settings:q} {params.run:q} --split+ {input.split:q} --clips {input.clips:q}"
        " --queries {input.queries:q} --texts+ {input.texts:q} --results {output.results:q} --ranks {output.ranks:q}"
        " 2> {log:q}"


rule composed_results:
    input:
        COMPOSED.result_parts,
    output:
        results="manifests/{dataset}/composed/results.parquet",
        ranks="manifests/{dataset}/composed/ranks.parquet",
    log:
        "work/logs/{dataset}/composed/results.log",
    benchmark:
        "work/benchmarks/{dataset}/composed/results.tsv"
    localrule: True
    resources:
        mem_mb=doubled(2000),
        runtime=doubled(30),
    params:
        settings=COMPOSED.result_settings,
    shell:
        "perturb rule results {params.settings:q} --parts+ {input:q} --results {output.results:q} --ranks {output.ranks:q}"
        " 2> {log:q}"
