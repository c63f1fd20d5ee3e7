"""A video encoder of the user's own: two functions, named as `module:factory` on the command line and nowhere else.

Nothing that is read from a file chooses what is imported. The features are written as `composed_embeddings` reads them.
"""

from __future__ import annotations

import csv
import importlib
import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from perturbations.base import storage
from perturbations.base.arrays import Image
from perturbations.base.errors import ConfigError, MediaError
from perturbations.base.progress import logged
from perturbations.composed.embeddings import CLIPS, TEXTS, Floats
from perturbations.composed.records import Split
from perturbations.composed.scores import WORDS, words_of
from perturbations.manifest.locations import confined
from perturbations.media import decoding, probing
from perturbations.media.clip import Clip, uniform_indices
from perturbations.retrieval.arrays import Values, as_array

Thing = TypeVar("Thing")

_TEXTS_AT_ONCE = 64
_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class VideoEncoder(Protocol):
    """Two functions whose features are compared by cosine. They may return arrays or tensors."""

    def encode_clips(self, clips: Sequence[Image], /) -> Values:
        """Clips of T x H x W x 3 frames each, RGB uint8, of any size: clips x D."""

    def encode_texts(self, texts: Sequence[str], /) -> Values:
        """Texts: texts x D, the same D."""


def load(name: str) -> VideoEncoder:
    """What `module:factory` returns; modules of the current folder can be named too, installed ones come first.

    Raises `ConfigError` where there is no such thing, or where it lacks one of the two functions.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"an encoder is named module:factory, not {name[:100]!r}")
    module, _, factory = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        encoder: VideoEncoder = getattr(importlib.import_module(module), factory)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(f"the encoder {name} cannot be made: {error}") from error
    lacking = [part for part in ("encode_clips", "encode_texts") if not callable(getattr(encoder, part, None))]
    if lacking:
        raise ConfigError(f"the encoder {name} has no function {lacking[0]}")
    return encoder


def write(
    split: Split, encoder: VideoEncoder, videos: Path, output: Path, *, num_frames: int, batch: int
) -> list[tuple[str, str]]:
    """Encode a split's clips, which lie as `<videos>/<video_id>/<clip>.mp4`, and its texts.

    Writes `clips.csv` and `clips.npy`, `texts.csv` and `texts.npy` to the folder `output`.
    Returns the clips that cannot be read and why; they are left out of the files. Raises `ConfigError` where the
    encoder returns anything but finite features of one width.
    """
    failed: list[tuple[str, str]] = []
    names: list[str] = []
    parts: list[Floats] = []
    read = _clips(split, videos, num_frames, failed)
    for members in _batches(logged(read, len(split.rows_of), "clips"), batch):
        names += [name for name, _ in members]
        parts.append(_checked(encoder.encode_clips([frames for _, frames in members]), len(members), "encode_clips"))
    if not parts:
        raise ConfigError(f"no clip of the split can be read in {videos}; the first: {': '.join(failed[0])}")
    words = dict.fromkeys(text for kind in WORDS for text in words_of(split, kind) if text)
    texts = [
        _checked(encoder.encode_texts(members), len(members), "encode_texts")
        for members in _batches(words, _TEXTS_AT_ONCE)
    ]
    widths = {part.shape[1] for part in (*parts, *texts)}
    if len(widths) > 1:
        raise ConfigError(f"the encoder's features have several widths: {', '.join(map(str, sorted(widths)))}")
    _save(output / "clips", CLIPS[0], names, parts)
    _save(output / "texts", TEXTS[0], list(words), texts)
    return failed


def _batches(things: Iterable[Thing], size: int) -> Iterator[list[Thing]]:
    remaining = iter(things)
    while members := list(islice(remaining, size)):
        yield members


def _clips(split: Split, videos: Path, num_frames: int, failed: list[tuple[str, str]]) -> Iterator[tuple[str, Image]]:
    """The frames of each clip that can be read, one clip per name."""
    for name, row in split.last.items():
        try:
            yield name, sampled(confined(videos, f"{split.pool[row].video_id}/{name}.mp4"), num_frames)
        except MediaError as error:
            failed.append((name, str(error)))


def sampled(path: Path, num_frames: int) -> Image:
    """Frames spread evenly over a video: num_frames x H x W x 3, RGB uint8. Raises `MediaError`."""
    total = probing.probe(path).declared_frames or sum(1 for _ in decoding.decode(Clip(path)))
    positions = uniform_indices(num_frames, total)
    images = {frame.position: frame.image for frame in decoding.decode(Clip(path), only={*positions})}
    if missing := [position for position in positions if position not in images]:
        raise MediaError(f"{path} has no frame {missing[0]}, although it declares {total}")
    return np.stack([images[position] for position in positions])


def _checked(values: Values, count: int, function: str) -> Floats:
    rows = as_array(values)
    if rows.ndim != 2 or len(rows) != count or rows.dtype.kind not in "fiu":
        raise ConfigError(f"{function} returned {rows.dtype} {rows.shape} for {count}; expected numbers, {count} x D")
    features: NDArray[np.float32] = np.asarray(rows, np.float32)
    if not np.isfinite(features).all():
        raise ConfigError(f"{function} returned NaN or infinity")
    return features


def _save(path: Path, column: str, names: Sequence[str], parts: Sequence[Floats]) -> None:
    """The names as CSV, and the features beside it."""
    with storage.atomic_path(path.with_suffix(".npy")) as temporary:
        np.save(temporary, np.concatenate(parts) if parts else np.empty((0, 1), np.float32))
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([[column], *([name] for name in names)])
    storage.write_text(path.with_suffix(".csv"), content.getvalue())
