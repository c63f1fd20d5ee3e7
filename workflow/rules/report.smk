# Contact sheets and pages of the corpora.
rule preview:
    input:
        videos="<manifests>/{dataset}/{suite}/videos.parquet",
        clips=markers_of,
    output:
        report(
            "<manifests>/{dataset}/{suite}/preview.png",
            category="{suite}",
            labels={**OF_FOLDER, "dataset": "{dataset}", "picture": "contact sheet"},
        ),
    log:
        "<logs>/{dataset}/{suite}/preview.log",
    benchmark:
        "<benchmarks>/{dataset}/{suite}/preview.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    shell:
        command("perturb preview {input.videos:q} --output {output:q} > {log:q} 2>&1")


rule corpus_page:
    input:
        videos="<manifests>/{dataset}/{suite}/videos.parquet",
        clips=markers_of,
        quarantine="<manifests>/{dataset}/{suite}/quarantine.parquet",
    output:
        report(
            "<manifests>/{dataset}/{suite}/corpus.html",
            category="{suite}",
            labels={**OF_FOLDER, "dataset": "{dataset}", "picture": "page of the corpus"},
        ),
    log:
        "<logs>/{dataset}/{suite}/corpus_page.log",
    benchmark:
        "<benchmarks>/{dataset}/{suite}/corpus_page.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    shell:
        command("perturb rule corpus-page {input.videos:q} --output {output:q} 2> {log:q}")


rule captions_page:
    input:
        captions="<manifests>/{dataset}/{suite}/captions.parquet",
        statistics="<manifests>/{dataset}/{suite}/caption_statistics.parquet",
    output:
        report(
            "<manifests>/{dataset}/{suite}/captions.html",
            category="{suite}",
            labels={**OF_FOLDER, "dataset": "{dataset}", "picture": "captions, before and after"},
        ),
    log:
        "<logs>/{dataset}/{suite}/captions_page.log",
    benchmark:
        "<benchmarks>/{dataset}/{suite}/captions_page.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    shell:
        command("perturb rule captions-page {input.captions:q} --output {output:q} 2> {log:q}")
