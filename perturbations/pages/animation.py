"""One clip under one perturbation in motion: clean and each severity side by side, for slides and READMEs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PIL import Image as Pictures

from perturbations.base.arrays import Image
from perturbations.base.errors import ConfigError, OutputError
from perturbations.corpus.plan import recipe
from perturbations.manifest.rows import CompleteSource
from perturbations.media import profiles
from perturbations.models.guides import guide_registry as guides
from perturbations.models.guides.backend_settings import has_stand_in
from perturbations.pages import clip_previews, preview_sheet
from perturbations.pages.contact_sheet import contact_sheet, write_whole

_SIDE = 160  # the most pixels of a side of each clip: six of them fit the width of a page
_WORD = 96  # of so many pixels a column is wide enough for "severity 5"
_QUALITY = 60  # of a WebP
_PROFILE = profiles.Profile("libx264", "yuv420p", {"preset": "slow", "crf": "24"})
ENDINGS = (".webp", ".mp4")
"""The forms: a WebP plays in READMEs and browsers, an MP4 in slides too."""


def animate(
    row: CompleteSource,
    donors: Sequence[CompleteSource],
    output: Path,
    *,
    name: str,
    severities: Sequence[int] | None,
    seed: int,
    variant: str | None,
) -> str | None:
    """Write two seconds of a clip, clean and under each severity of one perturbation, side by side.

    `row` and `donors` are rows of a sources manifest; `severities` None are all of the perturbation. Where it moves
    frames in time, the two seconds are spread over the whole clip. Returns the perturbation's key if a model's stand-in
    made it. Raises `ConfigError` for a picture and where donors lack, `OutputError` where `output` cannot be written.
    """
    entry = recipe.entry_of("video", name, variant)
    if output.suffix.lower() not in ENDINGS:
        raise OutputError(f"cannot write {output}: the name of an animation must end in {' or '.join(ENDINGS)}")
    if profiles.is_picture(row.path or ""):
        raise ConfigError(f"--animate: {row.path} is a picture, which does not move; leave --animate out")
    if not donors and guides.takes_frames(entry.guide):
        raise ConfigError(f"--animate: {entry.key} takes frames of other videos: name some by --donors VIDEO ...")
    severities = list(entry.severities) if severities is None else severities
    source, *others = map(preview_sheet.remembering, [row, *donors])
    places_of = partial(clip_previews.places, fps=float(source.timing.frame_rate), whole=entry.moves_frames)
    scaled = partial(clip_previews.scaled_down, most=_SIDE)
    films = [*preview_sheet.films_of(entry, source, others, severities, seed, places_of, scaled=scaled)]
    is_stand_in = has_stand_in(entry.guide)
    title = preview_sheet.title_of(row.item_id, [entry.key], seed, has_stand_ins=is_stand_in)
    height, width = (max(image.shape[axis] for image, *_ in films) for axis in (0, 1))
    word = "severity " if width >= _WORD else ""
    columns = ["clean", *(f"{word}{severity}" for severity in severities)]
    moments = zip(*films, strict=True)
    sheets = [contact_sheet([("", images)], columns, cell_height=height, title=title) for images in moments]
    _write([sheet[: sheet.shape[0] // 2 * 2, : sheet.shape[1] // 2 * 2] for sheet in sheets], output)
    return entry.key if is_stand_in else None


def _write(sheets: Sequence[Image], output: Path) -> None:
    """Write images with even sides as a film that plays again and again."""
    if output.suffix.lower() == ".mp4":
        data = clip_previews.encoded(sheets, _PROFILE)
    else:
        first, *others = map(Pictures.fromarray, sheets)
        film = io.BytesIO()
        milliseconds = 1000 // clip_previews.RATE
        first.save(film, "WebP", save_all=True, append_images=others, duration=milliseconds, loop=0, quality=_QUALITY)
        data = film.getvalue()
    write_whole(data, output)
