# Contact sheets and pages of the corpora.
rule preview:
    input:
        videos=layout.pattern("videos"),
        packs=lambda wildcards: in_store(
            "shown_packs", CONFIG, wildcards.dataset, wildcards.suite, plan_of
        ),
    output:
        report(
            layout.pattern("preview"),
            category="{suite}",
            labels={**OF_FOLDER, "dataset": "{dataset}", "picture": "contact sheet"},
        ),
    log:
        layout.at("log", job="{dataset}/{suite}/preview"),
    benchmark:
        layout.at("benchmark", job="{dataset}/{suite}/preview")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    message:
        "drawing a contact sheet of {wildcards.suite} on {wildcards.dataset}"
    shell:
        command("perturb preview {input.videos:q} --output {output:q} 2> {log:q}")


rule corpus_page:
    input:
        videos=layout.pattern("videos"),
        quarantine=layout.pattern("quarantine"),
        packs=lambda wildcards: in_store(
            "shown_packs", CONFIG, wildcards.dataset, wildcards.suite, plan_of
        ),
    output:
        report(
            layout.pattern("corpus_page"),
            category="{suite}",
            labels={**OF_FOLDER, "dataset": "{dataset}", "picture": "page of the corpus"},
        ),
    log:
        layout.at("log", job="{dataset}/{suite}/corpus_page"),
    benchmark:
        layout.at("benchmark", job="{dataset}/{suite}/corpus_page")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    message:
        "writing the page of {wildcards.suite} on {wildcards.dataset}"
    shell:
        command("perturb rule corpus-page {input.videos:q} --output {output:q} 2> {log:q}")


rule main_object_preview:
    input:
        analyses=layout.at("analyses", dataset="{dataset}", analysis="main_object"),
        packs=lambda wildcards: in_store("shown_packs", CONFIG, wildcards.dataset, None, plan_of),
    output:
        report(
            layout.pattern("main_objects_picture"),
            category="analyses",
            labels={**OF_FOLDER, "dataset": "{dataset}", "picture": "main objects"},
        ),
    log:
        layout.at("log", job="{dataset}/main_object_preview"),
    benchmark:
        layout.at("benchmark", job="{dataset}/main_object_preview")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=1000,
        runtime=10,
    message:
        "drawing the main objects of {wildcards.dataset}"
    shell:
        command("perturb preview {input.analyses:q} --output {output:q} 2> {log:q}")
