# What the rules share: the plan of each dataset, paths, and how jobs find the command `perturb`.
import shlex
import sys
from functools import cache
from pathlib import Path

from snakemake.settings.types import DeploymentMethod


wildcard_constraints:
    dataset="[a-z][a-z0-9_]*(/whole)?",
    suite="[a-z][a-z0-9_]*",
    perturbation="[A-Za-z0-9_]+",
    severity="[1-9][0-9]*",
    shard="s[0-9a-f]+",
    analysis="motion|main_object|embedding|caption_embedding",


def without_braces(what, path):
    """A path as text. Snakemake takes braces in the paths that it tracks, or works in, for wildcards."""
    if set("{}") & set(str(path)):
        raise WorkflowError(f"{what}: rename {path}; Snakemake takes the braces for wildcards")
    return str(path)


without_braces("the working directory", Path.cwd())


# Whatever stands in a command is quoted (`{params.x:q}`; a list item by item), and what comes from config.yaml gets
# there through a function, because Snakemake takes braces in a plain string of `params` for wildcards.
# With conda the command is in the rule's environment, otherwise beside the Python that runs Snakemake.
if DeploymentMethod.CONDA not in workflow.deployment_settings.deployment_method:
    folder_of_python = shlex.quote(str(Path(sys.executable).parent))
    shell.prefix(f"export PATH={folder_of_python.replace('{', '{{').replace('}', '}}')}:$PATH; ")

# Limits decide when to give up on a file, never what a result is: jobs find them in their environment, not in parameters.
limits.use(limits.parse(CONFIG.limits.model_dump_json()))


@cache
def plan_of(dataset):
    """The shards of a dataset. Made when a target needs them, so that other datasets cost nothing."""
    try:
        configuration.check_backend_files(CONFIG.backends)
        return sharding.make(dataset, CONFIG, Path("work") / dataset)
    except PerturbationError as error:
        raise WorkflowError(shown.lines(str(error))) from None


def dataset_of(wildcards):
    """The dataset of a collection, which may be the dataset's whole videos."""
    return sharding.dataset_of(wildcards.dataset)


@cache
def report_size(suite, dataset):
    """Say how much there is to make."""
    scenarios = len(recipe.scenarios(CONFIG, suite))
    sizes = []
    for collection in [dataset, *whole_collections(suite, dataset)]:
        listed = plan_of(collection).listed
        noun = "clips" if CONFIG.datasets[dataset].has_spans and collection == dataset else "videos"
        sizes.append(f"{listed:,} {noun} x {scenarios} = {listed * scenarios:,} {noun}")
    rejected = plan_of(dataset).rejected
    unusable = f" ({rejected:,} listed items cannot be used)" if rejected else ""
    print(f"{suite} on {dataset}: {', cut from '.join(sizes)}{unusable}", file=sys.stderr)


def whole_collections(suite, dataset):
    """The collection of whole videos that a suite's corpus on a dataset has beside its clips."""
    cut = recipe.cuts_whole_videos(CONFIG, dataset, suite)
    return [sharding.whole(dataset)] if cut and CONFIG.storage.tier == "video" else []


def corpus_of(suite, dataset):
    """An input function: every manifest of one suite on one dataset."""

    def files(wildcards):
        check_calibration(suite, dataset)
        report_size(suite, dataset)
        folder = f"manifests/{dataset}"
        whole = [
            file
            for collection in whole_collections(suite, dataset)
            for file in (
                f"manifests/{collection}/{suite}/videos.parquet",
                f"manifests/{collection}/{suite}/quarantine.parquet",
                f"work/{collection}/{suite}/checked.txt",
            )
        ]
        return (
            main_objects_of(suite, dataset)
            + whole
            + [
                f"{folder}/sources.parquet",
                f"{folder}/captions.parquet",
                f"{folder}/qrels.parquet",
                f"{folder}/{suite}/videos.parquet",
                f"{folder}/{suite}/quarantine.parquet",
                f"{folder}/{suite}/mixed_severity.parquet",
                f"{folder}/{suite}/mixed_types.parquet",
                f"{folder}/{suite}/preview.png",
                f"work/{dataset}/{suite}/checked.txt",
            ]
        )

    return files


def recipe_of(wildcards):
    """The recipe of a job's perturbation and severity."""
    return scenario_recipe(
        wildcards.dataset, wildcards.suite, wildcards.perturbation, int(wildcards.severity)
    )


@cache
def scenario_recipe(collection, suite, perturbation, severity):
    return recipe.from_config(CONFIG, collection, suite, perturbation, severity)


def inputs_of(wildcards):
    """What a shard of clips needs beside itself: an analysis, clips to insert, the videos that they are cut from."""
    made = recipe_of(wildcards)
    inputs = {"sources": f"work/{wildcards.dataset}/sources/{wildcards.shard}.parquet"}
    if made.analysis is not None:
        inputs["analysis"] = (
            f"work/{wildcards.dataset}/analyses/{made.analysis.analysis}/{wildcards.shard}.parquet"
        )
    if made.donors is not None:
        corpus, analysis = made.donors
        inputs["donors"] = f"manifests/{corpus}/{analysis}.parquet"
    if made.whole_videos:
        inputs["whole"] = whole_parts(wildcards.dataset, wildcards.shard)
    return inputs


def analysis_recipe(wildcards):
    return recipe.analysis(wildcards.analysis, CONFIG.backends, recipe.storage_of(CONFIG.storage))


def recipes_file(wildcards):
    """The current recipes of a corpus, written now: what its parts must have been made by."""
    path = Path("work") / wildcards.dataset / wildcards.suite / "recipes.jsonl"
    listed.write_recipes(
        path,
        {
            f"{name}/{severity}": scenario_recipe(
                wildcards.dataset, wildcards.suite, name, severity
            ).text
            for name, severity in recipe.scenarios(CONFIG, wildcards.suite)
        },
    )
    return str(path)


def text_recipes_file(wildcards):
    """The same for perturbed captions."""
    path = Path("work") / wildcards.dataset / wildcards.suite / "captions" / "recipes.jsonl"
    listed.write_recipes(
        path,
        {
            f"{name}/{severity}": captions.from_config(CONFIG, wildcards.suite, name, severity).text
            for name, severity in captions.scenarios(CONFIG, wildcards.dataset, wildcards.suite)
        },
    )
    return str(path)


def input_options(wildcards, input):
    """What `inputs_of` names, as a command's options."""
    return [
        word
        for name in input.keys()
        for word in (f"--{name}", *([input[name]] if isinstance(input[name], str) else input[name]))
    ]


@cache
def whole_parts(dataset, shard):
    """The parts that describe the videos of a shard's clips: a video that comes or goes changes no others."""
    collection = sharding.whole(dataset)
    wanted = plan_of(dataset).videos[shard]
    homes = [name for name, videos in plan_of(collection).videos.items() if videos & wanted]
    return [f"work/{collection}/sources/{name}.parquet" for name in homes]


def main_objects_of(suite, dataset):
    """The list of main objects, where a suite looks for them, with its picture."""
    if not any(
        registry.get(f"{suite}/{name}").guide == "main_object"
        for name, _ in recipe.scenarios(CONFIG, suite)
    ):
        return []
    return [f"manifests/{dataset}/main_object.parquet", f"manifests/{dataset}/main_object.png"]


def analysis_memory_mb(analysis):
    """What a job of an analysis needs: a pretrained model's weights, or next to nothing."""
    sizes = {"main_object": 24000, "embedding": 4000, "caption_embedding": 4000}
    role = "main_object" if analysis == "main_object" else "embedding"
    pretrained = getattr(CONFIG.backends, role).backend == "pretrained"
    return sizes[analysis] if pretrained and analysis in sizes else 1000


@cache
def caption_shards(dataset):
    """The shards of a dataset's captions, whose list files are written now."""
    try:
        return sharding.captions(dataset, CONFIG, Path("work") / dataset)
    except PerturbationError as error:
        raise WorkflowError(shown.lines(str(error))) from None


def text_recipe(wildcards):
    return captions.from_config(
        CONFIG, wildcards.suite, wildcards.perturbation, int(wildcards.severity)
    )


def texts_of(suite, dataset):
    """An input function: the perturbed captions of one suite on one dataset."""

    def files(wildcards):
        made = captions.scenarios(CONFIG, dataset, suite)
        count = sum(
            len(
                listed.read(
                    Path("work") / dataset / "captions" / f"{shard}.jsonl", listed.ListedCaption
                )
            )
            for shard in caption_shards(dataset)
        )
        print(
            f"captions of {suite} on {dataset}: {count:,} x {len(made)} = {count * len(made):,}",
            file=sys.stderr,
        )
        folder = f"manifests/{dataset}/{suite}"
        return [f"{folder}/captions.parquet", f"{folder}/caption_statistics.parquet"]

    return files


def corpora_of(suite, adapter):
    """An input function: the corpora of one suite on every dataset of an adapter."""

    def files(wildcards):
        names = [name for name, one in CONFIG.datasets.items() if one.adapter == adapter]
        if suite not in CONFIG.suites or not names:
            raise WorkflowError(
                f"config.yaml has no dataset of the adapter '{adapter}', or not the suite '{suite}'"
            )
        return [file for name in names for file in corpus_of(suite, name)(wildcards)]

    return files


def describe(rule_name, text):
    """Give a target its line in `snakemake --list-target-rules`."""
    workflow.get_rule(rule_name).docstring = text


def text_menu_entry(suite, dataset):
    made = captions.scenarios(CONFIG, dataset, suite)
    return (
        f"{len({name for name, _ in made})} perturbations of {suite} on the captions of the dataset"
        f" `{dataset}`; no video is needed"
    )


def menu_entry(suite, dataset):
    scenarios = recipe.scenarios(CONFIG, suite)
    names = dict.fromkeys(name for name, _ in scenarios)
    severities = sorted({severity for _, severity in scenarios})
    return (
        f"{len(names)} perturbations of {suite} x severities {', '.join(map(str, severities))} "
        f"on the dataset `{dataset}` ({CONFIG.datasets[dataset].adapter})"
    )


def check_calibration(suite, dataset):
    """Fail before any job when a calibrated severity is asked for that no table holds."""
    try:
        for name, severity in recipe.scenarios(CONFIG, suite):
            recipe.from_config(CONFIG, dataset, suite, name, severity)
    except PerturbationError as error:
        raise WorkflowError(shown.lines(str(error))) from None


def calibrated_entries():
    """Every perturbation of the configured suites that a path leads through."""
    names = [
        f"{suite}/{name}" for suite in CONFIG.suites for name, _ in recipe.scenarios(CONFIG, suite)
    ]
    return [registry.get(key) for key in dict.fromkeys(names)]


def calibration_of(dataset):
    """An input function: a dataset's calibration table, with its plot and its report."""

    def files(wildcards):
        plan_of(dataset)
        return [f"manifests/{dataset}/calibration.{name}" for name in ("json", "png", "md")]

    return files
