# Captions, and which clip answers which of them.
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
        "perturb captions --dataset {params.dataset} --captions {input.captions} --sources {input.sources}"
        " --output {output.captions} --qrels {output.qrels} 2> {log}"


# Perturbed captions: one shard through one perturbation at one severity. No video is needed.
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
        mem_mb=lambda wildcards: 6000 if CONFIG.backends.captions.backend == "pretrained" else 1500,
        runtime=240,
    params:
        recipe=lambda wildcards: text_recipe(wildcards).text,
    message:
        "{wildcards.suite}/{wildcards.perturbation} severity {wildcards.severity} on the captions of"
        " {wildcards.dataset}, shard {wildcards.shard}"
    shell:
        "perturb texts --dataset {wildcards.dataset} --recipe {params.recipe:q} --captions {input} --output {output} 2> {log}"


rule texts_manifest:
    input:
        parts=lambda wildcards: [
            f"work/{wildcards.dataset}/{wildcards.suite}/captions/{name}/{severity}/{shard}.parquet"
            for name, severity in captions.scenarios(CONFIG, wildcards.dataset, wildcards.suite)
            for shard in caption_shards(wildcards.dataset)
        ],
        recipes=text_recipes_file,
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
        "perturb merge-texts --dataset {wildcards.dataset} --captions work/{wildcards.dataset}/captions"
        " --parts work/{wildcards.dataset}/{wildcards.suite}/captions --recipes {input.recipes}"
        " --config-digest {params.config_digest} --output {output.texts} --statistics {output.statistics} --page {output.page} 2> {log}"


# Perturbed captions beside perturbed videos: rows, no pixels.
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
        "perturb combine --videos {input.videos} --texts {input.texts} --output {output} 2> {log}"
