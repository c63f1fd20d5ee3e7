"""The named targets of the workflow: the files of each target, its line in the menu, and how much work it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from perturbations.datasets import registry as datasets
from perturbations.errors import ConfigError
from perturbations.manifest import skipped
from perturbations.plan import (
    captions,
    composed,
    composed_paths,
    evaluation,
    evaluation_paths,
    listed,
    paths,
    recipe,
    sharding,
)
from perturbations.plan import config as configuration
from perturbations.plan.paths import CaptionShards, Plans
from perturbations.protocols import registry as protocols
from perturbations.suites import registry
from perturbations.text import scripts


@dataclass(frozen=True)
class Work:
    """What a target consists of.

    Attributes:
        files: the files that the target makes.
        sizes: lines that say how much work they are.
    """

    files: list[str]
    sizes: tuple[str, ...] = ()


Request = Callable[[], Work]
"""Plans the work of a target. Raises `PerturbationError` for a mistake that the user must correct."""


@dataclass(frozen=True)
class Target:
    """A target of Snakemake.

    Attributes:
        name: its name.
        text: its line in `snakemake --list-target-rules`.
        request: plans its work. It is called only when the target is requested, so that other targets cost nothing.
    """

    name: str
    text: str
    request: Request


def demo(config: configuration.Config, plans: Plans) -> Target:
    """The default target."""
    text = "the demo: every perturbation of the suite `mlvp` on clips that the package draws itself"
    return Target("all", text, partial(_demo, config, plans))


def _demo(config: configuration.Config, plans: Plans) -> Work:
    """The corpus of the demo. Raises `ConfigError` where it is not configured: a run of nothing would be a success."""
    for what, name, names in (("datasets", "demo", config.datasets), ("suites", "mlvp", config.suites)):
        if name not in names:
            first = f"{next(iter(config.suites))}_{next(iter(config.datasets))}"
            raise ConfigError(
                f"the default target is the demo, and `{what}` has no `{name}`: name targets, such as {first}"
            )
    return corpus(config, "mlvp", "demo", plans)


def menu(config: configuration.Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    """Every other target of a configuration, in the menu's order."""
    for suite in registry.suites().values():
        for name, adapter in suite.corpora.items():
            text = f"the suite `{suite.name}` on every dataset of the adapter `{adapter}`"
            yield Target(name, text, partial(corpora, config, suite.name, adapter, plans))
    for dataset in config.datasets:
        text = f"severities of even distortion, solved on clips of `{dataset}`"
        yield Target(f"calibrate_{dataset}", text, partial(calibration, dataset, plans))
    for dataset in config.datasets:
        text = f"retrieval with perturbed queries, on the dataset `{dataset}`"
        yield Target(f"evaluate_{dataset}", text, partial(results, config, dataset, "evaluation", plans))
        text = "retrieval with perturbed queries, without and with test-time adaptation"
        request = partial(results, config, dataset, "adaptation", plans)
        yield Target(f"tta_{dataset}", f"{text}, on the dataset `{dataset}`", request)
    yield from _of_composed(config, plans)
    for suite_name in config.suites:
        for dataset in config.datasets:
            yield from _of_suite(config, suite_name, dataset, plans, caption_shards)


def _of_composed(config: configuration.Config, plans: Plans) -> Iterator[Target]:
    names = {adapter.composed.target: name for name, adapter in datasets.adapters().items() if adapter.composed}
    for target, adapter in names.items():
        if target:
            text = f"composed retrieval on every dataset of the adapter `{adapter}`"
            yield Target(target, text, partial(composed_of_adapter, config, adapter, plans))
    for dataset in composed.can(config):
        text = f"retrieval by a clip and an instruction, on the dataset `{dataset}`"
        yield Target(f"composed_{dataset}", text, partial(composed_results, config, dataset, plans))


def _of_suite(
    config: configuration.Config, suite: str, dataset: str, plans: Plans, caption_shards: CaptionShards
) -> Iterator[Target]:
    videos = partial(corpus, config, suite, dataset, plans)
    yield Target(f"{suite}_{dataset}", corpus_text(config, suite, dataset), videos)
    if not captions.requested(config, dataset, suite):
        return
    request = partial(texts, config, suite, dataset, caption_shards)
    yield Target(f"text_{suite}_{dataset}", texts_text(config, suite, dataset), request)
    if registry.suite(suite).combined:
        text = f"videos and captions of {suite} on the dataset `{dataset}`, and the views that join them"
        joined = partial(multimodal, config, suite, dataset, videos, request)
        yield Target(f"multimodal_{suite}_{dataset}", text, joined)


# --- lines of the menu -----------------------------------------------------------------------------------------------


def corpus_text(config: configuration.Config, suite: str, dataset: str) -> str:
    """The menu line of a corpus of videos."""
    scenarios = recipe.scenarios(config, suite)
    names = {name for name, _ in scenarios}
    severities = sorted({severity for _, severity in scenarios})
    return (
        f"{len(names)} perturbations of {suite} x severities {', '.join(map(str, severities))} "
        f"on the dataset `{dataset}` ({config.datasets[dataset].adapter})"
    )


def texts_text(config: configuration.Config, suite: str, dataset: str) -> str:
    """The menu line of a corpus of captions."""
    names = {name for name, _ in captions.requested(config, dataset, suite)}
    return f"{len(names)} perturbations of {suite} on the captions of the dataset `{dataset}`; no video is needed"


# --- work of targets ------------------------------------------------------------------------------------------------


def _together(works: Sequence[Work]) -> Work:
    return Work([file for work in works for file in work.files], tuple(line for work in works for line in work.sizes))


def corpus(config: configuration.Config, suite: str, dataset: str, plans: Plans) -> Work:
    """Every manifest of one suite on one dataset.

    Raises `ConfigError`, before any job, for a calibrated severity that no table holds.
    """
    for name, severity in recipe.scenarios(config, suite):
        recipe.from_config(config, dataset, suite, name, severity)
    size = corpus_size(config, suite, dataset, plans)
    whole = [
        file
        for collection in whole_collections(config, suite, dataset)
        for file in (
            f"manifests/{collection}/{suite}/videos.parquet",
            f"manifests/{collection}/{suite}/quarantine.parquet",
            f"work/{collection}/{suite}/checked.txt",
        )
    ]
    names = (
        "videos.parquet",
        "quarantine.parquet",
        "mixed_severity.parquet",
        "mixed_types.parquet",
        "preview.png",
        "corpus.html",
    )
    files = [
        *paths.main_objects(config, suite, dataset),
        *whole,
        *(f"manifests/{dataset}/{name}.parquet" for name in ("sources", "captions", "qrels")),
        *(f"manifests/{dataset}/{suite}/{name}" for name in names),
        f"work/{dataset}/{suite}/checked.txt",
    ]
    return Work(files, (size,))


def whole_collections(config: configuration.Config, suite: str, dataset: str) -> list[str]:
    """The collection of whole videos, where a suite's corpus on a dataset stores them besides its clips."""
    cut = recipe.cuts_whole_videos(config, dataset, suite)
    return [sharding.whole(dataset)] if cut and config.storage.tier == "video" else []


def corpus_size(config: configuration.Config, suite: str, dataset: str, plans: Plans) -> str:
    """How many clips a corpus has, and how many listed items cannot be used."""
    scenarios = len(recipe.scenarios(config, suite))
    sizes = []
    for collection in (dataset, *whole_collections(config, suite, dataset)):
        items = plans(collection).listed
        noun = "clips" if config.datasets[dataset].has_spans and collection == dataset else "videos"
        sizes.append(f"{items:,} {noun} x {scenarios} = {items * scenarios:,} {noun}")
    plan = plans(dataset)
    counted = ((plan.rejected, "items"), (plan.rejected_captions, "captions"))
    unusable = "".join(f" ({number:,} listed {noun} cannot be used)" for number, noun in counted if number)
    return f"{suite} on {dataset}: {', cut from '.join(sizes)}{unusable}"


def corpora(config: configuration.Config, suite: str, adapter: str, plans: Plans) -> Work:
    """The corpora of one suite on every dataset of an adapter. Raises `ConfigError` where there are none."""
    names = [name for name, dataset in config.datasets.items() if dataset.adapter == adapter]
    if suite not in config.suites or not names:
        raise ConfigError(f"config.yaml has no dataset of the adapter '{adapter}', or not the suite '{suite}'")
    return _together([corpus(config, suite, name, plans) for name in names])


def texts(config: configuration.Config, suite: str, dataset: str, caption_shards: CaptionShards) -> Work:
    """The perturbed captions of one suite on one dataset. Raises `ConfigError` for what is named and cannot be made."""
    scenarios = len(captions.scenarios(config, dataset, suite))
    lists = map(config.at, paths.caption_lists(dataset, caption_shards(dataset)))
    members = [caption.text for path in lists for caption in listed.read(path, listed.ListedCaption)]
    sizes = [f"captions of {suite} on {dataset}: {len(members):,} x {scenarios} = {len(members) * scenarios:,}"]
    sizes += skipped_lines(config, suite, dataset)
    sizes += _of_another_script(config, dataset, members)
    rejected = len(listed.read(config.at(paths.WORK / dataset / sharding.REJECTED_CAPTIONS), listed.RejectedItem))
    sizes[0] += f" ({rejected:,} listed captions cannot be used)" if rejected else ""
    files = [f"manifests/{dataset}/{suite}/{name}.parquet" for name in ("captions", "caption_statistics")]
    files += [f"manifests/{dataset}/captions_quarantine.parquet", f"work/{dataset}/captions_checked.txt"]
    return Work(files, tuple(sizes))


def skipped_lines(config: configuration.Config, suite: str, dataset: str) -> list[str]:
    """What is left out of the perturbed captions, one line per reason."""
    lines = skipped.sentences(captions.skipped(config, dataset, suite))
    return [f"captions of {suite} on {dataset}: {line}" for line in lines]


_LOOKED_AT = 1000


def _of_another_script(config: configuration.Config, dataset: str, members: Sequence[str]) -> list[str]:
    """A warning where most captions, of a sample, are not written as the dataset's language is."""
    language = config.datasets[dataset].language
    other = scripts.other_script(members[:: max(1, len(members) // _LOOKED_AT)], language)
    if other is None:
        return []
    script, share = other
    return [
        f"warning: datasets.{dataset}.language is `{language}`, but {share:.0%} of the captions are written in "
        f"{script}: name their language, so that perturbations that mean nothing for it are skipped"
    ]


def multimodal(config: configuration.Config, suite: str, dataset: str, videos: Request, perturbed: Request) -> Work:
    """A corpus, its perturbed captions, and the views that join them. Raises `ConfigError` where none are combined."""
    combined = registry.suite(suite).combined
    assert combined is not None, "the menu has this target only where there is something to combine"
    scenarios = set(recipe.scenarios(config, suite))
    of_videos = [name for name in combined.video if (name, combined.severity) in scenarios]
    named = {name for name, _ in captions.scenarios(config, dataset, suite)}
    of_captions = [name for name in combined.text if name in named]
    count, all_of_them = len(of_videos) * len(of_captions), len(combined.video) * len(combined.text)
    line = f"combinations of {suite} on {dataset}: {count} of {all_of_them}"
    if count == 0:
        raise ConfigError(
            f"{line}: suites.{suite} has {'captions' if of_videos else 'videos'} of none of them; they are of "
            f"severity {combined.severity} of {', '.join(combined.video)}, and captions of {', '.join(combined.text)}"
        )
    files = [f"manifests/{dataset}/{suite}/multimodal.parquet"]
    return _together([videos(), perturbed(), Work(files, (line,))])


def calibration(dataset: str, plans: Plans) -> Work:
    """A dataset's calibration table, with its plot and its report."""
    plans(dataset)
    return Work([f"manifests/{dataset}/calibration.{ending}" for ending in ("json", "png", "md")])


def composed_results(config: configuration.Config, dataset: str, plans: Plans) -> Work:
    """A split for composed retrieval and its results. Raises `ConfigError` where the dataset has none."""
    composed.check(config, dataset)
    plans(dataset)
    counts = Counter(scenario.perturbed for scenario in composed.scenarios(config, dataset))
    size = ", ".join(f"{count} x {what}" for what, count in counts.items())
    return Work(composed_paths.targets(config, dataset), (f"composed retrieval on {dataset}, perturbed: {size}",))


def composed_of_adapter(config: configuration.Config, adapter: str, plans: Plans) -> Work:
    """Composed retrieval on every dataset of an adapter. Raises `ConfigError` where there is none."""
    names = [name for name, dataset in config.datasets.items() if dataset.adapter == adapter]
    if not names:
        raise ConfigError(f"config.yaml has no dataset of the adapter '{adapter}'")
    return _together([composed_results(config, name, plans) for name in names])


def results(config: configuration.Config, dataset: str, kind: str, plans: Plans) -> Work:
    """The results of every model on a dataset, without (`evaluation`) or with (`adaptation`) adapting.

    Raises `ConfigError` where a dataset other than the demo's lacks what the configured protocol needs.
    """
    plans(dataset)
    models = evaluation.models(config)
    protocol = config.evaluation.protocol
    if protocol is not None and config.datasets[dataset].adapter != "demo":
        lacking = [
            line
            for own in models.values()
            for line in protocols.lacking(protocol, own.evaluation.model_dump(mode="json"))
        ]
        if lacking:
            raise ConfigError(
                "\n".join(dict.fromkeys(config.places.before("evaluation.protocol", line) for line in lacking))
            )
    scenarios = Counter(scenario.side for scenario in evaluation.scenarios(config, dataset))
    methods = sum(len(evaluation.methods(config, group)) for group in evaluation_paths.groups(kind))
    runs = scenarios.total() * methods * len(config.evaluation.seeds) * len(models)
    sides = ", ".join(f"{count} {'clean' if side == 'none' else side}" for side, count in scenarios.items())
    several = f" x {len(models)} models" if len(models) > 1 else ""
    sizes = [
        f"{kind} on {dataset}: {scenarios.total()} scenarios ({sides}) x {methods} methods{several} = {runs:,} runs"
    ]
    sizes += [line for suite in evaluation.caption_suites(config) for line in skipped_lines(config, suite, dataset)]
    folders = [evaluation_paths.results_folder(own, dataset, kind) for own in models.values()]
    return Work([f"{folder}/{name}.parquet" for folder in folders for name in ("results", "ranks")], tuple(sizes))
