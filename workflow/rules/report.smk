# Contact sheets of the corpora, and the page of results.
rule report:
    input:
        results=lambda wildcards: [
            *evaluation_paths.report_results(reported()),
            *composed_reported("results"),
        ],
        ranks=lambda wildcards: [
            *evaluation_paths.report_ranks(CONFIG, reported()),
            *composed_reported("ranks"),
        ],
        pictures=lambda wildcards: evaluation_paths.report_pictures(CONFIG, reported()),
    output:
        report(
            "manifests/report.html", category="evaluation", labels={"page": "tables and figures"}
        ),
    log:
        "work/logs/report.log",
    benchmark:
        "work/benchmarks/report.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        datasets=lambda wildcards: list(CONFIG.datasets),
    message:
        "writing manifests/report.html"
    shell:
        command(
            "perturb report --results {input.results:q} --ranks {input.ranks:q} --pictures {input.pictures:q}"
            " --datasets {params.datasets:q} --output {output:q} 2> {log:q}"
        )


rule preview:
    input:
        videos="manifests/{dataset}/{suite}/videos.parquet",
        packs=lambda wildcards: in_store(
            store.shown_packs, CONFIG, wildcards.dataset, wildcards.suite, plan_of
        ),
    output:
        report(
            "manifests/{dataset}/{suite}/preview.png",
            category="{suite}",
            labels={"dataset": "{dataset}", "picture": "contact sheet"},
        ),
    log:
        "work/logs/{dataset}/{suite}/preview.log",
    benchmark:
        "work/benchmarks/{dataset}/{suite}/preview.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    message:
        "drawing a contact sheet of {wildcards.suite} on {wildcards.dataset}"
    shell:
        command("perturb preview {input.videos:q} --output {output:q} 2> {log:q}")


rule corpus_page:
    input:
        videos="manifests/{dataset}/{suite}/videos.parquet",
        quarantine="manifests/{dataset}/{suite}/quarantine.parquet",
        packs=lambda wildcards: in_store(
            store.shown_packs, CONFIG, wildcards.dataset, wildcards.suite, plan_of
        ),
    output:
        report(
            "manifests/{dataset}/{suite}/corpus.html",
            category="{suite}",
            labels={"dataset": "{dataset}", "picture": "page of the corpus"},
        ),
    log:
        "work/logs/{dataset}/{suite}/corpus_page.log",
    benchmark:
        "work/benchmarks/{dataset}/{suite}/corpus_page.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    message:
        "writing the page of {wildcards.suite} on {wildcards.dataset}"
    shell:
        command("perturb corpus-page {input.videos:q} --output {output:q} 2> {log:q}")


rule main_object_preview:
    input:
        analyses="manifests/{dataset}/main_object.parquet",
        packs=lambda wildcards: in_store(
            store.shown_packs, CONFIG, wildcards.dataset, None, plan_of
        ),
    output:
        report(
            "manifests/{dataset}/main_object.png",
            category="analyses",
            labels={"dataset": "{dataset}", "picture": "main objects"},
        ),
    log:
        "work/logs/{dataset}/main_object_preview.log",
    benchmark:
        "work/benchmarks/{dataset}/main_object_preview.tsv"
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    message:
        "drawing the main objects of {wildcards.dataset}"
    shell:
        command("perturb preview {input.analyses:q} --output {output:q} 2> {log:q}")
