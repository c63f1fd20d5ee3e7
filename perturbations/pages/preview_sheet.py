"""Contact sheets of corpora: one row per perturbation, one column per severity; six frames for temporal ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import cv2
import numpy as np

from perturbations import __version__
from perturbations.api.clip_opening import open_clip
from perturbations.base.arrays import Image
from perturbations.base.errors import UnknownPerturbationError
from perturbations.corpus.plan import recipe, tiers
from perturbations.corpus.render import clean_clips, rendering
from perturbations.corpus.render.clean_clips import source_of
from perturbations.corpus.render.planned_clip import PlannedClip
from perturbations.corpus.store.clip_rows import offline_roles
from perturbations.manifest import files, locations
from perturbations.manifest.rows import COMPLETE, VIDEOS, AnalysisRow, CompleteSource, VideoRow
from perturbations.media import decoding, profiles
from perturbations.media.clean_clip import CleanClip
from perturbations.media.clip import Frame, MediaClip, uniform_indices
from perturbations.models.guides import guide_registry as guides
from perturbations.models.guides.backend_settings import STAND_IN, has_stand_in
from perturbations.models.guides.guide_registry import AnalysisRecipe
from perturbations.pages import common
from perturbations.pages.contact_sheet import contact_sheet, write_picture
from perturbations.suites import suite_registry


def from_video(
    row: CompleteSource,
    donors: Sequence[CompleteSource],
    output: Path,
    *,
    names: Sequence[str],
    severities: Sequence[int] | None,
    seed: int,
    variant: str | None,
) -> tuple[list[str], list[str]]:
    """Draw a frame of a clip under perturbations and severities: the middle one, or of a long clip an earlier one.

    `row` and `donors` are rows of a sources manifest. A name without "/" is a suite, all its perturbations of videos,
    or a perturbation that one suite has. `severities` None: 1, 3 and 5, or all that the perturbations share where one
    has not these. Returns the keys that stand-ins of models made, and those that are left out of suites: they need
    donors, and there are none, or several frames of a picture.
    """
    is_picture = profiles.is_picture(row.path or "")

    def lacks(entry: suite_registry.Perturbation) -> bool:
        needs_donors = not donors and guides.takes_frames(entry.guide)
        return needs_donors or (is_picture and not entry.applies_to_one_frame)

    keys: dict[str, None] = {}
    left_out = []
    for name in names:
        of_suite = suite_registry.perturbations(name, "video") if name in suite_registry.suites() else []
        left_out += [entry.key for entry in of_suite if lacks(entry)]
        keys |= dict.fromkeys([entry.key for entry in of_suite] or [recipe.entry_of("video", name).key])
    entries = [recipe.entry_of("video", key, variant) for key in keys if key not in left_out]
    if severities is None:
        shared = set[int].intersection(*(set(entry.severities) for entry in entries)) if entries else set()
        severities = [1, 3, 5] if shared >= {1, 3, 5} else sorted(shared)
    source, *others = map(remembering, [row, *donors])
    known: dict[tuple[str, CleanClip], AnalysisRow] = {}

    def analysed(analysis: AnalysisRecipe, clip: CleanClip) -> AnalysisRow:
        key = analysis.text, clip
        return known[key] if key in known else known.setdefault(key, clean_clips.analysed_now(analysis, clip))

    stand_ins = [entry.key for entry in entries if has_stand_in(entry.guide)]
    rows = [
        (_label(entry.name, entry.key in stand_ins), images_of(entry, source, others, severities, seed, analysed))
        for entry in entries
    ]
    title = title_of(row.item_id, [entry.suite for entry in entries], seed, has_stand_ins=bool(stand_ins))
    _write(rows, severities, f"{title}; without {', '.join(left_out)}" if left_out else title, output)
    return stand_ins, left_out


def _label(name: str, is_stand_in: bool) -> str:
    return f"{name} ({STAND_IN})" if is_stand_in else name


def title_of(
    item: str, names: Sequence[str], seed: int, version: object = __version__, *, has_stand_ins: bool = False
) -> str:
    """What a picture is of: the item, the suites or perturbations, the seed, and this package's version."""
    title = f"{item}: {', '.join(dict.fromkeys(names))}, seed {seed}, perturbations {version}"
    return f"{title}; {STAND_IN}: not made by the published model" if has_stand_ins else title


def _write(rows: Sequence[tuple[str, Sequence[Image | None]]], severities: Sequence[int], title: str, to: Path) -> None:
    """Write the sheet of each perturbation's clean picture and those of its severities."""
    columns = ["clean", *(f"severity {severity}" for severity in severities)] if rows else []
    write_picture(contact_sheet(rows, columns, title=title), to)


def remembering(row: CompleteSource) -> CleanClip:
    """The clean clip of a row, which keeps the few frames that are read of it."""
    return _Remembering(**vars(source_of(row)))


class _Remembering(CleanClip):
    """A clip whose few frames are decoded once, because each severity reads the same ones."""

    def frames(self, only: Collection[int] | None = None) -> Iterator[Frame]:
        return decoding.decode(self.clip) if only is None else iter(_decoded(self.clip, frozenset(only)))


@functools.lru_cache(100)
def _decoded(clip: MediaClip, only: frozenset[int]) -> list[Frame]:
    return list(decoding.decode(clip, only=only))


def images_of(
    entry: suite_registry.Perturbation,
    source: CleanClip,
    donors: Sequence[CleanClip],
    severities: Sequence[int],
    seed: int,
    analysed: Callable[[AnalysisRecipe, CleanClip], AnalysisRow] = clean_clips.analysed_now,
) -> list[Image]:
    """A frame of a clip, clean and under each severity; six tiled ones for a temporal perturbation.

    It is the middle frame, or that at `_LATEST` where the middle one comes later. `analysed` may keep what several
    calls share. Images are RGB uint8, of about the clip's size.
    """
    places_of = functools.partial(_places, latest=_LATEST, temporal=entry.moves_frames)
    return [_in_one(images) for images in films_of(entry, source, donors, severities, seed, places_of, analysed)]


def films_of(
    entry: suite_registry.Perturbation,
    source: CleanClip,
    donors: Sequence[CleanClip],
    severities: Sequence[int],
    seed: int,
    places_of: PlacesOf,
    analysed: Callable[[AnalysisRecipe, CleanClip], AnalysisRow] = clean_clips.analysed_now,
    scaled: Callable[[Image], Image] = lambda image: image,
) -> Iterator[list[Image]]:
    """Frames of a clip, clean and under each severity, `scaled` as they come."""

    def shown(clip: CleanClip | PlannedClip) -> list[Image]:
        places = places_of(clip.num_frames)
        frames = clip.frames(only=set(places))
        return _in_order((frame._replace(image=scaled(frame.image)) for frame in frames), places)

    yield shown(source)
    for severity in severities:
        video = recipe.make(entry, severity, seed=seed, storage=tiers.UNSTORED, donors="--donors")
        facts = clean_clips.facts_now(video, source, donors, analysed)
        planned = rendering.planned_clip(video, replace(source, facts=facts))
        if planned.stores_stream:
            last = places_of(planned.num_frames)[-1]
            begun = rendering.planned_clip(video, _begun(source, last))
            yield shown(replace(begun, num_frames=planned.num_frames))
        else:
            yield shown(planned)


_LATEST = 30
"""The place of the frame that is shown of a long clip, which is not decoded and encoded as a whole for it."""

_LOOKAHEAD = 64
"""Frames after a frame that an encoder's choice for it may depend on: x264 looks 40 ahead, and its threads a few."""


def _places(num_frames: int, latest: int | None = None, *, temporal: bool) -> list[int]:
    """The frames that are shown of a clip."""
    if temporal:
        return uniform_indices(_ROWS * _COLUMNS, num_frames)
    return [num_frames // 2 if latest is None else min(num_frames // 2, latest)]


def _begun(source: CleanClip, place: int) -> CleanClip:
    """A clip without the frames that an encoder does not know when it encodes the one at `place`."""
    clip = source.clip
    end_s = (clip.start_s or 0.0) + float((place + _LOOKAHEAD) / source.timing.frame_rate)
    if clip.end_s is not None and clip.end_s <= end_s:
        return source
    return replace(source, clip=replace(clip, end_s=end_s))


def preview(videos: Path, output: Path) -> None:
    """Draw all perturbations and severities of the first complete item of a `videos` manifest.

    The sheet of a manifest without any complete row, because every clip is quarantined, says so. Raises
    `ManifestError`.
    """
    about, rows = files.read_metadata(videos), files.read_rows(videos, VIDEOS)
    complete = ([row for row in own if row.status == COMPLETE] for _, own in groupby(rows, lambda row: row.item_id))
    members, root = next(filter(None, complete), []), locations.root_of(videos, about)
    by_key = {(row.perturbation, row.severity): locations.located(row, root) for row in members}
    severities = sorted({severity for _, severity in by_key})
    nothing = f"{about.get('suite', 'the corpus')} on {about.get('dataset', 'no dataset')}: no picture, because every "
    nothing += "clip is quarantined or missing"
    title = nothing
    if members:
        title = title_of(
            f"{members[0].dataset}, {members[0].item_id}",
            [row.suite for row in members],
            members[0].seed,
            about.get("package_version", "of an unknown version"),
            has_stand_ins=any(offline_roles(row.backend) for row in members),
        )
    lines: list[tuple[str, list[Image | None]]] = []
    clean: dict[bool, Image] = {}
    for name in common.in_order({row.suite for row in members}, {row.perturbation for row in members}):
        shown = [by_key.get((name, severity)) for severity in severities]
        first = next(filter(None, shown))
        temporal = moves_frames(first)
        places = functools.partial(_places, temporal=temporal)
        clean[temporal] = clean[temporal] if temporal in clean else _in_one(clean_frames(first, places))
        pictures = [None if row is None else _in_one(perturbed_frames(row, places)) for row in shown]
        lines.append((_label(name, bool(offline_roles(first.backend))), [clean[temporal], *pictures]))
    _write(lines, severities, title, output)


def moves_frames(row: VideoRow) -> bool:
    """Whether the frames of a clip are not where its clean clip has them, so that all of the clip is shown."""
    try:
        moved = suite_registry.get(f"{row.suite}/{row.perturbation}").moves_frames
    except UnknownPerturbationError:  # it is not installed here
        moved = False
    return moved or row.frame_count != row.source_frame_count


# --- frames of stored clips -------------------------------------------------------------------------------------------

PlacesOf = Callable[[int], Sequence[int]]
"""Which frames are shown of a number of them."""


def perturbed_frames(row: VideoRow, places_of: PlacesOf) -> list[Image]:
    """Frames of a perturbed clip, whose paths are absolute. Raises `MediaError`."""
    return list(open_clip(row, places_of(row.stored_frames or row.frame_count)))


def clean_frames(row: VideoRow, places_of: PlacesOf) -> list[Image]:
    """The clean clip's frames at the places that `perturbed_frames` shows. Raises `MediaError`."""
    stored, count = tiers.sampled(recipe.parse(row.recipe).storage), row.source_frame_count
    sampled = uniform_indices(stored, count) if stored else range(count)
    places = [sampled[place] for place in places_of(len(sampled))]
    clip = MediaClip(Path(row.source_path), row.start_s, row.end_s)
    return _in_order(decoding.decode(clip, only=set(places)), places)


def _in_order(frames: Iterator[Frame], places: Sequence[int]) -> list[Image]:
    """The frames at these places; some places may be equal."""
    images = {frame.position: frame.image for frame in frames}
    return [images[place] for place in places]


# One frame cannot show a change of time: a temporal perturbation is shown by six frames, in order, row by row.
_ROWS, _COLUMNS = 2, 3


def _in_one(images: Sequence[Image]) -> Image:
    """A frame as it is; six as one image with a frame's aspect ratio."""
    if len(images) == 1:
        return images[0]
    height, width = images[0].shape[:2]
    size = max(1, width // _COLUMNS), max(1, height // _COLUMNS)
    small = [cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in images]
    rows = [np.hstack(small[start : start + _COLUMNS]) for start in range(0, _ROWS * _COLUMNS, _COLUMNS)]
    return np.asarray(np.vstack(rows), np.uint8)
