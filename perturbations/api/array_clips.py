"""Perturb clips that are in memory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from numbers import Real
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.bounds import SEEDS
from perturbations.base.errors import UnknownPerturbationError, did_you_mean, short
from perturbations.corpus.plan.recipe import VideoRecipe, entry_of, make
from perturbations.corpus.plan.tiers import UNSTORED
from perturbations.corpus.render import clean_clips, rendering
from perturbations.media import profiles
from perturbations.media.clean_clip import CleanClip
from perturbations.media.clip import Frame, MediaClip, Timing, plain_rate
from perturbations.suites import suite_registry

Frames = Image
"""T x H x W x 3, RGB, uint8."""


def perturb(
    frames: Frames,
    name: str,
    severity: int,
    *,
    seed: int,
    item_id: str | int,
    fps: float,
    dataset: str = "",
    variant: str | None = None,
    donors: Sequence[Frames] = (),
) -> Frames:
    """Perturb a clip held in memory: `corrupt` for loops, in which nobody forgets the key and the frame rate.

    Args:
        frames: the clip, T x H x W x 3, RGB, uint8. It is not modified.
        name, severity, seed, item_id, dataset, variant, donors: as of `corrupt`.
        fps: frames per second; only perturbations of time and bitrate depend on it. Of a video whose frames are not
            evenly spaced in time, they differ from a corpus, which encodes the frames at their own times.

    Returns:
        The perturbed clip, T' x H' x W' x 3, RGB, uint8. T' is T but for `mlvp/temporal_scrambling`, which leaves out a
        share of the clip (with `released` and 16 frames, 7 are left at severity 1), `tampering/repeat` and `drop`, and,
        as `released`, `msrvtt_p/sampling`, `reverse_sampling`, `freeze` and `translate`. H' x W' is H x W but for
        `msrvtt_p/translate` (224 x 224) and `mm_robustness/pixelate` (W x H), as `released`.

    Raises:
        UnknownPerturbationError: no such name, severity or variant.
        MediaError: the perturbation leaves no frame of the clip, or nothing suitable is found in it.
        TypeError: `item_id` or `dataset` is no text.
        ValueError: `frames` is not a clip, `fps` is not positive or infinite, `seed` is one that config.yaml could not
            have, or there is no donor where one is needed.

    Guided perturbations use the `offline` backends.
    """
    check_clip(frames)
    if isinstance(fps, bool) or not isinstance(fps, Real) or not 0 < float(fps) < math.inf:
        raise ValueError(f"fps must be positive and finite, not {fps!r}")
    entry = declaration(name, "video", variant)
    severity, seed, item_id = plain_int(severity), checked_seed(seed), checked_id(item_id)
    check_text(dataset, "dataset")
    if type(severity) is int and severity == 0:
        return frames.copy()
    recipe = make(entry, severity, seed=seed, storage=UNSTORED)
    frames = np.ascontiguousarray(frames)
    if entry.encodes:
        return _through_codec(frames, recipe, dataset, item_id, fps)
    clip = _array_clip(frames, dataset, item_id, fps)
    for donor in donors if recipe.donors else ():
        check_clip(donor, "donor")
    others = [_array_clip(donor, "donors", f"{number:06d}", fps) for number, donor in enumerate(donors)]
    if recipe.donors and all(other.frames_sha256 == clip.frames_sha256 for other in others):
        text = (
            "`donors` holds only the clip itself" if others else "give `donors`, a list of other clips as `frames` is"
        )
        raise ValueError(f"{recipe.key} takes a segment of another clip: {text}")
    facts = clean_clips.facts_now(recipe, clip, others)
    planned = rendering.planned_clip(recipe, replace(clip, facts=facts))
    if entry.method == "temporal":
        from perturbations.corpus.render.frame_orders import fitted

        chosen = getattr(facts, "donor", None)
        images = {donor.item_id: donor.images for donor in others}
        other: Any = frames if chosen is None else images[chosen.item_id]
        fit = partial(fitted, size=clip.size, antialiased=recipe.antialiases_donors)
        return np.stack([frames[at] if at >= 0 else fit(other[~at]) for at in planned.order or ()])
    return np.stack([frame.image for frame in planned.frames()])


def _array_clip(images: Frames, dataset: str, item_id: str, fps: float) -> CleanClip:
    num_frames, height, width, _ = images.shape
    return CleanClip(
        dataset=dataset,
        item_id=item_id,
        clip=MediaClip(Path()),
        sha256=f"{dataset}/{item_id} in memory",
        num_frames=num_frames,
        width=width,
        height=height,
        timing=Timing(1 / Fraction(fps), Fraction(fps)),
        images=images,
    )


def declaration(name: str, kind: suite_registry.Medium | None, variant: str | None) -> suite_registry.Perturbation:
    """The declaration of `suite/name`; of a name alone, that of the first suite that has it, with a warning.

    The warning is shown at the caller of the public function that calls this. Raises `UnknownPerturbationError`.
    """
    if not isinstance(name, str):
        raise TypeError(f"a perturbation is named by a text, not {type(name).__name__}: {short(name)}")
    if "/" in name:
        return suite_registry.get(name, variant) if kind is None else entry_of(kind, name, variant)
    keys = [entry.key for entry in suite_registry.perturbations(None, kind) if entry.name == name]
    if not keys:
        known = {entry.name for entry in suite_registry.perturbations(None, kind)}
        raise UnknownPerturbationError(f"no perturbation {short(name)}{did_you_mean(name, known)}")
    if len(keys) > 1:
        text = f"several suites have {name}: {', '.join(keys)}. Name the one that you mean; this is {keys[0]}"
        warnings.warn(text, stacklevel=3)
    return suite_registry.get(keys[0], variant)


def plain_int(value: int) -> int:
    """A whole number of a DataFrame's row, which may be NumPy's, as Python's; others refuse what is none."""
    return index(value) if hasattr(value, "__index__") and not isinstance(value, bool) else value


def checked_seed(seed: object) -> int:
    """A seed as config.yaml has it; a table's, of NumPy, as Python's. Raises `ValueError` for another value."""
    plain = plain_int(seed)  # type: ignore[arg-type]
    if not SEEDS.allows(plain):
        raise ValueError(f"a seed is {SEEDS}, not {seed!r}")
    return plain


def checked_id(item_id: object) -> str:
    """An id as a corpus has it: a number is its digits. Raises `TypeError` for what is no id."""
    if isinstance(item_id, str):
        return item_id
    if isinstance(item_id, int | np.integer) and not isinstance(item_id, bool):
        return str(int(item_id))
    raise TypeError(f"an id is a text or a whole number, not {type(item_id).__name__}: {short(item_id)}")


def check_text(value: object, name: str) -> None:
    """Raise `TypeError` for what is no text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {type(value).__name__}: {short(value)}")


def check_clip(frames: object, name: str = "frames", *, pictures: bool = False) -> None:
    """Raise `ValueError` for what is no clip, with the expression that makes it one; `pictures` are taken, too."""
    wanted = f"{name} must be a uint8 array of {'H x W x 3 or ' if pictures else ''}T x H x W x 3"
    if not isinstance(frames, np.ndarray):
        raise ValueError(f"{wanted}, not {type(frames).__name__}{_to_array(frames, name)}")
    if 0 in frames.shape:
        raise ValueError(f"{name} must hold at least one frame and one pixel, not {frames.shape}")
    reasons, expression = _in_shape(frames.shape, name, pictures=pictures)
    if reasons or frames.dtype != np.uint8 or frames.shape[-1] != 3:
        reason, expression = in_bytes(frames, expression)
        reasons += [reason] if reason else []
        hint = f": {' and '.join(reasons)}" + (f", give {expression}" if expression != name else "") if reasons else ""
        raise ValueError(f"{wanted}, not {frames.dtype} {frames.shape}{hint}")


def _to_array(frames: object, name: str) -> str:
    """How an object that is no array of NumPy becomes one; empty where that is not known."""
    if isinstance(frames, Sequence) and not isinstance(frames, str | bytes):
        return f": of a list of frames, give numpy.stack({name})"
    if type(frames).__module__.partition(".")[0] == "PIL":
        return ": of a picture of Pillow, call `perturbations.corrupt`"
    if hasattr(frames, "detach"):
        return f": of a tensor, give {name}.detach().cpu().numpy()"
    return f": give numpy.asarray({name})" if hasattr(frames, "__array__") else ""


def _in_shape(shape: tuple[int, ...], name: str, *, pictures: bool) -> tuple[list[str], str]:
    """What is wrong with an array's shape, and the expression that makes `name` a clip, or a picture."""
    if len(shape) == 5:
        reasons, expression = _in_shape(shape[1:], f"{name}[0]", pictures=pictures)
        return ["of a batch, one clip per call", *reasons], expression
    if not 2 <= len(shape) <= 4:
        return [], name
    reasons, expression = list[str](), name
    places = ((-1, (1, 2, 3, 4)), (-3, (1, 3, 4)), (-4, (1, 3, 4)))
    axis = next((axis for axis, sizes in places if len(shape) >= max(3, -axis) and shape[axis] in sizes), None)
    if axis is not None and axis != -1:
        channel = len(shape) + axis
        order = (*(place for place in range(len(shape)) if place != channel), channel)
        reasons.append("with the channels before the pixels")
        expression = f"{name}.transpose({', '.join(map(str, order))})"
    if axis is None and len(shape) < 4:
        reasons.append("of grey")
        expression = f"numpy.stack([{name}] * 3, axis=-1)"
    elif axis is not None and shape[axis] == 4:
        reasons.append("without the alpha channel")
        expression = f"{expression}[..., :3]"
    elif axis is not None and shape[axis] < 3:
        reasons.append("of grey")
        expression = f"numpy.repeat({expression}{'[..., :1]' if shape[axis] == 2 else ''}, 3, axis=-1)"
    if not pictures and len(shape) - (axis is not None) < 3:
        reasons.append("of one picture")
        expression = f"{expression}[None]"
    return reasons, expression


def in_bytes(values: np.ndarray[Any, Any], expression: str, cast: str = "astype(numpy.uint8)") -> tuple[str, str]:
    """How an array's values are told, and the expression that makes `expression` uint8, from 0 to 255.

    The values decide, not their type alone: a video of floats may go to 1 or to 255. Without a way, the expression
    stays, and the reason says what is wrong.
    """
    kind = values.dtype.kind
    if values.dtype == np.uint8 or kind not in "biuf":
        return "", expression
    low, high = float(values.min()), float(values.max())
    if not math.isfinite(low + high):
        return "some values are infinite or not a number", expression
    if kind == "b":
        return "of truth values", f"255 * {expression}.{cast}"
    if kind == "f" and low >= -1 and high <= 1:
        scaled = f"255 * {expression}" if low >= 0 else f"127.5 * {expression} + 127.5"
        return f"of values from {'0' if low >= 0 else '-1'} to 1", f"({scaled}).round().{cast}"
    if low < 0 or high >= 2**16:
        return f"values from {low:g} to {high:g} must be brought to 0 to 255", expression
    if high <= 255:
        return "of values from 0 to 255", f"{expression}{'.round()' if kind == 'f' else ''}.{cast}"
    most = next(2**bits - 1 for bits in (10, 12, 14, 16) if high < 2**bits)
    return f"of values up to {most:,}", f"({255 / most:.6g} * {expression}).round().{cast}"


def _through_codec(frames: Frames, recipe: VideoRecipe, dataset: str, item_id: str, fps: float) -> Frames:
    if recipe.entry.takes_file(recipe.params):
        raise ValueError(f"{recipe.key} as '{recipe.variant}' makes it takes a video file's own stream or bitrate")
    from perturbations.media import encoding

    rate = plain_rate(Fraction(fps))
    timing = Timing(1 / rate, rate)
    with storage.scratch_directory() as folder:
        path = Path(folder) / "clean.mp4"
        pictures = (Frame(frame, index, index) for index, frame in enumerate(frames))
        encoding.encode(pictures, path, profiles.PROFILES["lossless"], timing)
        num_frames, height, width = frames.shape[:3]
        source = CleanClip(dataset, item_id, MediaClip(path), "", num_frames, width, height, timing)
        return np.stack([frame.image for frame in rendering.planned_clip(recipe, source).frames()])
