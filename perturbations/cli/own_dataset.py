"""A configuration for a file of captions and a folder of videos or pictures, with what was seen of them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from perturbations.base import shown
from perturbations.base.errors import ConfigError
from perturbations.base.storage import PROFILES
from perturbations.engine import clip_files
from perturbations.plan import costs, own_items
from perturbations.plan.listed import ListedClip
from perturbations.suites import registry

_FORMS = {
    "high": "at least 40 dB",
    "compatible": "lossy, plays everywhere",
    "recipe": "no pixels, clips are rendered when they are read",
}
"""The storages to choose from, in this order: profiles of videos, and the tier without any."""

_FORMS_OF_PICTURES = {"png": "exact", "recipe": "no pixels, pictures are rendered when they are read"}
"""The same of pictures, which every profile but one stores as PNG."""

_ROOM = 0.4
"""The share of the free disk that a corpus may take, whose size is known within a factor of 2."""


def look(folder: Path, videos: Path, captions: Path, *, pictures: bool = False) -> tuple[str, str, str, list[str]]:
    """Match captions with videos or pictures, look at each file, and choose a storage that fits the disk.

    Returns the dataset's name, the suite to begin with, the configuration as YAML, and lines for the user. Raises
    `ConfigError` or `AnnotationError` where no clip can be used.
    """
    name = re.sub(r"[^a-z0-9_]+", "_", folder.resolve().name.lower()).strip("_").lstrip("_0123456789") or "mine"
    matched = own_items.match(name, videos, captions, pictures=pictures)
    damaged = clip_files.unreadable([clip for clip, _ in matched.clips])
    failed = [(entry.item_id, entry.reason) for entry in matched.rejected]
    failed += [
        (clip.item_id, f"{clip.path}: {damaged[clip.path]}") for clip, _ in matched.clips if clip.path in damaged
    ]
    usable = {clip: number for clip, number in matched.clips if clip.path not in damaged}
    if not usable:
        reasons = "".join(f"\n  {item_id!r}: {reason}" for item_id, reason in failed[:5])
        raise ConfigError(f"no item of {captions} can be used from {videos}:{reasons}")
    suites = ("mm_robustness",) if pictures else ("mlvp", "mm_robustness")  # half of MLVP needs several frames
    storage, cost = _storage(folder, list(usable), suites[0], _FORMS_OF_PICTURES if pictures else _FORMS)
    clip, files = (shown.in_words_of(noun, pictures=pictures) for noun in ("clip", "videos"))
    malformed = [(entry.item_id, entry.reason) for entry in matched.rejected if entry.is_malformed]
    allowed = [entry for entry in failed if entry not in malformed]
    summary = [f"{shown.plural(len(usable), clip)} with {shown.plural(sum(usable.values()), 'caption')}"]
    summary += _few_lines("left out, which max_failed_items allows", allowed)
    what = "that do not follow the format: mend them, or let max_failed_items allow them, before a run"
    summary += _few_lines(what, malformed)
    summary.append(cost)
    if matched.split:
        others = f", not {', '.join(matched.other_splits)}" if matched.other_splits else ""
        summary.append(f"split: {matched.split}{others}")
    if matched.unlisted:
        summary.append(f"{files} without a caption, which are left out: {_few(matched.unlisted)}")
    first = next(iter(usable)).path
    typed = shlex.quote(f"./{first}" if first.startswith("-") else first)
    summary.append(f"a first look, in seconds: perturb preview {typed}")
    section = {
        "adapter": matched.adapter,
        "annotations": _from(folder, captions),
        "videos": _from(folder, videos),
        **({"split": matched.split} if matched.split else {}),
        **({"columns": matched.columns} if matched.columns else {}),
        **({"max_failed_items": len(allowed)} if allowed else {}),
    }
    config = {"datasets": {name: section}, "suites": {suite: {} for suite in suites}, "storage": storage}
    return name, suites[0], yaml.safe_dump(config, sort_keys=False, allow_unicode=True), summary


def _storage(
    folder: Path, clips: Sequence[ListedClip], suite: str, forms: Mapping[str, str]
) -> tuple[dict[str, object], str]:
    """The first of the forms that the suite has room for, and what it takes."""
    there = next(parent for parent in (folder.resolve(), *folder.resolve().parents) if parent.exists())
    free = shutil.disk_usage(there).free
    scenarios = sum(len(entry.severities) for entry in registry.perturbations(suite, "video"))
    pixels = (costs.mean_pixels(clips, None) or 0.0) * len(clips) * scenarios
    sizes = {form: pixels * clip_files.BYTES_PER_PIXEL[form] for form in forms}
    form = next((form for form, size in sizes.items() if size < _ROOM * free), "recipe")
    storage: dict[str, object] = {"tier": "recipe"} if form == "recipe" else {"tier": "video"}
    if form in PROFILES:
        storage["profile"] = form
    takes = f"all of {suite} takes about {sizes[form] / 1e9:.1f} GB, {free / 1e9:.0f} GB are free"
    return storage, f"storage: {form} ({forms[form]}): {takes}"


def _few_lines(what: str, failed: Sequence[tuple[str, str]]) -> Iterator[str]:
    if failed:
        yield f"{len(failed):,} {what}:"
        yield from (f"  {line}" for line in shown.first_of([f"{item_id!r}: {reason}" for item_id, reason in failed]))


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _from(folder: Path, path: Path) -> str:
    """A path as the new project's configuration names it: relative to its folder."""
    return os.path.relpath(path.resolve(), folder.resolve())
