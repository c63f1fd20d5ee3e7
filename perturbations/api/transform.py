"""A perturbation as a transform of videos, as the loaders of torchvision and PyTorchVideo call it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from perturbations.api.array_clips import checked_id, checked_seed, in_bytes, perturb
from perturbations.corpus.plan.recipe import entry_of, make
from perturbations.corpus.plan.tiers import UNSTORED

_TO_FRAMES = {"TCHW": (0, 2, 3, 1), "CTHW": (1, 2, 3, 0), "THWC": (0, 1, 2, 3)}
_FROM_FRAMES = {"TCHW": (0, 3, 1, 2), "CTHW": (3, 0, 1, 2), "THWC": (0, 1, 2, 3)}


@dataclass(frozen=True)
class Transform:
    """A perturbation at a severity, to be called with a video and its id.

    Attributes:
        name: `suite/name`, e.g. "mlvp/fog".
        severity, seed, dataset, fps, variant: as of `perturb`; the ids come with the videos.
        layout: the axes: "TCHW" (torchvision), "CTHW" (PyTorchVideo), "THWC"; None: TCHW for tensors, THWC for arrays.
        video_key, id_key: where a sample that is a dict has its video and its id.

    What is drawn is the same in every worker and epoch; `dataclasses.replace(transform, seed=epoch)` draws again.
    Raises `UnknownPerturbationError` for an unknown name, severity or variant, and `ValueError` for an unknown layout
    or a seed that config.yaml could not have.
    """

    name: str
    severity: int
    seed: int = 0
    dataset: str = ""
    fps: float = 25.0
    variant: str | None = None
    layout: Literal["TCHW", "CTHW", "THWC"] | None = None
    video_key: str = "video"
    id_key: str = "item_id"

    def __post_init__(self) -> None:
        entry = entry_of("video", self.name, self.variant)
        if type(self.severity) is not int or self.severity:
            entry.parameters(self.severity)
        if make(entry, 1, seed=0, storage=UNSTORED).donors:
            raise ValueError(f"{self.name} takes a segment of another clip: call `perturb` with `donors`")
        checked_seed(self.seed)
        if self.layout not in (None, *_TO_FRAMES):
            raise ValueError(f"no layout {self.layout!r}; known: {', '.join(_TO_FRAMES)}")

    def __call__(self, video: Any, item_id: str | int | None = None) -> Any:
        """The perturbed video, of the same type, layout and device; of a dict, a copy with the perturbed video.

        `video` is a tensor, an array, or a dict with one of these and its id. Its values are uint8, or floats that are
        whole numbers from 0 to 255, as PyTorchVideo has them. Some perturbations change the number of frames, or their
        size. Raises `ValueError` for another type, shape or value, or without an id; `MediaError` as `perturb` does.
        """
        if isinstance(video, Mapping):
            needed = (self.video_key, self.id_key) if item_id is None else (self.video_key,)
            if missing := [key for key in needed if key not in video]:
                raise ValueError(f"the sample has no {missing[0]!r}: name its key as `video_key` or `id_key`")
            named = video[self.id_key] if item_id is None else item_id
            return {**video, self.video_key: self(video[self.video_key], named)}
        item = _id(item_id)
        if isinstance(video, np.ndarray):
            return self._perturbed(video, item, self.layout or "THWC", "astype(numpy.uint8)")
        torch = sys.modules.get("torch")  # the caller has it where the video is a tensor
        if torch is None or not isinstance(video, torch.Tensor):
            kind = type(video).__name__
            raise ValueError(f"a video is a tensor, an array or a dict, not {kind}: of frames, give np.stack(frames)")
        try:
            array = video.detach().cpu().numpy()
        except TypeError as error:  # NumPy has no such numbers
            raise ValueError(f"a video must be uint8, not {video.dtype}: give video.float()") from error
        frames = self._perturbed(array, item, self.layout or "TCHW", "to(torch.uint8)")
        return torch.from_numpy(frames).to(video.device).as_subclass(type(video))

    def _perturbed(self, video: np.ndarray[Any, Any], item_id: str, layout: str, cast: str) -> np.ndarray[Any, Any]:
        if video.ndim != 4 or video.shape[layout.index("C")] != 3:
            expected = f"uint8 {' x '.join(layout)} with 3 channels"
            raise ValueError(
                f"a video must be {expected}, not {video.dtype} {video.shape}; {_hint(video.shape, layout)}"
            )
        frames = np.ascontiguousarray(_as_bytes(video, cast).transpose(_TO_FRAMES[layout]))
        key: dict[str, Any] = {"seed": self.seed, "item_id": item_id, "dataset": self.dataset}
        perturbed = perturb(frames, self.name, self.severity, fps=self.fps, variant=self.variant, **key)
        return np.ascontiguousarray(perturbed.transpose(_FROM_FRAMES[layout])).astype(video.dtype, copy=False)


def _id(item_id: object) -> str:
    """A clip's id as a corpus has it: a number is its digits. Raises `ValueError` for none, or one that is no id."""
    if item_id is None:
        raise ValueError("give the clip's id: what is drawn depends on it")
    try:
        return checked_id(item_id)
    except TypeError as error:
        raise ValueError(f"{error}; one video per call") from error


def _hint(shape: tuple[int, ...], layout: str) -> str:
    """What to give in place of a video of another shape."""
    if len(shape) != 4:
        return "of one picture, give video[None]" if len(shape) == 3 else "of a batch, give one video per call"
    if fitting := [name for name in _TO_FRAMES if shape[name.index("C")] == 3]:
        return f"`layout` names other orders of the axes: this may be {' or '.join(map(repr, fitting))}"
    channels = layout.index("C")
    before = ":, " * channels if channels < 3 else "..., "
    taken = {1: "of grey, give video[{}[0, 0, 0]]", 4: "without the alpha channel, give video[{}[0, 1, 2]]"}
    return taken.get(shape[channels], "`layout` names other orders of the axes").format(before)


def _as_bytes(video: np.ndarray[Any, Any], cast: str) -> np.ndarray[Any, Any]:
    """A video of any scale would be guessed at: only uint8 and floats that are bytes already are taken."""
    if video.dtype == np.uint8:
        return video
    with np.errstate(invalid="ignore"):
        values = video.astype(np.uint8)
    if video.dtype.kind not in "uf" or not np.array_equal(values, video):
        reason, expression = in_bytes(video, "video", cast)
        hint = (f": {reason}" if reason else "") + (f", give {expression}" if expression != "video" else "")
        raise ValueError(
            f"a video must be uint8, or of floats that are whole numbers from 0 to 255, not {video.dtype}{hint}; "
            "perturb before a video is normalized"
        )
    return values
