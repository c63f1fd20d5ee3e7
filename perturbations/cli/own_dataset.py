"""A configuration for a file of captions and a folder of videos or pictures, with what was seen of them."""

from __future__ import annotations

import csv
import io
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import yaml

from perturbations.base import shown
from perturbations.base.errors import AnnotationError, ConfigError, short
from perturbations.base.storage import nfc
from perturbations.config.named_paths import no_file, no_folder
from perturbations.corpus.plan import items, resources, video_files
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.corpus.store import first_bytes
from perturbations.datasets import usual_columns
from perturbations.datasets.adapter_registry import ColumnsSection, Dataset
from perturbations.datasets.listing import VIDEO_EXTENSIONS, Listing, is_unicode
from perturbations.datasets.parsing import whole_json
from perturbations.manifest import manifest_paths
from perturbations.manifest.attributes import column_name
from perturbations.media.profiles import PICTURE_EXTENSIONS, PROFILES
from perturbations.suites import suite_registry

_FORMS = {
    "high": "at least 40 dB",
    "compatible": "lossy, plays everywhere",
    "recipe": "no pixels, clips are rendered when they are read",
}
"""The storages to choose from, in this order: profiles of videos, and the tier without any."""

_FORMS_OF_PICTURES = {"png": "exact", "recipe": "no pixels, pictures are rendered when they are read"}
"""The same of pictures, which every profile but one stores as PNG."""

_FOLDER = "folder"
"""The column of the folders of clips without captions."""

_MOST_COLUMNS = 10
"""Of a table, that a line names."""

_ROOM = 0.4
"""The share of the free disk that a corpus may take, whose size is known within a factor of 2."""


class OwnDataset(NamedTuple):
    """The dataset's name, the suite to begin with, whether it has captions, its config.yaml, and lines for the user."""

    name: str
    suite: str
    has_captions: bool
    config: str
    summary: list[str]


def look(
    folder: Path, videos: Path, captions: Path, written: str, *, pictures: bool = False, questions: bool = False
) -> OwnDataset:
    """Match captions or questions with videos or pictures, look at each file, and choose a storage that fits the disk.

    `written` is how config.yaml names the file of captions. Raises `ConfigError` or `AnnotationError` where no clip can
    be used.
    """
    name = manifest_paths.proper_name(folder.resolve().name) or "mine"
    extensions = PICTURE_EXTENSIONS if pictures else VIDEO_EXTENSIONS
    section, chosen = _section(videos, captions, extensions, pictures=pictures, questions=questions)
    dataset = Dataset.model_validate(section)
    listing = items.read(name, dataset)
    located, missing = video_files.locate(dataset, listing)
    rejected = [*listing.rejected_captions(), *missing]
    damaged = first_bytes.unreadable(located)
    failed = [(entry.item_id, entry.reason) for entry in rejected]
    failed += [(clip.item_id, f"{clip.path}: {damaged[clip.path]}") for clip in located if clip.path in damaged]
    number_of = {item.item_id: sum(map(bool, item.texts)) for item in listing.items}
    usable = {clip: number_of[clip.item_id] for clip in located if clip.path not in damaged}
    if not usable:
        reasons = "".join(f"\n  {item_id!r}: {reason}" for item_id, reason in failed[:5])
        lines = "".join(f"\n  {line}" for line in (*chosen, *_elsewhere(listing, videos)))
        raise ConfigError(f"no item of {captions.name} can be used from {videos}:{reasons}{lines}")
    suites: tuple[str, ...] = ("mlvp", "controls", "msrvtt_p") if questions else ("mlvp", "mm_robustness")
    suites = ("mm_robustness",) if pictures else suites  # half of MLVP needs several frames
    storage, cost = _storage(folder, list(usable), suites[0], _FORMS_OF_PICTURES if pictures else _FORMS)
    clip, files = (shown.in_words_of(noun, pictures=pictures) for noun in ("clip", "videos"))
    malformed = [(entry.item_id, entry.reason) for entry in rejected if entry.is_malformed]
    allowed = [entry for entry in failed if entry not in malformed]
    noun = "question" if questions else "caption"
    captioned = shown.plural(sum(usable.values()), noun) if listing.has_captions else "no captions"
    summary = [f"{shown.plural(len(usable), clip)} with {captioned}"]
    summary += _few_lines("left out, and max_failed_items in config.yaml is set to their number", allowed)
    what = "that do not follow the format: correct them, or raise max_failed_items by their number, before a run"
    summary += _few_lines(what, malformed)
    summary.append(cost)
    summary += chosen
    listed = {os.path.realpath(clip.path) for clip in located}
    there = sorted(path for path in videos.iterdir() if path.suffix.lower() in extensions and path.is_file())
    if unlisted := [path.name for path in there if os.path.realpath(path) not in listed]:
        what = noun if questions or listing.has_captions else "row"
        summary.append(f"{files} without a {what}, which are left out: {_few(unlisted)}")
    first = next(iter(usable)).path
    typed = shlex.quote(f"./{first}" if first.startswith("-") else first)
    summary.append(f"a first look, in seconds: perturb preview {typed}")
    section |= {"annotations": written, "videos": path_from(folder, videos)}
    section |= {"max_failed_items": len(allowed)} if allowed else {}
    config = {"datasets": {name: section}, "suites": {suite: {} for suite in suites}, "storage": storage}
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    return OwnDataset(name, suites[0], listing.has_captions, text, summary)


def uncaptioned(folder: Path, *, pictures: bool) -> str:
    """A table of the clips in a folder and below it, without captions. Raises `AnnotationError` where there is none.

    Their folders are a column, where they have several: often these are the classes.
    """
    if not folder.is_dir():
        raise AnnotationError(f"{folder}: no such directory{no_folder(folder)}")
    endings = PICTURE_EXTENSIONS if pictures else VIDEO_EXTENSIONS
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix.lower() in endings and path.is_file()
    )
    if not names:
        there = f": its files end in {', '.join(sorted(others))}" if (others := _endings(folder)) else ": it is empty"
        raise AnnotationError(f"{folder} holds no {'picture' if pictures else 'video'} ({', '.join(endings)}){there}")
    if broken := next((name for name in names if not is_unicode(name)), None):
        raise AnnotationError(f"{folder}: the name {broken!r} is not UTF-8: rename the file")
    stems = [os.path.splitext(name)[0] for name in names]
    files_of = Counter(stems)
    # The stem of `a.mp4.mkv` would be the name of another file.
    is_stem = [files_of[stem] == 1 and not stem.lower().endswith(tuple(endings)) for stem in stems]
    ids = [stem if alone else name for name, stem, alone in zip(names, stems, is_stem, strict=True)]
    below = [os.path.dirname(name) for name in names]
    header, columns = ("item_id", _FOLDER), (ids, below)
    width = 2 if any(below) else 1
    table = io.StringIO(newline="")
    csv.writer(table, lineterminator="\n").writerows([header[:width], *zip(*columns[:width], strict=True)])
    return table.getvalue()


def _endings(folder: Path) -> set[str]:
    return {path.suffix.lower() or "no ending" for path in islice(folder.rglob("*"), 1_000) if path.is_file()}


def _section(
    videos: Path, captions: Path, extensions: Sequence[str], *, pictures: bool, questions: bool
) -> tuple[dict[str, object], list[str]]:
    """The section of a dataset in config.yaml, and lines about what of the captions' file is taken and what not."""
    if captions.is_dir() and videos.is_file():
        raise AnnotationError(f"--captions {captions} is a directory, and {videos} a file: exchange them")
    if not captions.is_file():
        raise AnnotationError(f"{captions}: no such file{no_file(captions)}")
    if not videos.is_dir():  # as a shell leaves it in `--videos=~/clips`, where the configuration's `~` is a folder
        raise AnnotationError(f"{videos}: no such directory{no_folder(videos)}")
    section: dict[str, object] = {"adapter": "folder"}
    if pictures:
        section["adapter"] = _adapter_of_pictures(captions)
    section |= {"adapter": "questions"} if questions else {}
    section |= {"annotations": captions, "videos": videos}
    if section["adapter"] not in ("folder", "pictures"):
        return section, []
    lines = []
    if splits := usual_columns.splits(captions):
        section["split"] = splits[0] if len(splits) == 1 else "test"
        unread = [name for name in splits if name != section["split"]]
        lines.append(f"split: {section['split']}" + (f", not {', '.join(unread)}" if unread else ""))
    columns, others = usual_columns.choose_columns(captions, _names_of_files(videos, extensions))
    defaults = ColumnsSection().model_dump()
    if own_columns := {role: name for role, name in columns.items() if name != defaults[role]}:
        section["columns"] = own_columns
        lines.append("columns: " + ", ".join(f"{role} is {name!r}" for role, name in columns.items()))
    if others:
        own_names = {name: column_name(name) for name in others[:_MOST_COLUMNS]}
        kept = [repr(name) + (f" as {own!r}" if own != name else "") for name, own in own_names.items()]
        more = len(others) - len(kept)
        lines.append(f"kept with each clip: {', '.join(kept)}" + (f" and {more:,} more" if more else ""))
        if "caption" not in columns and others != [_FOLDER]:
            lines.append("no captions: no column is called caption, text, sentence or description")
    return section, lines


def _names_of_files(folder: Path, extensions: Sequence[str]) -> set[str]:
    """The names of the files in a folder and below it, with and without their endings, as captions may list them."""
    names = set()
    for path in folder.rglob("*"):
        stem, ending = os.path.splitext(nfc(path.relative_to(folder).as_posix()))
        if ending.lower() in extensions:
            names |= {stem, stem + ending, stem + ending.lower()}
    return names


def _elsewhere(listing: Listing, videos: Path) -> list[str]:
    """Where below the folder of videos the first of the items lies; nothing where none does."""
    wanted = {name for item in listing.items for name in item.files}
    place = next((path.parent for path in sorted(videos.rglob("*")) if path.name in wanted), videos)
    return [] if place == videos else [f"{place} holds some of them: name that folder"]


def _adapter_of_pictures(captions: Path) -> str:
    """Which adapter of pictures reads a file of captions: an object in JSON is Karpathy's or COCO's own file."""
    if captions.suffix.lower() != ".json" or not captions.read_bytes()[:1000].lstrip().startswith(b"{"):
        return "pictures"
    described = whole_json(captions, dict, "an object with `images`")
    name = "coco" if "annotations" in described else described.get("dataset")
    if name in ("coco", "flickr30k"):
        return str(name)
    if "images" not in described:
        return "pictures"
    raise AnnotationError(f"{captions} has no `annotations`, and its `dataset` is {short(name)}, not coco or flickr30k")


def _storage(
    folder: Path, clips: Sequence[ListedClip], suite: str, forms: Mapping[str, str]
) -> tuple[dict[str, object], str]:
    """The first of the forms that the suite has room for, and what it takes."""
    there = next(parent for parent in (folder.resolve(), *folder.resolve().parents) if parent.exists())
    free = shutil.disk_usage(there).free
    scenarios = sum(len(entry.severities) for entry in suite_registry.perturbations(suite, "video"))
    pixels = (resources.mean_pixels(clips, None) or 0.0) * len(clips) * scenarios
    sizes = {form: pixels * first_bytes.BYTES_PER_PIXEL[form] for form in forms}
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


def path_from(folder: Path, path: Path) -> str:
    """A path as the new project's configuration names it: relative to its folder."""
    return os.path.relpath(path.resolve(), folder.resolve())
