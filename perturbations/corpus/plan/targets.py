"""The named targets of the workflow: the files of each target, its line in the menu, and how much work it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice, product

from perturbations.base import features, shown
from perturbations.base.errors import ConfigError, cut, nearest, short
from perturbations.config import problems
from perturbations.config import sections as configuration
from perturbations.corpus.plan import caption_recipes, clip_lists, folders, recipe, sharding
from perturbations.datasets import adapter_registry as datasets
from perturbations.manifest import manifest_paths, skipped
from perturbations.manifest.rows import CaptionRow, SourceRow
from perturbations.models import role_registry as models
from perturbations.suites import suite_registry
from perturbations.text import languages

Plans = Callable[[str], sharding.DatasetPlan]
"""The plan of a collection. It is a function, so that only the datasets of the requested targets are planned."""

CaptionShards = Callable[[str], Sequence[str]]
"""The shards of a dataset's captions."""


ClipScenario = tuple[str, str, str, int]
"""The collection, suite, perturbation and severity of perturbed clips."""


@dataclass(frozen=True)
class TargetWork:
    """What a target makes.

    Attributes:
        files: its files.
        sizes: lines that say how much work they are.
        corpora: the corpora whose clips it makes, each a collection and a suite.
        clips: the other clips that it needs: collection, suite, perturbation, severity.
    """

    files: list[str]
    sizes: tuple[str, ...] = ()
    corpora: tuple[tuple[str, str], ...] = ()
    clips: tuple[ClipScenario, ...] = ()


WorkRequest = Callable[[], TargetWork]
"""Plans the work of a target. Raises `PerturbationError` for a mistake that the user must correct."""


Target = tuple[str, str, WorkRequest]
"""A target of Snakemake: its name, its line in `snakemake --list-target-rules`, and its work.

The work is planned only when the target is requested, so that other targets cost nothing.
"""


def menu(config: configuration.Config, plans: Plans, caption_shards: CaptionShards) -> Iterator[Target]:
    """Every target of a configuration, in the menu's order; the first is the default."""
    # The default target is the demo's, or else of the first suite and dataset that are configured.
    suite_name, dataset = "mlvp" if "mlvp" in config.suites else next(iter(config.suites)), config.first_dataset
    text = f"the suite `{suite_name}` on `{dataset}`, as `{suite_name}_{dataset}`"
    yield "all", text, partial(corpus, config, suite_name, dataset, plans)
    for suite in suite_registry.suites().values():
        for name, adapter in suite.corpora.items():
            text = f"the suite `{suite.name}` on every dataset of the adapter `{adapter}`"
            yield name, text, partial(_corpora, config, suite.name, adapter, plans)
    yield from features.targets(config, plans, caption_shards)
    for suite_name in config.suites:
        for dataset in config.datasets:
            yield from _of_suite(config, suite_name, dataset, plans, caption_shards)


def named(config: configuration.Config, names: Sequence[str]) -> list[TargetWork]:
    """The work of the targets of these names. Raises `ConfigError` for an unknown name, and as planning does."""
    plans, caption_shards = cache(partial(sharding.plan_clips, config)), cache(partial(sharding.plan_captions, config))
    known = {name: request for name, _, request in menu(config, plans, caption_shards)}
    for name in names:
        if name not in known:
            raise ConfigError(no_target(config, name, known))
    return [known[name]() for name in dict.fromkeys(names)]


def near(word: str, known: Iterable[str]) -> list[str]:
    """The targets that a mistyped name may mean: with the same words in another order, or with similar letters."""
    names = list(known)
    words = sorted(word.split("_"))
    same = [name for name in names if sorted(name.split("_")) == words]
    return same or nearest(word, names) or [name for name in names if word in (name, *_halves(name))]


def _halves(target: str) -> set[str]:
    """What may be a suite or a dataset in a target's name: `mine` of `mlvp_mine`."""
    parts = target.split("_")
    return {"_".join(own) for place in range(1, len(parts)) for own in (parts[:place], parts[place:])}


def no_target(config: configuration.Config, word: str, known: Iterable[str]) -> str:
    """Why there is no target of a name, and which may have been meant."""
    return f"no target {short(word)}{meant(config, word, known) or '.'} `snakemake --list-target-rules` lists them"


def meant(config: configuration.Config, word: str, known: Iterable[str]) -> str:
    """What a word may mean that is no target, as the end of a message; empty where it is like none."""
    names = list(known)
    reason, others = "", near(word, names)
    for suite, dataset in product(suite_registry.suites(), config.datasets):
        kind = word.removesuffix(f"{suite}_{dataset}")
        if kind in ("", "text_", "multimodal_") and kind != word:
            of_kind = [name for name in names if name.startswith(kind) and name.endswith(f"_{dataset}")]
            others = of_kind if kind else others
            there = suite in config.suites
            why = f"{suite} perturbs no captions" if there else f"add it to config.yaml: suites: {{{suite}: {{}}}}"
            reason = f": {why}"
    if others:
        return f"{reason}; did you mean {' or '.join(others[:3])}?"
    reason += problems.another_kind(word)
    return reason and f"{reason}."


def _of_suite(
    config: configuration.Config, suite: str, dataset: str, plans: Plans, caption_shards: CaptionShards
) -> Iterator[Target]:
    videos = partial(corpus, config, suite, dataset, plans)
    yield f"{suite}_{dataset}", _corpus_text(config, suite, dataset), videos
    if not caption_recipes.requested(config, dataset, suite):
        return
    request = partial(texts, config, suite, dataset, caption_shards)
    yield f"text_{suite}_{dataset}", texts_text(config, suite, dataset), request
    if suite_registry.suite(suite).combined:
        text = f"videos and captions of {suite} on the dataset `{dataset}`, and the views that join them"
        joined = partial(_multimodal, config, suite, dataset, videos, request)
        yield f"multimodal_{suite}_{dataset}", text, joined


# --- lines of the menu -----------------------------------------------------------------------------------------------


def _corpus_text(config: configuration.Config, suite: str, dataset: str) -> str:
    """The menu line of a corpus of videos."""
    scenarios = recipe.scenarios(config, suite)
    names = {name for name, _ in scenarios}
    severities = sorted({severity for _, severity in scenarios})
    return (
        f"{shown.plural(len(names), 'perturbation')} of {suite} x severities {', '.join(map(str, severities))} "
        f"on the dataset `{dataset}` ({config.datasets[dataset].adapter})"
    )


def texts_text(config: configuration.Config, suite: str, dataset: str) -> str:
    """The menu line of a corpus of captions."""
    names = {name for name, _ in caption_recipes.requested(config, dataset, suite)}
    number = shown.plural(len(names), "perturbation")
    return f"{number} of {suite} on the captions of the dataset `{dataset}`; no video is needed"


# --- work of targets ------------------------------------------------------------------------------------------------


def together(works: Sequence[TargetWork]) -> TargetWork:
    """Several works as one."""
    return TargetWork(
        [file for work in works for file in work.files],
        tuple(line for work in works for line in work.sizes),
        tuple(corpus for work in works for corpus in work.corpora),
        tuple(scenario for work in works for scenario in work.clips),
    )


def corpus(config: configuration.Config, suite: str, dataset: str, plans: Plans) -> TargetWork:
    """Every manifest of one suite on one dataset.

    Raises `ConfigError`, before any job, for a perturbation of time of a dataset of pictures.
    """
    recipes = [recipe.from_config(config, dataset, suite, *scenario) for scenario in recipe.scenarios(config, suite)]
    # The main objects are a list that people inspect.
    inspected = [(dataset, "main_object")] if any(own.entry.guide == "main_object" for own in recipes) else []
    donors = {own.donors: None for own in recipes if own.donors is not None}
    sizes = [_corpus_size(config, suite, dataset, plans), *_unusable(config, dataset, "rejected", "rejected_captions")]
    videos = whole_collections(config, suite, dataset)
    whole = [
        manifest_paths.at(kind, dataset=collection, suite=suite)
        for collection in videos
        for kind in ("videos", "quarantine", "videos_checked")
    ]
    kinds = ("videos", "quarantine", "mixed_severity", "mixed_types", "preview", "corpus_page", "videos_checked")
    files = [
        *(manifest_paths.at("analyses", dataset=owner, analysis=analysis) for owner, analysis in (*inspected, *donors)),
        *whole,
        *(
            manifest_paths.at(kind, dataset=dataset)
            for kind in ("sources", "captions", "qrels", *_questions(config, dataset))
        ),
        *(manifest_paths.at(kind, dataset=dataset, suite=suite) for kind in kinds),
    ]
    return TargetWork(files, tuple(sizes), tuple((collection, suite) for collection in (dataset, *videos)))


def _questions(config: configuration.Config, dataset: str) -> tuple[str, ...]:
    """The manifest of a dataset's questions, where it has some."""
    return ("questions",) if datasets.get(config.datasets[dataset].adapter).questions else ()


def whole_collections(config: configuration.Config, suite: str, dataset: str) -> list[str]:
    """The collection of whole videos, where a suite's corpus on a dataset stores them besides its clips."""
    cut = recipe.cuts_whole_videos(config, dataset, suite)
    return [sharding.whole(dataset)] if cut and config.storage.tier == "video" else []


def _corpus_size(config: configuration.Config, suite: str, dataset: str, plans: Plans) -> str:
    """How many clips a corpus has."""
    scenarios = len(recipe.scenarios(config, suite))
    sizes = []
    for collection in (dataset, *whole_collections(config, suite, dataset)):
        items = plans(collection).listed
        described = config.datasets[dataset]
        noun = "clip" if described.has_spans and collection == dataset else "video"
        noun = shown.in_words_of(noun, pictures=described.has_pictures)
        sizes.append(f"{shown.plural(items, noun)} x {scenarios} = {shown.plural(items * scenarios, noun)}")
    return f"{suite} on {dataset}: {', cut from '.join(sizes)}"


_REJECTED = {"rejected": "item", "rejected_captions": "caption"}


def _unusable(config: configuration.Config, dataset: str, *kinds: str) -> list[str]:
    """How many listed items or captions cannot be used, and the first of them with the reason, a line each."""
    lines = []
    for kind in kinds:
        if rejected := clip_lists.read(config.at(manifest_paths.at(kind, dataset=dataset)), SourceRow):
            lines.append(f"{dataset}: {shown.plural(len(rejected), f'listed {_REJECTED[kind]}')} cannot be used:")
            reasons = [f"{entry.item_id!r}: {cut(str(entry.error))}" for entry in rejected]
            lines += [f"  {reason}" for reason in shown.first_of(reasons)]
    return lines


def _corpora(config: configuration.Config, suite: str, adapter: str, plans: Plans) -> TargetWork:
    """The corpora of one suite on every dataset of an adapter. Raises `ConfigError` where there are none."""
    names = [name for name, dataset in config.datasets.items() if dataset.adapter == adapter]
    if suite not in config.suites or not names:
        forms = f"datasets: {{{adapter}: {{adapter: {adapter}, ...}}}} and suites: {{{suite}: {{}}}}"
        raise ConfigError(f"`{suite}` is made of datasets of the adapter '{adapter}': config.yaml needs {forms}")
    return together([corpus(config, suite, name, plans) for name in names])


def texts(config: configuration.Config, suite: str, dataset: str, caption_shards: CaptionShards) -> TargetWork:
    """The perturbed captions of a suite on a dataset. Raises `ConfigError` where a named one cannot be made."""
    scenarios = len(caption_recipes.scenarios(config, dataset, suite))
    shards, folder = caption_shards(dataset), config.at(manifest_paths.folder("caption_list", dataset=dataset))
    number = sum(clip_lists.counts(folder).values())
    if not number and not sharding.is_composed(dataset):
        raise ConfigError(f"text_{suite}_{dataset} perturbs captions, and {no_captions(config, dataset)}")
    sizes = [f"captions of {suite} on {dataset}: {number:,} x {scenarios} = {number * scenarios:,}"]
    sizes += [*_models_of_texts(config, suite, dataset), *skipped_lines(config, suite, dataset)]
    # Their order in the shards is that of a hash: the first ones are a sample.
    members = (row.text for shard in shards for row in clip_lists.read(clip_lists.list_in(folder, shard), CaptionRow))
    sizes += _of_another_script(config, dataset, [*islice(members, _LOOKED_AT)])
    sizes += _unusable(config, dataset, "rejected_captions")
    kinds = ("texts", "text_statistics", "caption_pairs")
    files = [manifest_paths.at(kind, dataset=dataset, suite=suite) for kind in kinds]
    of_dataset = ("captions_quarantine", "captions_checked", *_questions(config, dataset))
    files += [manifest_paths.at(kind, dataset=dataset) for kind in of_dataset]
    return TargetWork(files, tuple(sizes))


def no_captions(config: configuration.Config, dataset: str) -> str:
    """The end of a message: that a dataset has no captions, and how to add them."""
    key, table = f"datasets.{dataset}", config.datasets[dataset].annotations
    own = f" or name the one that has them ({key}.columns: {{caption: ...}})" if table else ""
    return f"{key} has none: add a column `caption` to {table or 'its table'},{own}"


def _models_of_texts(config: configuration.Config, suite: str, dataset: str) -> Iterator[str]:
    """The models that perturb captions. Stand-ins for the paper's models are marked."""
    recipes = folders.texts_of_recipes(config, dataset, suite).values()
    if names := sorted({name for text in recipes for name in json.loads(text)["players"].values()}):
        stand_ins, backend = models.stand_ins(), config.backends.captions.backend
        listed_names = ", ".join(f"{name} (a stand-in)" if name in stand_ins else name for name in names)
        yield f"models of captions, as backends.captions.backend: {backend}: {listed_names}"


def skipped_lines(config: configuration.Config, suite: str, dataset: str) -> list[str]:
    """What is left out of the perturbed captions, one line per reason."""
    lines = skipped.sentences(caption_recipes.skipped(config, dataset, suite))
    return [f"captions of {suite} on {dataset}: {line}" for line in lines]


_LOOKED_AT = 1000


def _of_another_script(config: configuration.Config, dataset: str, members: Sequence[str]) -> list[str]:
    """A warning where most captions, of a sample, are not written as the dataset's language is."""
    language = config.datasets[dataset].language
    other = languages.other_script(members, language)
    if other is None:
        return []
    script, share = other
    return [
        f"warning: datasets.{dataset}.language is `{language}`, but {share:.0%} of the captions are written in "
        f"{script}: name their language, so that perturbations that mean nothing for it are skipped"
    ]


def _multimodal(
    config: configuration.Config, suite: str, dataset: str, videos: WorkRequest, perturbed: WorkRequest
) -> TargetWork:
    """A corpus, its perturbed captions, and the views that join them. Raises `ConfigError` where none are combined."""
    combined = suite_registry.suite(suite).combined
    assert combined is not None, "the menu has this target only where there is something to combine"
    scenarios = set(recipe.scenarios(config, suite))
    of_videos = [name for name in combined.video if (name, combined.severity) in scenarios]
    named = {name for name, _ in caption_recipes.scenarios(config, dataset, suite)}
    of_captions = [name for name in combined.text if name in named]
    count, all_of_them = len(of_videos) * len(of_captions), len(combined.video) * len(combined.text)
    line = f"combinations of {suite} on {dataset}: {count} of {all_of_them}"
    if count == 0:
        raise ConfigError(
            f"{line}: suites.{suite} has {'captions' if of_videos else 'videos'} of none of them; they are of "
            f"severity {combined.severity} of {', '.join(combined.video)}, and captions of {', '.join(combined.text)}"
        )
    files = [manifest_paths.at("multimodal", dataset=dataset, suite=suite)]
    return together([videos(), perturbed(), TargetWork(files, (line,))])
