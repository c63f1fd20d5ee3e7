"""The runs of each job of an evaluation, from the configuration. No torch: Snakemake imports this."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from perturbations.base.errors import ConfigError
from perturbations.base.records import digest
from perturbations.config import sections as configuration
from perturbations.corpus.captions.mixes import PER_BATCH, SHARES
from perturbations.corpus.plan import caption_recipes, recipe
from perturbations.evaluation.plan.method_settings import AS_IT_IS, MethodEntry, parameters_of
from perturbations.evaluation.result_rows import (
    CLEAN_SCENARIO,
    COMPOSED,
    LISTED,
    WHOLE_GALLERY,
    Run,
    ScenarioKey,
    Side,
    order_of,
)
from perturbations.manifest import manifest_paths
from perturbations.suites import suite_registry
from perturbations.tta.methods import method_registry as methods

CLEAN = "clean"
MIXED, ALL = "mixed", "all"
"""The category of mixed scenarios, and the perturbation's name where several perturbations are mixed."""

DirectionName = Literal["v2t", "t2v"]
Direction = DirectionName | Literal["composed"]
Modality = Literal["clips", "captions", "middle"]

MODALITIES: tuple[Modality, ...] = ("clips", "captions")
"""The clean sides, encoded once per model. (`middle`, in composed retrieval: the middle frame of clips alone.)"""


def asks(direction: str) -> Modality:
    """What the queries of a direction are."""
    return "clips" if direction == "v2t" else "captions"


def answers(direction: str) -> Modality:
    """What the items of the gallery of a direction are."""
    return "captions" if direction == "v2t" else "clips"


def perturbs(modality: Modality, direction: str, side: str) -> bool:
    """Whether scenarios of a direction and a side have perturbed clips, or perturbed captions."""
    return side == "both" or side == ("query" if asks(direction) == modality else "gallery")


Half = tuple[str, str, int | None]
"""Suite, perturbation and severity of a perturbed side; no severity where several are mixed."""


def halves(run: Run) -> tuple[Half | None, Half | None]:
    """The perturbations of a run's clips and of its captions (or instructions); None where they are clean."""
    if run.side == "none":
        return None, None
    first = run.suite, run.perturbation, run.severity
    if run.text_perturbation is not None:
        suite, _, name = run.text_perturbation.rpartition("/")  # a perturbation of instructions also names its suite
        return first, (suite or run.suite, name, run.text_severity)
    is_of_clips = run.mix is not None or suite_registry.get(f"{run.suite}/{run.perturbation}").kind == "video"
    return (first, None) if is_of_clips else (None, first)


def features_of(runs: Sequence[Run], banks: Mapping[str, str]) -> dict[str, tuple[str, Modality]]:
    """The features that a job reads, by name: their dataset and modality.

    They are the features of clean clips and captions, and of the `banks` (`banks_of`).
    """
    first = runs[0]
    if first.direction == COMPOSED:
        modality = composed_clips(first)
        return {modality: (first.dataset, modality)}
    kinds = {"bank": asks(first.direction), "gallery_bank": answers(first.direction)}
    clean: dict[str, tuple[str, Modality]] = {name: (first.dataset, name) for name in _encoded_of(runs)}
    return clean | {name: (dataset, kinds[name]) for name, dataset in banks.items()}


def composed_clips(run: Run) -> Modality:
    """The frames of clips that a composed run uses: sampled frames, or the middle frame alone."""
    return "middle" if json.loads(run.parameters or "{}")["frames"] == "middle" else "clips"


def _encoded_of(runs: Iterable[Run]) -> list[Modality]:
    """The clean clips or captions whose features are read.

    Clean queries of a clean gallery are encoded like perturbed queries, so that their time is measured.
    """
    read = {
        name
        for run in runs
        for name in MODALITIES
        if not perturbs(name, run.direction, run.side) and (run.side != "none" or name != asks(run.direction))
    }
    return sorted(read)


# --- models -----------------------------------------------------------------------------------------------------------


def models(config: configuration.Config) -> dict[str, configuration.Config]:
    """The configuration of each model alone, by the model's key. A model is planned from its own configuration."""
    sections = [own for _, own in config.evaluation.each_model()]
    return {model_key(own): own for own in (config.model_copy(update={"evaluation": own}) for own in sections)}


def model_lines(config: configuration.Config) -> list[str]:
    """A line for the model that each evaluation loads."""
    lines = []
    for key, own in config.evaluation.each_model():
        name = f"{key}model"
        stand_in = (
            "a stand-in, the small encoder that the workflow trains on the demo's scenes; "
            f"{name} names a real one, and `perturb score` takes features of any"
        )
        tuned = f" with {own.checkpoint}" if own.checkpoint else ""
        lines.append(f"model of the evaluation: {own.model or stand_in}{tuned}")
    return lines


_READABLE = 64
"""The most letters of a key before its hash: the names of a folder and a file can be very long."""


def model_key(config: configuration.Config) -> str:
    """The name of a configured model in paths, rows and tables: "clip4clip-clip-vit-base-patch32-qs-1a2b3c4d".

    The readable part is the model's name, or pooling, model and checkpoint; then the setting. The hash covers what the
    readable part leaves out: the whole path of the checkpoint, the revision, the number of frames, the steps, the batch
    size and the precision. So a model with other values overwrites no results. The configuration is of one model
    (`models`).
    """
    wanted = config.evaluation
    model = Path(wanted.model).name if wanted.model else "demo_encoder"
    checkpoint = [f"{wanted.checkpoint.parent.name}-{wanted.checkpoint.stem}"] if wanted.checkpoint else []
    readable = wanted.models[0].name if wanted.models else "-".join([wanted.pooling, model, *checkpoint])
    slug = re.sub(r"[^a-z0-9_]+", "-", readable.lower()).strip("-")[:_READABLE].strip("-")
    names = ("model", "pooling", "revision", "num_frames", "setting", "batch_size", "steps", "precision", "top_k")
    identity = {name: getattr(wanted, name) for name in names if name != "top_k" or wanted.top_k is not None}
    identity["checkpoint"] = str(wanted.checkpoint) if wanted.checkpoint else None
    return f"{slug}-{wanted.setting}-{digest(identity)[:8]}"


# --- scenarios --------------------------------------------------------------------------------------------------------


def category_of(scenario: ScenarioKey | Run) -> str:
    """The category of a perturbation in its suite (of "both": the video's); "clean" or "mixed" without one."""
    if scenario.suite == CLEAN:
        return CLEAN
    return MIXED if scenario.mix else suite_registry.get(f"{scenario.suite}/{scenario.perturbation}").category


def scenarios(config: configuration.Config, dataset: str) -> list[Run]:
    """Every scenario that the configuration asks for, as a run without adaptation with the first seed.

    Clean scenarios come first; the others are sorted by side, suite and perturbation. Raises `ConfigError` where
    nothing of a suite is made at the configured severities, and for mixes without videos.
    """
    wanted = config.evaluation
    planned = []
    for direction in wanted.directions:
        asked = [CLEAN_SCENARIO]
        for side, suite in itertools.product(wanted.sides, _suites(config)):
            asked += _of_suite(config, dataset, suite, direction, side)
        planned += [run_of(config, dataset, direction, scenario) for scenario in asked]
    if wanted.mixes and not any(run.mix for run in planned):
        text = (
            "evaluation.mixes: they are of perturbed videos, and none are evaluated here: name a suite that makes "
            "videos, and a direction and side that perturb them (v2t query, t2v gallery)"
        )
        raise ConfigError(config.places.before("evaluation.mixes", text))
    return planned


def run_of(config: configuration.Config, dataset: str, direction: Direction, scenario: ScenarioKey) -> Run:
    """The run of a scenario without adaptation, with the first seed."""
    wanted, (alone, *_) = config.evaluation, config.evaluation.method_settings()
    of_model: dict[str, Any] = {
        name: getattr(wanted, name) for name in ("pooling", "num_frames", "precision", "setting", "steps")
    }
    run = Run(
        dataset=dataset,
        direction=direction,
        **scenario._asdict(),
        **of_model,
        model=wanted.model or manifest_paths.at("demo_encoder"),
        model_key=model_key(config),
        batch_size=wanted.batch_size,
        adapter=config.datasets[dataset].adapter,
        gallery_name=WHOLE_GALLERY,
        method=alone.name,
        seed=wanted.seeds[0],
    )
    return by_method(run, alone, wanted.seeds[0])


def by_method(run: Run, setting: MethodEntry, seed: int) -> Run:
    """The run of the same scenario by a method, with a seed."""
    parameters = parameters_of(setting.name, setting.parameters, run.direction)
    code = methods.code(setting.name)
    return replace(
        run, method=setting.name, label=setting.label, parameters=parameters, code=code, seed=seed, order=order_of(seed)
    )


def _suites(config: configuration.Config) -> tuple[str, ...]:
    wanted = config.evaluation.suites
    return wanted if wanted is not None else tuple(config.suites)


def suites_of(config: configuration.Config, modality: Modality) -> tuple[str, ...]:
    """The suites whose perturbed clips, or captions, are queries or the gallery."""
    wanted = config.evaluation
    used = any(perturbs(modality, direction, side) for direction in wanted.directions for side in wanted.sides)
    return _suites(config) if used else ()


def _of_suite(
    config: configuration.Config, dataset: str, suite: str, direction: DirectionName, side: Side
) -> Iterator[ScenarioKey]:
    if side == "both":
        yield from _combined(config, dataset, suite)
        return
    videos = perturbs("clips", direction, side)
    available = _pairs(config, dataset, suite, videos=videos)
    severities_of = config.evaluation.severities_of
    chosen = list(nearest(available, lambda name: severities_of(suite_registry.get(f"{suite}/{name}").category)))
    if available and not chosen:
        lowest = min(severity for _, severity in available)
        text = (
            f"evaluation.severities: nothing of {suite} is made there or below: its lowest severity is {lowest} "
            f"(suites.{suite})"
        )
        raise ConfigError(config.places.before("evaluation.severities", text))
    for name, severity in chosen:
        yield ScenarioKey(suite, name, severity, side=side)
    if not (videos and available):  # only videos are mixed
        return
    if "mixed_severity" in config.evaluation.mixes:
        for name in dict.fromkeys(name for name, _ in available):
            yield ScenarioKey(suite, name, mix="mixed_severity", side=side)
    asking = (direction, side) == ("v2t", "query")
    types = PER_BATCH if asking and config.suites[suite].variant == "released" else "mixed_types"
    if "mixed_types" in config.evaluation.mixes:
        for share in SHARES:
            yield ScenarioKey(suite, ALL, mix=types, share=share, side=side)


def _combined(config: configuration.Config, dataset: str, suite: str) -> Iterator[ScenarioKey]:
    """The combinations that a suite declares, where its videos and captions are made."""
    combined = suite_registry.suite(suite).combined
    if combined is None:
        return
    videos = [name for name, severity in recipe.scenarios(config, suite) if severity == combined.severity]
    texts = dict(caption_recipes.scenarios(config, dataset, suite))
    for name, text in itertools.product(combined.video, combined.text):
        if name in videos and text in texts:
            yield ScenarioKey(suite, name, combined.severity, text, texts[text], side="both")


def nearest(available: Sequence[tuple[str, int]], wanted: Callable[[str], Sequence[int]]) -> Iterator[tuple[str, int]]:
    """Each perturbation at each wanted severity, or at the highest available severity below it."""
    for name in dict.fromkeys(name for name, _ in available):
        severities = [severity for other, severity in available if other == name]
        chosen = {max((severity for severity in severities if severity <= most), default=0) for most in wanted(name)}
        for severity in sorted(chosen - {0}):
            yield name, severity


def _pairs(config: configuration.Config, dataset: str, suite: str, *, videos: bool) -> Sequence[tuple[str, int]]:
    """The (perturbation, severity) pairs of a suite's videos, or of its captions, that the configuration makes."""
    return recipe.scenarios(config, suite) if videos else caption_recipes.scenarios(config, dataset, suite)


def is_drawn(mix: str, seed: int) -> bool:
    """Whether a job draws a mix from the videos itself, and reads no mixed manifest.

    A seed with an order of its own draws from all clips, and perturbs a share of each batch in this order.
    """
    return mix == PER_BATCH or order_of(seed) != LISTED


def other_severities(config: configuration.Config, dataset: str) -> list[str]:
    """A line for each suite and severity that `evaluation.severities` names, and that `suites` does not make."""
    wanted = config.evaluation
    retrievals = [(direction, side) for direction in wanted.directions for side in wanted.sides if side != "both"]
    lines: dict[str, None] = {}
    for suite, (direction, side) in itertools.product(_suites(config), retrievals):
        pairs = _pairs(config, dataset, suite, videos=perturbs("clips", direction, side))
        for name in dict.fromkeys(name for name, _ in pairs):
            entry = suite_registry.get(f"{suite}/{name}")
            own = {severity for other, severity in pairs if other == name}
            for severity in sorted(({*wanted.severities_of(entry.category)} & {*entry.severities}) - own):
                instead = max((lower for lower in own if lower < severity), default=None)
                what = "nothing" if instead is None else f"severity {instead}"
                lines[
                    f"evaluation.severities: `suites.{suite}` does not make severity {severity} of {entry.category}: "
                    f"{what} is evaluated in its place"
                ] = None
    return [*lines]


# --- jobs -------------------------------------------------------------------------------------------------------------


def place_of(run: Run) -> str:
    """The place of a run's job: "v2t/query/mlvp/low". All instructions with clean clips have one place."""
    side, scenario = run.side, run.scenario
    if run.direction == COMPOSED and halves(run)[0] is None:
        side, scenario = "none", CLEAN_SCENARIO
    category = re.sub(r"[^a-z0-9]", "_", category_of(scenario).lower())
    return "/".join([run.direction, side, scenario.suite, category])


def runs(config: configuration.Config, dataset: str, kind: str) -> Iterator[Run]:
    """Every scenario by every method and seed, or without adaptation."""
    wanted = config.evaluation
    settings = [entry for entry in wanted.method_settings() if kind == "adaptation" or entry.name == AS_IT_IS]
    for run, entry, seed in itertools.product(scenarios(config, dataset), settings, wanted.seeds):
        yield by_method(run, entry, seed)


def banks_of(config: configuration.Config, runs: Sequence[Run]) -> Mapping[str, str]:
    """The datasets of the banks that runs use, by the names of banks in `adapt`."""
    declared = [methods.method(name) for name in dict.fromkeys(run.method for run in runs)]
    wanted = config.evaluation
    banks = {
        "bank": wanted.querybank if any(own.needs_bank for own in declared) else None,
        "gallery_bank": wanted.gallerybank if any(own.takes_gallery_bank for own in declared) else None,
    }
    return {name: dataset for name, dataset in banks.items() if dataset}
