"""One call for a picture or a clip: `corrupt`, and what can be asked of a perturbation by its name."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from perturbations.api.array_clips import Frames, check_clip, checked_id, checked_seed, declaration, in_bytes, perturb
from perturbations.base.errors import BackendError, MediaError
from perturbations.corpus.plan.recipe import make
from perturbations.corpus.plan.tiers import UNSTORED
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import ParameterValue


def corrupt(
    clip: Any,
    name: str,
    severity: int = 1,
    *,
    seed: int = 0,
    item_id: str | int = "",
    dataset: str = "",
    fps: float | None = None,
    variant: str | None = None,
    donors: Sequence[Frames] = (),
) -> Any:
    """Perturb a picture or a clip.

    `corrupt(photograph, "mlvp/fog", severity=3)` gives one picture, `corrupt(frames, "mlvp/fog", severity=3)` a clip.

    Args:
        clip: a picture, H x W x 3, or a clip, T x H x W x 3, RGB, uint8; a picture of Pillow, which is read as its
            file: upright, as RGB, without alpha; or the path of a picture or a video. It is not modified.
        name: `suite/name`, or the name alone. A name that several suites have is that of the first of them, and a
            warning lists them: mlvp, mm_robustness, msrvtt_p, tampering, transmission.
        severity: 1 to 5; 0 gives a copy.
        seed, dataset, item_id: the key of what is random. The same key gives the same pixels, and those of a corpus
            before they are stored, which a lossless profile keeps. Give each picture of a set its own id, or all get
            the same noise. An id that is a number is its digits.
        fps: frames per second, for perturbations of time and bitrate; None: the file's own, 25 of an array.
        variant: "released" (the authors' code), "paper" (the text), ...; None: the suite's first.
        donors: the clips that event insertion may take a segment from, each T x H x W x 3, of the same frame rate.

    Returns:
        A picture for a picture, a clip for a clip: uint8 arrays; of Pillow's picture, one of Pillow. `perturb` says
        which perturbations change T, H or W. Each of a batch of clips is perturbed by its own call, with its own
        `item_id`.

    Raises:
        UnknownPerturbationError: no such name, severity or variant.
        MediaError: the file cannot be read, the picture has more than 8 bits per sample, CMYK or several frames, the
            perturbation leaves no frame, or it needs several frames.
        BackendError: the library that reads the file is not installed.
        TypeError, ValueError: as `perturb`.
    """
    entry = declaration(name, "video", variant)
    key: dict[str, Any] = {"seed": seed, "item_id": item_id, "dataset": dataset}
    if isinstance(clip, str | PathLike):
        path = Path(clip)
        if not _is_picture(path):
            return _of_video(path, entry, severity, key, fps, donors)
        clip = _picture_of(path)
    pillow = sys.modules.get("PIL.Image")  # the caller has it where the picture is one of Pillow
    is_pillow = pillow is not None and isinstance(clip, pillow.Image)
    frames = _of_pillow(clip) if is_pillow else clip
    check_clip(frames, "clip", pictures=True)
    is_picture = frames.ndim == 3
    if is_picture and (entry.moves_frames or entry.several_frames):
        raise MediaError(f"{entry.key} changes the order of frames or shows motion: it needs a clip, not a picture")
    frames, fps = frames[None] if is_picture else frames, 25.0 if fps is None else fps
    perturbed = perturb(frames, entry.key, severity, fps=fps, variant=variant, donors=donors, **key)
    if not is_picture:
        return perturbed
    return sys.modules["PIL.Image"].fromarray(perturbed[0]) if is_pillow else perturbed[0]


def names(suite: str | None = None, kind: suite_registry.Medium = "video") -> list[str]:
    """The names `suite/name` of the perturbations of pictures and clips, or with `kind="text"` of captions.

    Raises `UnknownPerturbationError` when there is no such suite.
    """
    return [entry.key for entry in suite_registry.perturbations(suite, kind)]


def severities(name: str, variant: str | None = None) -> tuple[int, ...]:
    """The severities of a perturbation, 1 first. Raises `UnknownPerturbationError`."""
    return declaration(name, None, variant).severities


def parameters(name: str, severity: int, variant: str | None = None) -> dict[str, ParameterValue]:
    """The published numbers of a perturbation at a severity, by their names. Raises `UnknownPerturbationError`."""
    return declaration(name, None, variant).parameters(severity)


def _of_video(
    path: Path,
    entry: suite_registry.Perturbation,
    severity: int,
    key: Mapping[str, Any],
    fps: float | None,
    donors: Sequence[Frames],
) -> Frames:
    # Not at the top: who perturbs arrays alone needs no library that reads videos.
    from perturbations.corpus.render import rendering
    from perturbations.media import decoding, probing
    from perturbations.media.clean_clip import CleanClip
    from perturbations.media.clip import MediaClip, Timing, plain_rate

    try:
        info = probing.probe(path)
        frames = np.stack([frame.image for frame in decoding.decode(MediaClip(path))])
        if info.codec == "gif" and len(frames) == 1:  # a picture, as Pillow has it
            picture: Frames = corrupt(frames[0], entry.key, severity, variant=entry.variant, **key)
            return picture
        if not entry.encodes or not severity:
            rate = float(info.frame_rate) if fps is None else fps
            return perturb(frames, entry.key, severity, fps=rate, variant=entry.variant, donors=donors, **key)
        # An encoder may depend on the file itself: on its bitrate, its stream, its frames' times.
        timing = Timing(info.time_base, plain_rate(info.frame_rate))
        source = CleanClip(
            key["dataset"],
            checked_id(key["item_id"]),
            MediaClip(path),
            probing.sha256(path),
            len(frames),
            info.width,
            info.height,
            timing,
            info.sample_aspect,
        )
        recipe = make(entry, severity, seed=checked_seed(key["seed"]), storage=UNSTORED)
        return np.stack([frame.image for frame in rendering.planned_clip(recipe, source).frames()])
    except MediaError as error:
        problem = str(error) if str(path) in str(error) else f"{path}: {error}"
        raise type(error)(f"{problem}{_way_out_of_file(path)}") from error


def _is_picture(path: Path) -> bool:
    """Whether a file begins as JPEG, PNG or WebP. Raises `MediaError` where there is no file."""
    try:
        with path.open("rb") as file:
            head = file.read(12)
    except OSError as error:
        raise MediaError(f"{path}: {error.strerror}") from error
    return head.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n")) or (head[:4] == b"RIFF" and head[8:] == b"WEBP")


def _picture_of(path: Path) -> Frames:
    from perturbations.media import stills

    try:
        return stills.read(path)
    except ModuleNotFoundError as error:
        raise BackendError("to read a picture's file, Pillow is needed: pip install pillow") from error
    except MediaError as error:
        raise MediaError(f"{path}: {error}{_way_out_of_file(path)}") from error


def _of_pillow(picture: Any) -> Frames:
    from perturbations.media import stills

    try:
        return stills.upright_rgb(picture)
    except MediaError as error:
        raise MediaError(f"{error}{_way_out(picture, 'picture')}") from error


def _way_out_of_file(path: Path) -> str:
    """What to give in place of a picture's file that is refused; empty where nothing would do."""
    try:
        from PIL import Image

        with Image.open(path) as picture:
            opened = f"PIL.Image.open({str(path)!r})"
            return _way_out(picture, opened) or ("" if _is_picture(path) else f"; give {opened}")
    except (ImportError, OSError, ValueError, SyntaxError):
        return ""


def _way_out(picture: Any, name: str) -> str:
    """What to give in place of a picture of Pillow that is refused; empty where nothing would do."""
    from perturbations.media import stills

    if getattr(picture, "n_frames", 1) > 1 and picture.format != "MPO":
        every = f"numpy.stack([frame.convert('RGB') for frame in PIL.ImageSequence.Iterator({name})])"
        return f"; give all its frames, {every}, or the current one, {name}.copy()"
    if picture.mode[0] in "IF":
        reason, expression = in_bytes(np.asarray(picture), f"numpy.asarray({name})")
        return f"; {reason}, give PIL.Image.fromarray({expression})" if "uint8" in expression else f"; {reason}"
    needs_no_scale = picture.mode == "CMYK" or stills.has_lost_bits(picture)
    return f"; give {name}.convert('RGB')" if needs_no_scale else ""
