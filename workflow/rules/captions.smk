# Captions, and the relevant clip per caption.
rule captions:
    input:
        captions="work/{dataset}/captions.jsonl",
        sources="manifests/{dataset}/sources.parquet",
    output:
        captions="manifests/{dataset}/captions.parquet",
        qrels="manifests/{dataset}/qrels.parquet",
    log:
        "work/logs/{dataset}/captions.log",
    benchmark:
        "work/benchmarks/{dataset}/captions.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        dataset=dataset_of,
    message:
        "writing the captions of {wildcards.dataset}"
    shell:
        "perturb captions --dataset {params.dataset:q} --captions {input.captions:q} --sources {input.sources:q}"
        " --output {output.captions:q} --qrels {output.qrels:q} 2> {log:q}"


# Perturbed captions: one shard under one perturbation at one severity. No video is needed.
rule texts:
    input:
        "work/{dataset}/captions/{shard}.jsonl",
    output:
        "work/{dataset}/{suite}/captions/{perturbation}/{severity}/{shard}.parquet",
    log:
        "work/logs/{dataset}/{suite}/captions/{perturbation}/{severity}/{shard}.log",
    benchmark:
        "work/benchmarks/{dataset}/{suite}/captions/{perturbation}/{severity}/{shard}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards: paths.text_memory_mb(CONFIG),
        runtime=240,
    params:
        recipe=lambda wildcards: captions.from_config(
            CONFIG, wildcards.suite, wildcards.perturbation, int(wildcards.severity)
        ).text,
    message:
        "{wildcards.suite}/{wildcards.perturbation} severity {wildcards.severity} on the captions of"
        " {wildcards.dataset}, shard {wildcards.shard}"
    shell:
        "perturb texts --dataset {wildcards.dataset:q} --recipe {params.recipe:q} --captions {input:q} --output {output:q} 2> {log:q}"


rule texts_manifest:
    input:
        parts=lambda wildcards: paths.text_parts(
            CONFIG, wildcards.dataset, wildcards.suite, caption_shards(wildcards.dataset)
        ),
        recipes=lambda wildcards: paths.text_recipes(CONFIG, wildcards.dataset, wildcards.suite),
    output:
        texts="manifests/{dataset}/{suite}/captions.parquet",
        statistics="manifests/{dataset}/{suite}/caption_statistics.parquet",
        page=report(
            "manifests/{dataset}/{suite}/captions.md",
            category="{suite}",
            labels={"dataset": "{dataset}", "picture": "captions, before and after"},
        ),
    log:
        "work/logs/{dataset}/{suite}/captions/manifest.log",
    benchmark:
        "work/benchmarks/{dataset}/{suite}/captions/manifest.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=60,
    params:
        config_digest=lambda wildcards: recipe.config_digest(CONFIG, wildcards.dataset),
    message:
        "writing the perturbed captions of {wildcards.suite} on {wildcards.dataset}"
    shell:
        "perturb merge-texts --dataset {wildcards.dataset:q} --captions work/{wildcards.dataset:q}/captions"
        " --parts work/{wildcards.dataset:q}/{wildcards.suite:q}/captions --recipes {input.recipes:q}"
        " --config-digest {params.config_digest:q} --output {output.texts:q} --statistics {output.statistics:q} --page {output.page:q} 2> {log:q}"


# Perturbed captions joined with perturbed videos: only rows, no new videos.
rule multimodal:
    input:
        videos="manifests/{dataset}/{suite}/videos.parquet",
        texts="manifests/{dataset}/{suite}/captions.parquet",
    output:
        "manifests/{dataset}/{suite}/multimodal.parquet",
    log:
        "work/logs/{dataset}/{suite}/multimodal.log",
    benchmark:
        "work/benchmarks/{dataset}/{suite}/multimodal.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=30,
    message:
        "joining captions and videos of {wildcards.suite} on {wildcards.dataset}"
    shell:
        "perturb combine --videos {input.videos:q} --texts {input.texts:q} --output {output:q} 2> {log:q}"
