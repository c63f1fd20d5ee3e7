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
