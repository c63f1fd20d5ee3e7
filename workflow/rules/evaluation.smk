# Retrieval on the corpora: without adaptation (evaluate_<dataset>) and with test-time adaptation (tta_<dataset>).
wildcard_constraints:
    direction="v2t|t2v",
    side="none|query|gallery|both",
    modality="|".join(evaluation.MODALITIES),
    model="|".join(MODELS),
    group="|".join(evaluation.GROUPS),
    kind="|".join(evaluation_paths.KINDS),


rule demo_encoder:
    output:
        directory(evaluation_paths.DEMO_ENCODER),
    log:
        layout.at("log", job="demo_encoder"),
    benchmark:
        layout.at("benchmark", job="demo_encoder")
    # First, because every evaluation waits for it, and other jobs can run beside it.
    priority: 1
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: 1500 * attempt,
        runtime=60,
    params:
        # `version` changes when the training does.
        recipe=lambda wildcards: recipe.canonical({"version": 3, "seed": CONFIG.seed}),
        seed=CONFIG.seed,
    message:
        "training a small dual encoder on drawn scenes"
    shell:
        command("perturb rule train-encoder --seed {params.seed:q} --output {output:q} 2> {log:q}")


# Before all other jobs: a folder without its tokenizer would otherwise be found after hours, or never.
rule check_model:
    input:
        unpack(lambda wildcards: planned(evaluation_paths.model_inputs, of_model(wildcards))),
        packs=lambda wildcards: in_store("refuse", "an evaluation"),
    output:
        layout.pattern("checked_model"),
    log:
        layout.at("log", job="models/{model}"),
    benchmark:
        layout.at("benchmark", job="models/{model}")
    priority: 100
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=lambda wildcards, attempt: evaluation_resources.model_memory_mb(
            of_model(wildcards), attempt
        ),
        runtime=30,
        gpu=lambda wildcards: evaluation_paths.gpus(of_model(wildcards)),
        gpu_share=lambda wildcards: evaluation_paths.gpu_share(of_model(wildcards)),
        device=lambda wildcards: of_model(wildcards).evaluation.device,
    params:
        settings=lambda wildcards: recipe.canonical(
            evaluation.model_settings(of_model(wildcards), model_files_sha256(wildcards.model))
        ),
        model=lambda wildcards: evaluation_paths.model_options(of_model(wildcards)),
    message:
        "checking that the model's tokenizer, image processor and weights fit each other"
    shell:
        command(
            "perturb rule check-model --settings {params.settings:q} {params.model:q} --device {resources.device:q}"
            " --output {output:q} 2> {log:q}"
        )


rule gallery:
    input:
        unpack(lambda wildcards: planned(evaluation_paths.loaded_inputs, of_model(wildcards))),
        unpack(
            lambda wildcards: evaluation_paths.encoded_inputs(
                wildcards.dataset, wildcards.modality
            )
        ),
    output:
        layout.pattern("encoded"),
    log:
        layout.at("log", job="{dataset}/evaluation/{model}/{modality}"),
    benchmark:
        layout.at("benchmark", job="{dataset}/evaluation/{model}/{modality}")
    conda:
        "../../envs/perturb.yaml"
    threads: lambda wildcards: evaluation_paths.readers(of_model(wildcards))
    resources:
        mem_mb=lambda wildcards, attempt: evaluation_resources.gallery_memory_mb(
            of_model(wildcards), plan_of(wildcards.dataset), attempt
        ),
        runtime=lambda wildcards, attempt: 480 * attempt,
        gpu=lambda wildcards: evaluation_paths.gpus(of_model(wildcards)),
        gpu_share=lambda wildcards: evaluation_paths.gpu_share(of_model(wildcards)),
        device=lambda wildcards: of_model(wildcards).evaluation.device,
        reader=lambda wildcards: CONFIG.evaluation.reader,
    params:
        settings=lambda wildcards: recipe.canonical(
            evaluation.model_settings(of_model(wildcards), model_files_sha256(wildcards.model))
        ),
        model=lambda wildcards: evaluation_paths.model_options(of_model(wildcards)),
        rows=lambda wildcards: paths.options(
            evaluation_paths.encoded_inputs(wildcards.dataset, wildcards.modality)
        ),
    message:
        "encoding the clean {wildcards.modality} of {wildcards.dataset}"
    shell:
        command(
            "perturb rule encode-gallery --settings {params.settings:q} {params.model:q} {params.rows:q}"
            " --device {resources.device:q} --reader {resources.reader:q} --output {output:q} 2> {log:q}"
        )


# The device and the reader are resources, not params, because they decide where and with what a job runs, and not what
# its result is.
rule evaluate:
    input:
        unpack(
            lambda wildcards: planned(
                evaluation_paths.inputs, *arguments_of_job(wildcards), plan_of, caption_shards
            )
        ),
    output:
        results=layout.pattern("evaluation_part"),
        ranks=layout.pattern("evaluation_ranks"),
        pictures=layout.pattern("evaluation_pictures"),
    log:
        layout.at("log", job=EVALUATION),
    benchmark:
        layout.at("benchmark", job=EVALUATION)
    conda:
        "../../envs/perturb.yaml"
    threads: lambda wildcards: evaluation_paths.readers(of_model(wildcards))
    resources:
        mem_mb=lambda wildcards, attempt: planned(
            evaluation_resources.job_memory_mb,
            *arguments_of_job(wildcards),
            plan_of(wildcards.dataset),
            attempt,
        ),
        # Its journal keeps what is done.
        runtime=lambda wildcards, attempt: 1440 * attempt,
        gpu=lambda wildcards: evaluation_paths.gpus(of_model(wildcards)),
        gpu_share=lambda wildcards: evaluation_paths.gpu_share(of_model(wildcards)),
        device=lambda wildcards: of_model(wildcards).evaluation.device,
        reader=lambda wildcards: CONFIG.evaluation.reader,
    params:
        settings=lambda wildcards: recipe.canonical(
            evaluation.settings(*arguments_of_job(wildcards), model_files_sha256(wildcards.model))
        ),
        model=lambda wildcards: evaluation_paths.model_options(of_model(wildcards)),
        rejected=lambda wildcards: plan_of(wildcards.dataset).rejected_captions,
        asking=lambda wildcards, input: evaluation_paths.asking_options(
            wildcards.dataset, job_of(wildcards), dict(input.items())
        ),
    message:
        "{wildcards.model}, {wildcards.direction}, {wildcards.side}, {wildcards.corpus}, {wildcards.level}: {wildcards.group}, on {wildcards.dataset}"
    shell:
        command(
            "perturb rule evaluate --settings {params.settings:q} {params.model:q} --sources {input.sources:q}"
            " --captions {input.captions:q} --rejected {params.rejected:q} {params.asking:q} --device {resources.device:q} --reader {resources.reader:q}"
            " --output {output.results:q} --ranks {output.ranks:q} --pictures {output.pictures:q} 2> {log:q}"
        )


rule results:
    input:
        parts=lambda wildcards: planned(
            evaluation_paths.planned_parts, of_model(wildcards), wildcards.dataset, wildcards.kind
        ),
    output:
        results=layout.pattern("results"),
        ranks=layout.pattern("ranks"),
    log:
        layout.at("log", job="{dataset}/{kind}/{model}"),
    benchmark:
        layout.at("benchmark", job="{dataset}/{kind}/{model}")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        skipped=lambda wildcards: evaluation_paths.skipped(CONFIG, wildcards.dataset),
        protocol=lambda wildcards: evaluation_paths.protocol_options(CONFIG),
    message:
        "writing the results of {wildcards.dataset}"
    shell:
        command(
            "perturb rule merge-results --parts {input.parts:q} --skipped {params.skipped:q} {params.protocol:q}"
            " --output {output.results:q} --ranks {output.ranks:q} 2> {log:q}"
        )


rule report:
    input:
        results=lambda wildcards: [
            *[entry.results for entry in reported()],
            *further_results("results"),
        ],
        ranks=lambda wildcards: [
            *evaluation_paths.report_ranks(CONFIG, reported()),
            *further_results("ranks"),
        ],
        pictures=lambda wildcards: evaluation_paths.report_pictures(CONFIG, reported()),
    output:
        report(
            layout.pattern("results_page"),
            category="evaluation",
            labels={**OF_FOLDER, "page": "tables and figures"},
        ),
    log:
        layout.at("log", job="report"),
    benchmark:
        layout.at("benchmark", job="report")
    localrule: True
    conda:
        "../../envs/perturb.yaml"
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
