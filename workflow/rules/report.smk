# Contact sheets and pages of the corpora.
rule preview:
    input:
        videos="manifests/{dataset}/{suite}/videos.parquet",
        clips=JOBS.clip_markers,
    output:
        report(
            "manifests/{dataset}/{suite}/preview.png",
            category="{suite}",
            labels={**OF_FOLDER, "dataset": "{dataset}", "picture": "contact sheet"},
        ),
    log:
        "work/logs/{dataset}/{suite}/preview.log",
    benchmark:
        "work/benchmarks/{dataset}/{suite}/preview.tsv"
    localrule: True
    resources:
        mem_mb=doubled(1000),
        runtime=doubled(10),
    shell:
        "perturb rule preview --videos {input.videos:q} --output {output:q} > {log:q} 2>&1"


rule corpus_page:
    input:
        videos="manifests/{dataset}/{suite}/videos.parquet",
        clips=JOBS.clip_markers,
        quarantine="manifests/{dataset}/{suite}/quarantine.parquet",
        captions="manifests/{dataset}/captions.parquet",
    output:
        report(
            "manifests/{dataset}/{suite}/corpus.html",
            category="{suite}",
            labels={**OF_FOLDER, "dataset": "{dataset}", "picture": "page of the corpus"},
        ),
    log:
        "work/logs/{dataset}/{suite}/corpus_page.log",
    benchmark:
        "work/benchmarks/{dataset}/{suite}/corpus_page.tsv"
    localrule: True
    resources:
        mem_mb=doubled(2000),
        runtime=doubled(30),
    shell:
        "perturb rule corpus_page --videos {input.videos:q} --page {output:q} 2> {log:q}"


rule captions_page:
    input:
        captions="manifests/{dataset}/{suite}/captions.parquet",
        statistics="manifests/{dataset}/{suite}/caption_statistics.parquet",
    output:
        report(
            "manifests/{dataset}/{suite}/captions.html",
            category="{suite}",
            labels={**OF_FOLDER, "dataset": "{dataset}", "picture": "captions, before and after"},
        ),
    log:
        "work/logs/{dataset}/{suite}/captions_page.log",
    benchmark:
        "work/benchmarks/{dataset}/{suite}/captions_page.tsv"
    localrule: True
    resources:
        mem_mb=doubled(1000),
        runtime=doubled(10),
    shell:
        "perturb rule captions_page --captions {input.captions:q} --page {output:q} 2> {log:q}"
