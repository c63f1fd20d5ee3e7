"""A perturbation as a transform of videos, as the loaders of torchvision and PyTorchVideo call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from perturbations.api import perturb
from perturbations.errors import UnknownPerturbationError
from perturbations.suites import registry

_TO_FRAMES = {"TCHW": (0, 2, 3, 1), "CTHW": (1, 2, 3, 0), "THWC": (0, 1, 2, 3)}
_FROM_FRAMES = {"TCHW": (0, 3, 1, 2), "CTHW": (3, 0, 1, 2), "THWC": (0, 1, 2, 3)}


@dataclass(frozen=True)
class Transform:
    """A perturbation at a severity, to be called with a video and its id.

    Attributes:
        name: `suite/name`, e.g. "mlvp/fog".
        severity: 1 to 5; 0 gives a copy.
        seed: a part of the key of what is drawn, as are `dataset` and the ids: the same key gives the same frames as in
            a corpus.
        dataset: see `seed`.
        fps: frames per second of the videos; only perturbations of time and bitrate depend on it.
        variant: "released", "paper", ...; None: the suite's first.
        layout: the axes: "TCHW" (torchvision), "CTHW" (PyTorchVideo), "THWC"; None: TCHW for tensors, THWC for arrays.
        video_key, id_key: where a sample that is a dict has its video and its id.

    Raises `UnknownPerturbationError` for an unknown name, severity or variant, and `ValueError` for an unknown layout.
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
        entry = registry.get(self.name, self.variant)
        if entry.kind != "video":
            raise UnknownPerturbationError(f"{self.name} perturbs captions, not videos; use perturb_text")
        if self.severity:
            entry.parameters(self.severity)
        if self.layout not in (None, *_TO_FRAMES):
            raise ValueError(f"no layout {self.layout!r}; known: {', '.join(_TO_FRAMES)}")

    def __call__(self, video: Any, item_id: str | None = None) -> Any:
        """The perturbed video, of the same type, layout and device; of a dict, a copy with the perturbed video.

        `video` is a uint8 tensor or array, or a dict with one and its id. Some perturbations change the number of
        frames, or their size. Raises `ValueError` for another type or shape, or without an id; `MediaError` as
        `perturb` does.
        """
        if isinstance(video, Mapping):
            if item_id is None:
                if self.id_key not in video:
                    raise ValueError(f"the sample has no {self.id_key!r}, its id: name its key as `id_key`")
                item_id = str(video[self.id_key])
            return {**video, self.video_key: self(video[self.video_key], item_id)}
        if item_id is None:
            raise ValueError("give the clip's id: what is drawn depends on it")
        if isinstance(video, np.ndarray):
            return self._perturbed(video, item_id, self.layout or "THWC")
        import torch  # the caller has it where the video is a tensor

        if not isinstance(video, torch.Tensor):
            raise ValueError(f"a video is a tensor, an array or a dict with one, not {type(video).__name__}")
        frames = self._perturbed(video.detach().cpu().numpy(), item_id, self.layout or "TCHW")
        return torch.from_numpy(frames).to(video.device).as_subclass(type(video))

    def _perturbed(self, video: np.ndarray[Any, Any], item_id: str, layout: str) -> np.ndarray[Any, Any]:
        channels = layout.index("C")
        if video.dtype != np.uint8 or video.ndim != 4 or video.shape[channels] != 3:
            raise ValueError(
                f"a video must be uint8 {' x '.join(layout)} with 3 channels, not {video.dtype} {video.shape}; "
                "`layout` names other orders of the axes"
            )
        frames = np.ascontiguousarray(video.transpose(_TO_FRAMES[layout]))
        perturbed = perturb(
            frames,
            self.name,
            self.severity,
            seed=self.seed,
            item_id=item_id,
            fps=self.fps,
            dataset=self.dataset,
            variant=self.variant,
        )
        return np.ascontiguousarray(perturbed.transpose(_FROM_FRAMES[layout]))
