"""Contact sheets of corpora: one row per perturbation, one column per severity; six frames for temporal ones."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import cv2
import numpy as np

from perturbations.api.opening import open_clip
from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.errors import ManifestError
from perturbations.base.names import composed
from perturbations.engine import clean_clips, rendering
from perturbations.engine.clean_clips import source_of
from perturbations.guides import registry as guides
from perturbations.guides.registry import AnalysisRecipe
from perturbations.manifest import files, locations
from perturbations.manifest.kinds import COMPLETE, VIDEOS, AnalysisRow, CompleteSource, VideoRow
from perturbations.media import decoding
from perturbations.media.clip import Frame, MediaClip, uniform_indices
from perturbations.media.footage import CleanClip
from perturbations.plan import recipe, tiers
from perturbations.report.sheet import contact_sheet, write_picture
from perturbations.suites import registry


def from_video(
    row: CompleteSource,
    donors: Sequence[CompleteSource],
    output: Path,
    *,
    names: Sequence[str],
    severities: Sequence[int] | None,
    seed: int,
    variant: str | None,
) -> list[str]:
    """Draw a frame of a clip under perturbations and severities: the middle one, or of a long clip an earlier one.

    `row` and `donors` are rows of a sources manifest. A name without "/" is a suite, all its perturbations of videos,
    or a perturbation that one suite has. `severities` None: 1, 3 and 5, or all that the perturbations share where one
    has not these. Returns the keys that are left out of suites: they need donors, and there are
    none, or several frames of a picture.
    """
    is_picture = storage.is_picture(row.path or "")

    def lacks(entry: registry.Perturbation) -> bool:
        needs_donors = not donors and guides.takes_frames(entry.guide)
        return needs_donors or (is_picture and not entry.applies_to_one_frame)

    keys: dict[str, None] = {}
    left_out = []
    for name in names:
        is_one = "/" in name or any(entry.name == name for entry in registry.perturbations(kind="video"))
        of_suite = [] if is_one else registry.perturbations(name, "video")
        left_out += [entry.key for entry in of_suite if lacks(entry)]
        keys |= dict.fromkeys([entry.key for entry in of_suite] or [recipe.entry_of("video", name).key])
    read = functools.cache(lambda row: _Remembering(**vars(source_of(row))))
    rows_of: dict[tuple[str, CleanClip], AnalysisRow] = {}

    def analysed(analysis: AnalysisRecipe, clip: CleanClip) -> AnalysisRow:
        known = analysis.text, clip
        if known not in rows_of:
            rows_of[known] = clean_clips.analysed_now(analysis, clip)
        return rows_of[known]

    entries = {key: recipe.entry_of("video", key, variant) for key in keys if key not in left_out}
    if severities is None:
        shared = set[int].intersection(*(set(entry.severities) for entry in entries.values())) if entries else set()
        severities = [1, 3, 5] if shared >= {1, 3, 5} else sorted(shared)
    rows = []
    for key, entry in entries.items():
        images = images_of(
            entry, row, donors, severities=severities, seed=seed, read=read, analysed=analysed, latest=_LATEST
        )
        rows.append((key.partition("/")[2], images))
    columns = ["clean", *(f"severity {severity}" for severity in severities)]
    write_picture(contact_sheet(rows, columns, title=row.item_id), output)
    return left_out


@dataclass(frozen=True)
class _Remembering(CleanClip):
    """A clip that keeps the few frames that are read of it, because each severity reads the same ones."""

    memory: dict[frozenset[int], list[Frame]] = field(default_factory=dict, compare=False)

    def frames(self, only: Collection[int] | None = None) -> Iterator[Frame]:
        if only is None:
            return decoding.decode(self.clip)
        wanted = frozenset(only)
        if wanted not in self.memory:
            self.memory[wanted] = list(decoding.decode(self.clip, only=wanted))
        return iter(self.memory[wanted])


def images_of(
    entry: registry.Perturbation,
    row: CompleteSource,
    donors: Sequence[CompleteSource],
    *,
    severities: Sequence[int],
    seed: int,
    read: Callable[[CompleteSource], CleanClip] = source_of,
    analysed: Callable[[AnalysisRecipe, CleanClip], AnalysisRow] = clean_clips.analysed_now,
    latest: int | None = None,
) -> list[Image]:
    """The middle frame of a clip, clean and under each severity; six tiled ones for a temporal perturbation.

    With `latest`, the frame at that place where the middle one comes later. `row` and `donors` are rows of a sources
    manifest; `read` and `analysed` may keep what several calls share. Images are RGB uint8, of about the clip's size.
    """
    source, others = read(row), [read(donor) for donor in donors]
    temporal = entry.moves_frames
    places = _places(row.frame_count, latest, temporal=temporal)
    images = [_shown(source.frames(set(places)), places)]
    for severity in severities:
        video = recipe.make(entry, severity, seed=seed, storage=tiers.Unstored(), donors="--donors")
        facts = clean_clips.facts_now(video, source, others, analysed)
        planned = rendering.planned_clip(video, replace(source, facts=facts))
        places = _places(planned.num_frames, latest, temporal=temporal)
        if planned.stores_stream:
            planned = rendering.planned_clip(video, _begun(source, places[-1]))
        images.append(_shown(planned.frames(only=set(places)), places))
    return images


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


def _shown(frames: Iterable[Frame], places: Sequence[int]) -> Image:
    """The frames at these places: one as it is, several tiled."""
    images = {frame.position: frame.image for frame in frames}
    return _in_one([images[place] for place in places])


def preview(videos: Path, output: Path) -> None:
    """Draw all perturbations and severities of the first complete item of a `videos` manifest."""
    from_manifest(videos, output, item=None, names=None, severities=range(1, 8))


def from_manifest(
    path: Path, output: Path, *, item: str | None, names: Sequence[str] | None, severities: Sequence[int]
) -> None:
    """Draw the middle frame of one stored item of a `videos` manifest per perturbation; `names` None means all.

    The sheet of a manifest without any complete row, because every clip is quarantined, says so.
    Raises `ManifestError` when no row of the item is complete, or none of these names.
    """
    about = files.read_metadata(path)
    root = locations.root_of(path, about)
    rows = files.read_rows(path, VIDEOS)

    def is_shown(row: VideoRow) -> bool:
        return (
            row.status == COMPLETE
            and (item is None or composed(item) == composed(row.item_id))
            and (names is None or bool({row.suite, row.perturbation, f"{row.suite}/{row.perturbation}"} & set(names)))
            and row.severity in severities
        )

    first = next(filter(is_shown, rows), None)
    if first is None and item is None and all(row.status != COMPLETE for row in rows):
        of = f"{about.get('suite', 'the corpus')} on {about.get('dataset', 'no dataset')}"
        title = f"{of}: no picture, because every clip is quarantined or missing"
        write_picture(contact_sheet([], [], title=title), output)
        return
    if first is None:
        raise ManifestError(f"{path} has no complete row{'' if item is None else f' of {item!r}'} to draw")
    chosen = [locations.located(row, root) for row in rows if row.item_id == first.item_id and is_shown(row)]
    by_name: dict[str, dict[int, VideoRow]] = defaultdict(dict)
    for row in chosen:
        by_name[row.perturbation][row.severity] = row
    shown = sorted({row.severity for row in chosen})
    clean = functools.cache(lambda temporal: _clean(chosen[0], temporal=temporal))
    lines = []
    for name in [entry.name for entry in registry.perturbations(first.suite) if entry.name in by_name]:
        temporal = registry.get(f"{first.suite}/{name}").moves_frames
        images = [
            _perturbed(by_name[name][severity], temporal=temporal) if severity in by_name[name] else None
            for severity in shown
        ]
        lines.append((name, [clean(temporal), *images]))
    columns = ["clean", *(f"severity {severity}" for severity in shown)]
    write_picture(contact_sheet(lines, columns, title=f"{first.dataset}: {first.item_id}"), output)


def source_clip(row: VideoRow) -> MediaClip:
    """The clean clip of a row, whose paths are absolute."""
    return MediaClip(Path(row.source_path), row.start_s, row.end_s)


def _perturbed(row: VideoRow, *, temporal: bool) -> Image:
    """The frames that are shown of a perturbed clip, whose paths are absolute. Raises `MediaError`."""
    places = _places(row.stored_frames or row.frame_count, temporal=temporal)
    images = dict(zip(places, open_clip(row, places), strict=True))
    return _in_one([images[place] for place in places])


def _clean(row: VideoRow, *, temporal: bool) -> Image:
    """The clean clip's frames at the places that `_perturbed` shows. Raises `MediaError`."""
    stored = recipe.parse(row.recipe).storage
    places = _places(row.source_frame_count, temporal=temporal)
    if isinstance(stored, tiers.StoredFrames) and not temporal:
        sampled = uniform_indices(stored.num_frames, row.source_frame_count)
        places = [sampled[len(sampled) // 2]]
    return _shown(decoding.decode(source_clip(row), only=set(places)), places)


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
