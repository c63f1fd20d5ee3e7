"""The jobs of rules about captions."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from perturbations.base import storage
from perturbations.base.errors import BackendError, ManifestError, ToolError
from perturbations.base.progress import log_kept, logged
from perturbations.base.records import digest
from perturbations.corpus.captions import mixes, pipeline
from perturbations.corpus.captions.fidelity_gate import Similarities
from perturbations.corpus.comparability import verdict
from perturbations.corpus.jobs.job_metadata import check_failures, provenance
from perturbations.corpus.plan import clip_lists
from perturbations.corpus.plan.caption_recipes import text_id
from perturbations.corpus.plan.recipe import TextRecipe, parse_text
from perturbations.corpus.store.parts import is_true_text_marker
from perturbations.corpus.tally import Tally
from perturbations.manifest import files, manifest_paths, sets
from perturbations.manifest.rows import (
    CAPTIONS,
    MULTIMODAL,
    QRELS,
    QUARANTINE,
    QUESTIONS,
    SOURCES,
    TEXT_STATISTICS,
    TEXTS,
    VIDEOS,
    CaptionRow,
    QuestionRow,
    SourceRow,
    TextRow,
    TextStatisticsRow,
)
from perturbations.manifest.skipped import SKIPPED, of_manifest
from perturbations.models import role_registry as models
from perturbations.suites import suite_registry

_log = logging.getLogger("perturbations")


def captions(
    *, dataset: str, adapter: str, language: str, listed: Path, sources: Path, captions: Path, qrels: Path
) -> None:
    """Write the captions and qrels manifests."""
    rows, clips = clip_lists.read(listed, CaptionRow), files.read_part(sources, SOURCES)
    listed_captions = sorted((row.caption_id, row.item_id, row.text) for row in rows)
    about: dict[str, object] = {"dataset": dataset, "adapter": adapter, "language": language}
    about |= {sets.SET: sets.of_sources(clips).columns()}
    about |= sets.together([captions.name, qrels.name], listed_captions)
    files.write(captions, CAPTIONS, rows, {**provenance(captions), **about})
    files.write(qrels, QRELS, sets.qrels(rows, clips), {**provenance(qrels), **about})


def questions(*, dataset: str, listed: Path, output: Path) -> None:
    """Write the manifest of questions."""
    files.write(output, QUESTIONS, clip_lists.read(listed, QuestionRow), {**provenance(output), "dataset": dataset})


def rejected_captions(*, dataset: str, work: Path, rejected: Path, output: Path) -> None:
    """Write the manifest of captions that cannot be used."""
    rows = sets.quarantine_of(clip_lists.read(rejected, SourceRow), ())
    shards = clip_lists.read_folder(work / "captions", CaptionRow)
    caption_ids = [caption.caption_id for members in shards.values() for caption in members]
    described = sets.of_captions(caption_ids, len(rows)).columns()
    about = {**provenance(output), "dataset": dataset, sets.SET: described}
    files.write(output, QUARANTINE, rows, about)


def check_captions(*, allowed: int, quarantine: Path, output: Path) -> None:
    """Fail when more captions cannot be used than allowed."""
    failures = [(row.item_id, row.error) for row in files.read_part(quarantine, QUARANTINE)]
    ways = "Correct the annotations, exclude their items with `subset`,"
    check_failures(failures, allowed, "listed caption", "cannot be used", ways, quarantine, output)


# --- perturbed captions ----------------------------------------------------------------------------------------------


def texts(*, dataset: str, recipes: Path, captions: Path, marker: Path) -> None:
    """Perturb the captions of a shard by every recipe of a suite; parts that hold the right rows are kept.

    Each perturbation and severity has a part, below the folder of the `marker`. The marker holds the sizes of the
    parts. Raises `BackendError` or `ToolError` for the first recipe that cannot be followed, after all others.
    """
    part, listed = manifest_paths.name("text_part", shard=marker.stem), clip_lists.read(captions, CaptionRow)
    wanted = {f"{scenario}/{part}": parse_text(text) for scenario, text in clip_lists.read_texts(recipes).items()}
    kept = {name for name, recipe in wanted.items() if _is_finished(marker.parent / name, dataset, listed, recipe)}
    log_kept(len(kept), len(wanted))
    errors = []
    judge: Similarities | None = None  # which remembers similarities: all recipes have one backend
    last = ""
    for name, recipe in logged(wanted.items(), len(wanted), "perturbations"):
        if name in kept:
            continue
        if recipe.backend == "pretrained" and recipe.key != last:
            models.forget()
        last = recipe.key
        try:
            if "similarity" in recipe.players:
                judge = judge or Similarities(models.load("similarity", recipe.backend))
            files.write_part(marker.parent / name, TEXTS, list(pipeline.rows_of(recipe, dataset, listed, judge)))
        except (BackendError, ToolError) as error:
            _log.warning("%s %s: %s", recipe.key, recipe.severity, error)
            errors.append(error)
    if errors:
        raise errors[0]
    sizes = {name: (marker.parent / name).stat().st_size for name in wanted}
    storage.write_text(marker, json.dumps(sizes, sort_keys=True) + "\n")


def _is_finished(path: Path, dataset: str, captions: Sequence[CaptionRow], recipe: TextRecipe) -> bool:
    """Whether a part holds exactly the rows of the captions by the recipe."""
    if not path.is_file():
        return False
    try:
        columns = files.read_columns(path, "caption_id", "recipe_id").to_pydict()
    except ManifestError:
        return False
    present = zip(*columns.values(), strict=True)
    return sorted(present) == sorted((caption.caption_id, text_id(recipe, dataset, caption)) for caption in captions)


def texts_manifest(
    *,
    dataset: str,
    adapter: str,
    suite: str,
    skipped: list[Any],
    work: Path,
    recipes: Path,
    rejected: Path,
    texts: Path,
    statistics: Path,
) -> None:
    """Merge perturbed captions, one scenario after the other, and write their statistics.

    Raises `ManifestError` unless each caption has exactly one row per scenario, made by the current recipe from the
    current text; markers whose parts are not there are deleted, so that the next run makes them again.
    """
    parts = work / suite / "captions"
    shards = clip_lists.read_folder(work / "captions", CaptionRow)
    wanted = clip_lists.read_texts(recipes)
    due = (
        (
            parts / scenario / manifest_paths.name("text_part", shard=shard),
            [(caption.caption_id, text_id(parsed, dataset, caption)) for caption in members],
        )
        for scenario, parsed in ((scenario, parse_text(text)) for scenario, text in wanted.items())
        for shard, members in shards.items()
    )
    rows = sets.merge(due, TEXTS, ("caption_id", "recipe_id"))
    tally, counted = Tally(), list[TextStatisticsRow]()
    about: dict[str, object] = {}

    def merged() -> Iterator[TextRow]:
        scenarios = groupby(rows, lambda row: (row.perturbation, row.severity))
        for _, scenario in logged(scenarios, len(wanted), "perturbations counted"):
            members = list(scenario)
            counted.append(pipeline.statistics(members))
            yield from tally.over(members)

    def described() -> dict[str, object]:
        about.update(provenance(texts), dataset=dataset)
        caption_ids = [caption.caption_id for members in shards.values() for caption in members]
        listed = sets.of_captions(caption_ids, len(clip_lists.read(rejected, SourceRow)), len(wanted))
        about[sets.SET] = {**listed.columns(), SKIPPED: skipped}
        about.update(adapter=adapter, config_digest=digest(dict(wanted)))
        about["comparability"] = verdict(Tally(), tally, adapter=adapter)
        return about

    try:
        files.write(texts, TEXTS, merged(), described)
    finally:
        for marker in parts.glob("*.json"):
            if not is_true_text_marker(marker):  # a part that cannot be used was removed
                marker.unlink()
    files.write(statistics, TEXT_STATISTICS, counted, about)


def multimodal(*, videos: Path, texts: Path, output: Path) -> None:
    """Join perturbed captions with perturbed videos."""
    clips, captions = files.read_part(videos, VIDEOS), files.read_part(texts, TEXTS)
    described = files.read_metadata(videos)
    combined = suite_registry.suite(described["suite"]).combined
    about = {name: described[name] for name in ("dataset", "adapter", "suite", sets.SET)}
    about |= provenance(output)
    tallies = Tally().counted(clips), Tally().counted(captions)
    about["comparability"] = verdict(*tallies, adapter=str(described.get("adapter", "")))
    if combined is not None:
        entries = of_manifest(files.read_metadata(texts))
        left_out = [entry for entry in entries if entry["perturbation"] in combined.text]
        about[sets.SET] = {**about[sets.SET], SKIPPED: left_out}
    files.write(output, MULTIMODAL, mixes.combinations(clips, captions), about)
