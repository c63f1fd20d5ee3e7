# Retrieval with what was made: the model as it is (evaluate_<dataset>), and adapting to its queries (tta_<dataset>).
localrules:
    results,


wildcard_constraints:
    direction="v2t|t2v",
    level="[a-z0-9_]+",
    group="none|adapted",
    kind="evaluation|adaptation",


DEMO_ENCODER = "work/demo_encoder"


def results_of(dataset, kind):
    """An input function: the results of one dataset, without (`evaluation`) or with (`adaptation`) adapting."""

    def files(wildcards):
        plan_of(dataset)
        made = evaluation.scenarios(CONFIG, dataset)
        methods = [
            method for group in groups_of(kind) for method in evaluation.methods(CONFIG, group)
        ]
        runs = len(made) * len(methods) * len(CONFIG.evaluation.seeds)
        print(
            f"{kind} on {dataset}: {len(made)} scenarios x {len(methods)} methods = {runs:,} runs",
            file=sys.stderr,
        )
        folder = f"manifests/{dataset}/{kind}"
        return [f"{folder}/results.parquet", f"{folder}/ranks.parquet"]

    return files


def groups_of(kind):
    return ("none",) if kind == "evaluation" else evaluation.GROUPS


def results_parts(dataset, kind, ending="parquet"):
    """What the jobs of an evaluation write."""
    return [
        f"work/{dataset}/evaluation/{'/'.join(job)}/{group}.{ending}"
        for job in evaluation.jobs(CONFIG, dataset)
        for group in groups_of(kind)
    ]


def job_of(wildcards):
    return wildcards.direction, wildcards.corpus, wildcards.level


def model_inputs(wildcards):
    """The files that a model is loaded from: its checkpoint, or the encoder that the workflow trains."""
    inputs = {}
    if CONFIG.evaluation.pretrained is None:
        inputs["pretrained"] = DEMO_ENCODER
    if CONFIG.evaluation.checkpoint is not None:
        inputs["checkpoint"] = str(CONFIG.evaluation.checkpoint)
    return inputs


def model_options(wildcards):
    """The same as a command's options."""
    wanted = CONFIG.evaluation
    said = ["--pretrained", wanted.pretrained or DEMO_ENCODER]
    return shlex.join(
        said + (["--checkpoint", str(wanted.checkpoint)] if wanted.checkpoint else [])
    )


def gallery_of(dataset):
    return f"work/{dataset}/evaluation/gallery.safetensors"


def evaluation_inputs(wildcards):
    """The model, what asks, and what is asked."""
    dataset, suite = wildcards.dataset, wildcards.corpus
    made = evaluation.jobs(CONFIG, dataset)[job_of(wildcards)]
    inputs = {
        "sources": f"manifests/{dataset}/sources.parquet",
        "captions": f"manifests/{dataset}/captions.parquet",
        **model_inputs(wildcards),
    }
    inputs["parts"] = [
        f"{parts_folder(wildcards)}/{one.perturbation}/{one.severity}/{shard}.parquet"
        for one in made
        if one.suite != evaluation.CLEAN and one.mix is None
        for shard in shards_of(wildcards)
    ]
    inputs["mixes"] = sorted(
        {f"manifests/{dataset}/{suite}/{one.mix}.parquet" for one in made if one.mix is not None}
    )
    if wildcards.direction == "t2v":
        inputs["gallery"] = gallery_of(dataset)
    return inputs | bank_inputs(wildcards)


def bank_inputs(wildcards):
    """Training queries for the method that needs them."""
    bank = CONFIG.evaluation.bank
    if bank is None or "qbnorm" not in evaluation.methods(CONFIG, wildcards.group):
        return {}
    if wildcards.direction == "t2v":
        return {"bank_captions": f"manifests/{bank}/captions.parquet"}
    return {"bank_gallery": gallery_of(bank)}


def parts_folder(wildcards):
    captions = "/captions" if wildcards.direction == "t2v" else ""
    return f"work/{wildcards.dataset}/{wildcards.corpus}{captions}"


def shards_of(wildcards):
    """The shards of what asks."""
    if wildcards.direction == "t2v":
        return caption_shards(wildcards.dataset)
    return plan_of(wildcards.dataset).shards


def asking_options(wildcards, input):
    """Where a job's queries are, as a command's options."""
    said = []
    if input.parts:
        lists = "captions" if wildcards.direction == "t2v" else "shards"
        said += [
            "--parts",
            parts_folder(wildcards),
            "--shards",
            f"work/{wildcards.dataset}/{lists}",
        ]
    if input.mixes:
        said += ["--mixes", f"manifests/{wildcards.dataset}/{wildcards.corpus}"]
    for name in ("gallery", "bank_captions", "bank_gallery"):
        if name in input.keys():
            said += [f"--{name.replace('_', '-')}", input[name]]
    return shlex.join(said)


def gpus(wildcards):
    return 1 if CONFIG.evaluation.device.startswith("cuda") else 0


rule demo_encoder:
    output:
        directory(DEMO_ENCODER),
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
        # `version` changes when the training does.
        recipe=recipe.canonical({"version": 1, "seed": CONFIG.seed}),
        seed=CONFIG.seed,
    message:
        "training a small dual encoder on drawn scenes"
    shell:
        "perturb train-encoder --seed {params.seed} --output {output} 2> {log}"


rule gallery:
    input:
        unpack(model_inputs),
        sources="manifests/{dataset}/sources.parquet",
    output:
        gallery_of("{dataset}"),
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
        gpu=gpus,
        device=CONFIG.evaluation.device,
    params:
        settings=recipe.canonical(evaluation.model_settings(CONFIG)),
        model=model_options,
    message:
        "encoding the clean clips of {wildcards.dataset}"
    shell:
        "perturb encode-gallery --settings {params.settings:q} {params.model} --sources {input.sources}"
        " --device {resources.device} --output {output} 2> {log}"


# The device is a resource because it decides where a result is made, and not what it is.
rule evaluate:
    input:
        unpack(evaluation_inputs),
    output:
        results="work/{dataset}/evaluation/{direction}/{corpus}/{level}/{group}.parquet",
        ranks="work/{dataset}/evaluation/{direction}/{corpus}/{level}/{group}.ranks.parquet",
        pictures="work/{dataset}/evaluation/{direction}/{corpus}/{level}/{group}.pictures.json",
    log:
        "work/logs/{dataset}/evaluation/{direction}/{corpus}/{level}/{group}.log",
    benchmark:
        "work/benchmarks/{dataset}/evaluation/{direction}/{corpus}/{level}/{group}.tsv"
    conda:
        "../../envs/perturb.yaml"
    threads: 1
    resources:
        mem_mb=6000,
        runtime=1440,
        gpu=gpus,
        device=CONFIG.evaluation.device,
    params:
        settings=lambda wildcards: recipe.canonical(
            evaluation.settings(CONFIG, wildcards.dataset, job_of(wildcards), wildcards.group)
        ),
        model=model_options,
        asking=asking_options,
    message:
        "{wildcards.direction}, {wildcards.corpus}, {wildcards.level}: {wildcards.group}, on {wildcards.dataset}"
    shell:
        "perturb evaluate --settings {params.settings:q} {params.model} --sources {input.sources}"
        " --captions {input.captions} {params.asking} --device {resources.device}"
        " --output {output.results} --ranks {output.ranks} --pictures {output.pictures} 2> {log}"


rule results:
    input:
        parts=lambda wildcards: results_parts(wildcards.dataset, wildcards.kind),
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
        mem_mb=4000,
        runtime=30,
    message:
        "writing the results of {wildcards.dataset}"
    shell:
        "perturb merge-results --parts {input.parts} --output {output.results} --ranks {output.ranks} 2> {log}"
