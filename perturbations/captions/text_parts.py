"""The parts of perturbed captions of a shard: one file per perturbation and severity, the journal of their job."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from perturbations.base import storage
from perturbations.base.errors import BackendError, ManifestError, ToolError
from perturbations.base.progress import log_kept
from perturbations.captions import caption_rows
from perturbations.captions.similarities import Similarities
from perturbations.manifest import files
from perturbations.manifest.kinds import TEXTS
from perturbations.models import registry as models
from perturbations.plan.caption_recipes import text_id
from perturbations.plan.listed import ListedCaption
from perturbations.plan.recipe import TextRecipe

_log = logging.getLogger("perturbations")

_KEY = ("caption_id", "recipe_id")


def run(dataset: str, captions: Sequence[ListedCaption], recipes: Mapping[Path, TextRecipe]) -> Iterator[Path]:
    """Write the part of each recipe at its path and yield the path; parts that hold the right rows are kept.

    Raises `BackendError` or `ToolError` for the first recipe that cannot be followed, after all others.
    """
    kept = [path for path, recipe in recipes.items() if _is_finished(path, dataset, captions, recipe)]
    log_kept(len(kept), len(recipes))
    yield from kept
    errors = []
    judges: dict[str, Similarities] = {}
    last = ""
    for path, recipe in recipes.items():
        if path in kept:
            continue
        if recipe.backend == "pretrained" and recipe.key != last:
            models.forget()
        last = recipe.key
        try:
            judge = _judge(recipe, judges)
            files.write_part(path, TEXTS, list(caption_rows.run(recipe, dataset, captions, judge)))
        except (BackendError, ToolError) as error:
            _log.warning("%s %s: %s", recipe.key, recipe.severity, error)
            errors.append(error)
            continue
        yield path
    if errors:
        raise errors[0]


def _judge(recipe: TextRecipe, judges: dict[str, Similarities]) -> Similarities | None:
    """What remembers the similarities of a backend's encoder; None where the recipe needs none."""
    if "similarity" not in recipe.players:
        return None
    if recipe.backend not in judges:
        judges[recipe.backend] = Similarities(models.load("similarity", recipe.backend))
    return judges[recipe.backend]


def _is_finished(path: Path, dataset: str, captions: Sequence[ListedCaption], recipe: TextRecipe) -> bool:
    """Whether a part holds exactly the rows of the captions by the recipe."""
    if not path.is_file():
        return False
    try:
        columns = files.read_columns(path, *_KEY).to_pydict()
    except ManifestError:
        return False
    present = zip(*(columns[name] for name in _KEY), strict=True)
    return sorted(present) == sorted((caption.caption_id, text_id(recipe, dataset, caption)) for caption in captions)


def write_marker(path: Path, parts: Iterable[Path]) -> None:
    """Write the marker of a shard of captions: the bytes of its parts by their paths from the marker's folder."""
    sizes = {part.relative_to(path.parent).as_posix(): part.stat().st_size for part in parts}
    storage.write_text(path, json.dumps(sizes, sort_keys=True) + "\n")


def drop_untrue_markers(folder: Path) -> None:
    """Delete the markers of captions in a folder of which a part is missing or has another size."""
    for marker in folder.glob("*.json"):
        sizes = json.loads(marker.read_text(encoding="utf-8"))
        parts = [(folder / name, size) for name, size in sizes.items()]
        if not all(part.is_file() and part.stat().st_size == size for part, size in parts):
            marker.unlink()
