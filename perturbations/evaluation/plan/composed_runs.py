"""The runs of an evaluation of composed retrieval, whose queries are a clip and an instruction.

Each query has a gallery of its own (`perturbations.composed`). No NumPy: Snakemake imports this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from perturbations.base.records import canonical
from perturbations.config import sections as configuration
from perturbations.corpus.plan import caption_recipes, recipe
from perturbations.evaluation.plan import planned_runs
from perturbations.evaluation.plan.planned_runs import Half, halves
from perturbations.evaluation.result_rows import CLEAN_SCENARIO, COMPOSED, LISTED, Run, ScenarioKey
from perturbations.manifest import manifest_paths

SPLIT = ("composed_queries", "composed_qrels", "composed_galleries", "composed_pool")
"""The manifests of a split."""


def scenario_of(clips: Half | None, texts: Half | None) -> ScenarioKey:
    """The scenario of perturbed halves (`halves`); where both are perturbed, text columns describe instructions."""
    first = clips or texts
    if first is None:
        return CLEAN_SCENARIO
    if clips is None or texts is None:
        return ScenarioKey(*first, side="query")
    return ScenarioKey(*clips, f"{texts[0]}/{texts[1]}", texts[2], side="query")


def perturbed(run: Run) -> str:
    """Which halves of a run's queries are perturbed, as a word."""
    clips, texts = halves(run)
    return ("both" if texts else "clips") if clips else ("instructions" if texts else "nothing")


def scenarios(config: configuration.Config, dataset: str) -> list[Run]:
    """A run per scenario that the configuration asks for: nothing perturbed, clips, instructions, both.

    The job chooses methods and galleries, because only it knows what the split allows.
    """
    wanted = config.composed
    own = config.evaluation.suites if config.evaluation.suites is not None else tuple(config.suites)

    def perturbations(suite: str, available: Sequence[tuple[str, int]]) -> list[Half]:
        return [
            (suite, name, severity) for name, severity in planned_runs.nearest(available, lambda _: wanted.severities)
        ]

    def of_texts(suite: str) -> list[Half]:
        return perturbations(suite, caption_recipes.scenarios(config, dataset, suite))

    of_clips = own if wanted.suites is None else wanted.suites
    clips = [half for suite in of_clips for half in perturbations(suite, recipe.scenarios(config, suite))]
    texts = [half for suite in (own if wanted.text_suites is None else wanted.text_suites) for half in of_texts(suite)]
    added = [half for key in wanted.both for half in of_texts(key.partition("/")[0]) if f"{half[0]}/{half[1]}" == key]
    pairs: list[tuple[Half | None, Half | None]] = [
        (None, None),
        *((clip, None) for clip in clips),
        *((None, text) for text in texts),
        *((clip, text) for clip in clips for text in added),
    ]
    how = canonical(settings(config))
    model = planned_runs.run_of(config, dataset, "composed", CLEAN_SCENARIO)
    unused: dict[str, Any] = dict.fromkeys(("precision", "steps", "batch_size", "label", "gallery_name"))
    asked = replace(
        model,
        **unused,
        method=COMPOSED,
        parameters=how,
        seed=0,
        order=LISTED,
    )
    return [replace(asked, **scenario_of(*pair)._asdict()) for pair in pairs]


def instructions(config: configuration.Config, dataset: str, suite: str) -> list[tuple[str, int]]:
    """The (perturbation, severity) pairs of a suite's instructions that are queries."""
    texts = [half for _, half in map(halves, scenarios(config, dataset)) if half is not None]
    return list(dict.fromkeys((name, severity or 0) for own, name, severity in texts if own == suite))


def text_suites(runs: Sequence[Run]) -> list[str]:
    """The suites whose perturbed instructions are queries."""
    texts = [halves(run)[1] for run in runs]
    return list(dict.fromkeys(half[0] for half in texts if half is not None))


_RETRIEVED = 3
"""How many of the clips that a query retrieved first are always kept: the page of results shows them."""

_WAYS = {"galleries", "source_in_gallery", "strategies", "words", "average", "shortlist", "first_stage"}


def settings(config: configuration.Config) -> dict[str, Any]:
    """All other settings that results depend on; departures from plain texts are named only where there are some."""
    wanted = config.composed
    held: dict[str, Any] = {"frames": wanted.frames, "shortlist": wanted.shortlist}
    return held | ({"pre_caption": True} if wanted.pre_caption else {})


def ways(config: configuration.Config) -> dict[str, Any]:
    """How queries are used, as settings of a job (`ways.Ways`)."""
    held: dict[str, Any] = config.composed.model_dump(mode="json", include=_WAYS)
    averages = held.pop("average")
    return {**held, "averages": averages, "top_k": config.evaluation.top_k or _RETRIEVED}


def split_files(dataset: str) -> list[str]:
    """The manifests of a split."""
    return [manifest_paths.at(name, dataset=dataset) for name in SPLIT]
