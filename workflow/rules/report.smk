# Contact sheets and pages of the corpora.
rule preview:
    input:
        videos="manifests/{dataset}/{suite}/videos.parquet",
        clips=JOBS.clip_markers,
    output:
        "manifests/{dataset}/{suite}/preview.png",
    log:
        "work/logs/{dataset}/{suite}/preview.log",
    localrule: True
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    shell:
        "perturb rule preview --videos {input.videos:q} --output {output:q} > {log:q} 2>&1"


rule corpus_page:
    input:
        videos="manifests/{dataset}/{suite}/videos.parquet",
        clips=JOBS.clip_markers,
        quarantine="manifests/{dataset}/{suite}/quarantine.parquet",
        captions="manifests/{dataset}/captions.parquet",
    output:
        "manifests/{dataset}/{suite}/corpus.html",
    log:
        "work/logs/{dataset}/{suite}/corpus_page.log",
    localrule: True
    resources:
        mem_mb=megabytes(2000),
        runtime=minutes(30),
    shell:
        "perturb rule corpus_page --videos {input.videos:q} --page {output:q} 2> {log:q}"


rule captions_page:
    input:
        captions="manifests/{dataset}/{suite}/captions.parquet",
        statistics="manifests/{dataset}/{suite}/caption_statistics.parquet",
    output:
        "manifests/{dataset}/{suite}/captions.html",
    log:
        "work/logs/{dataset}/{suite}/captions_page.log",
    localrule: True
    resources:
        mem_mb=megabytes(1000),
        runtime=minutes(10),
    shell:
        "perturb rule captions_page --captions {input.captions:q} --page {output:q} 2> {log:q}"
