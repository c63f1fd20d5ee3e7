# Retrieval on what was made: the model as it is (evaluate_<dataset>), and adapting to its queries (tta_<dataset>).
from perturbations import evaluation

localrules:
    results,


def checkpoint_of(wildcards):
    """The model: the configuration's, or the small one that is trained on the demo's scenes."""
    given = CONFIG.evaluation.checkpoint
    return "work/demo_encoder" if given is None else given


def scenario_of(wildcards):
    return evaluation.by_name(
        CONFIG, wildcards.dataset, wildcards.direction, wildcards.corpus, wildcards.scenario
    )


def evaluation_settings(wildcards):
    """What a job's results depend on."""
    return evaluation.settings(CONFIG, wildcards.dataset, scenario_of(wildcards), wildcards.group)


def evaluation_inputs(wildcards):
    """The queries' manifest, and what they ask."""
    scenario, dataset = scenario_of(wildcards), wildcards.dataset
    folder = f"manifests/{dataset}"
    inputs = {
        "sources": f"{folder}/sources.parquet",
        "captions": f"{folder}/captions.parquet",
        "checkpoint": checkpoint_of(wildcards),
    }
    if scenario.direction == "v2t":
        made = f"{folder}/{scenario.suite}/{scenario.mix or 'videos'}.parquet"
        inputs["videos"] = inputs["sources"] if scenario.suite == evaluation.CLEAN else made
    else:
        made = f"{folder}/{scenario.suite}/captions.parquet"
        inputs["texts"] = inputs["captions"] if scenario.suite == evaluation.CLEAN else made
        inputs["gallery"] = f"work/{dataset}/evaluation/gallery.safetensors"
    bank = CONFIG.evaluation.bank
    if bank is not None and wildcards.group == "adapted" and "qbnorm" in CONFIG.evaluation.methods:
        if scenario.direction == "t2v":
            inputs["bank_captions"] = f"manifests/{bank}/captions.parquet"
        else:
            inputs["bank_gallery"] = f"work/{bank}/evaluation/gallery.safetensors"
    return inputs


def given(wildcards, input):
    """The inputs as a command's options."""
    return " ".join(f"--{name.replace('_', '-')} {shlex.quote(str(input[name]))}" for name in input.keys())


def results_parts(dataset, group):
    return [
        f"work/{dataset}/evaluation/{one.direction}/{one.suite}/{one.name}/{group}.parquet"
        for one in evaluation.scenarios(CONFIG, dataset)
    ]


rule demo_encoder:
    output:
        directory("work/demo_encoder"),
    log:
        "work/logs/demo_encoder.log",
    benchmark:
        "work/benchmarks/demo_encoder.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 2
    resources:
        mem_mb=3000,
        runtime=60,
    params:
        recipe=recipe.canonical({"version": 1, "seed": CONFIG.seed}),
        seed=CONFIG.seed,
    message:
        "training a small dual encoder on the demo's scenes"
    shell:
        "perturb train-encoder --seed {params.seed} --output {output} 2> {log}"


rule gallery:
    input:
        sources="manifests/{dataset}/sources.parquet",
        checkpoint=checkpoint_of,
    output:
        "work/{dataset}/evaluation/gallery.safetensors",
    log:
        "work/logs/{dataset}/evaluation/gallery.log",
    benchmark:
        "work/benchmarks/{dataset}/evaluation/gallery.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=6000,
        runtime=240,
        device=CONFIG.evaluation.device,
    params:
        settings=recipe.canonical(evaluation.model_settings(CONFIG)),
    message:
        "encoding the clean clips of {wildcards.dataset}"
    shell:
        "perturb encode-gallery --settings {params.settings:q} --checkpoint {input.checkpoint} --sources {input.sources}"
        " --device {resources.device} --output {output} 2> {log}"


rule evaluate:
    input:
        unpack(evaluation_inputs),
    output:
        results="work/{dataset}/evaluation/{direction}/{corpus}/{scenario}/{group}.parquet",
        ranks="work/{dataset}/evaluation/{direction}/{corpus}/{scenario}/{group}.ranks.parquet",
    log:
        "work/logs/{dataset}/evaluation/{direction}/{corpus}/{scenario}/{group}.log",
    benchmark:
        "work/benchmarks/{dataset}/evaluation/{direction}/{corpus}/{scenario}/{group}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=6000,
        runtime=480,
        device=CONFIG.evaluation.device,
    params:
        settings=lambda wildcards: recipe.canonical(evaluation_settings(wildcards)),
        given=given,
    message:
        "{wildcards.direction} {wildcards.corpus} {wildcards.scenario}: {wildcards.group}, on {wildcards.dataset}"
    shell:
        "perturb evaluate --settings {params.settings:q} {params.given} --device {resources.device}"
        " --output {output.results} --ranks {output.ranks} 2> {log}"


rule results:
    input:
        parts=lambda wildcards: [
            part
            for group in (("none",) if wildcards.kind == "evaluation" else evaluation.GROUPS)
            for part in results_parts(wildcards.dataset, group)
        ],
    output:
        results="manifests/{dataset}/{kind}/results.parquet",
        ranks="manifests/{dataset}/{kind}/ranks.parquet",
    log:
        "work/logs/{dataset}/{kind}.log",
    benchmark:
        "work/benchmarks/{dataset}/{kind}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    message:
        "writing the results of {wildcards.dataset}"
    shell:
        "perturb merge-results --parts {input.parts} --output {output.results} --ranks {output.ranks} 2> {log}"
