# What the rules of an evaluation share: its jobs' inputs and options, and what the report shows.
wildcard_constraints:
    direction="v2t|t2v",
    level="[a-z0-9_]+",
    group="|".join(evaluation.GROUPS),
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
    return (evaluation.AS_IT_IS,) if kind == "evaluation" else evaluation.GROUPS


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
        inputs["checkpoint"] = without_braces("evaluation.checkpoint", CONFIG.evaluation.checkpoint)
    return inputs


def model_options(wildcards):
    """The same as a command's options."""
    wanted = CONFIG.evaluation
    said = [f"--pretrained={wanted.pretrained or DEMO_ENCODER}"]
    return said + ([f"--checkpoint={wanted.checkpoint}"] if wanted.checkpoint else [])


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
    """Training queries for the methods that need them."""
    bank = CONFIG.evaluation.bank
    if bank is None or not evaluation.needs_bank(CONFIG, wildcards.group):
        return {}
    if wildcards.direction == "t2v":
        return {"bank_captions": f"manifests/{bank}/captions.parquet"}
    return {"bank_gallery": gallery_of(bank)}


def parts_folder(wildcards):
    folder = Path("work") / wildcards.dataset / wildcards.corpus
    return str(folder / "captions" if wildcards.direction == "t2v" else folder)


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
    return said


def gpus(wildcards):
    return 1 if CONFIG.evaluation.device.startswith("cuda") else 0


def readers(wildcards):
    # A GPU is not to wait for one core to decode; on the CPU the model itself takes the cores, a job each.
    return 8 if gpus(wildcards) else 1


@cache
def reported():
    """The (dataset, kind) pairs whose results the page shows: those that there are, or else the first dataset's."""
    found = [
        (dataset, kind)
        for dataset in CONFIG.datasets
        for kind in ("adaptation", "evaluation")
        if Path(f"manifests/{dataset}/{kind}/results.parquet").exists()
    ]
    # Adaptation includes the model as it is.
    pairs = [
        pair for pair in found if pair[1] == "adaptation" or (pair[0], "adaptation") not in found
    ]
    return pairs or [(next(iter(CONFIG.datasets)), "adaptation")]
