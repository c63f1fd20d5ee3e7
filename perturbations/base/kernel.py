"""The declaration of a kernel, and what pixel kernels give for one clip: a function of frames, and the clip's shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from perturbations.base.arrays import Image
from perturbations.base.bounds import Bounds, Joint

Function = Callable[..., Any]
"""A function of a kernel."""

Apply = Callable[[Image, int], Image]
"""(frame, index) -> frame."""


@dataclass(frozen=True)
class Batched:
    """A kernel that changes a batch of frames, each independently of the others.

    Attributes:
        apply: frames B x H x W x 3 -> frames, B up to `size`.
        size: the largest batch for the memory of a job.
    """

    apply: Callable[[Image], Image]
    size: int


FrameFunction = Apply | Batched


@dataclass(frozen=True)
class Shape:
    """The perturbed frames of a clip.

    Attributes:
        height, width: of every perturbed frame, in pixels.
        kept: the positions of the frames that are not lost, ascending; None where no frame can be lost.
    """

    height: int
    width: int
    kept: tuple[int, ...] | None = None


def draw_unit(rng: np.random.Generator, num_frames: int, height: int, width: int) -> float:
    """A number, uniform in [0, 1), for kernels in which nothing else is random."""
    return float(rng.random())


def name_of(function: Function) -> str:
    """`module:function`, for menus, with what a variant fixes: `module:function, rounded`."""
    if isinstance(function, partial):
        return ", ".join([name_of(function.func), *function.keywords])
    return f"{function.__module__}:{function.__name__}"


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """The functions of a perturbation, what they need and may be given, and what follows from their kind.

    Suites make perturbations of these; a perturbation of an existing kernel needs no more than its table.

    Attributes:
        method: "pixel" changes frames one by one; "temporal" says where each frame is shown; "codec" is an encode whose
            stream is the result; "text" changes a caption.
        kernel: for "pixel" it is `kernel(realization, num_frames, height, width, **parameters) -> apply(frame, index)`;
            for "temporal" `kernel(realization, num_frames, **parameters)` gives the frames' positions in the clip; for
            "codec" `kernel(**parameters)` gives the encoder's arguments; for "text" it is
            `kernel(text, rng, **parameters, **roles) -> text`. A keyword with a default is no parameter: a variant
            sets it by `functools.partial`.
        realization: `draw(rng, num_frames, height, width)`, which draws what is random. It is not given the parameters,
            so the severities of a clip share it. None where nothing is random, and for "text", whose kernels draw.
        sampled: as `kernel`, of a temporal one: the plan of the 12 frames that the authors' models read, where these
            are not sampled uniformly from what the kernel gives.
        shape: `shape(realizations, num_frames, height, width, **parameters)`, which gives the `Shape` of the perturbed
            clip. It receives the realization of each frame, or the clip's one: these are kept, so each is a few
            numbers. None where a pixel kernel keeps every frame and its size.
        damage: of a "codec" one whose stream does not arrive as it is, `damage(realization, stream, **parameters) ->
            stream`; bytes of an MPEG transport stream. What a decoder makes of it is the result.
        guide: what the kernel must know of the clip beside its frames: a name in `perturbations.models.guides`. It is
            the kernel's second argument.
        version: raise it when the kernel's results change; every row made by the old one becomes stale.
        bounds: what each parameter may be; every parameter has one.
        joint: what parameters must fulfil together.
        several_frames: whether a "pixel" one makes sense of several frames alone: it is about motion or time.
        once: whether it draws once per clip, also in a suite whose kernels draw per frame.
        draws_guide: whether each clip is given one of several guides, drawn once per clip: a style.
    """

    method: Literal["pixel", "temporal", "codec", "text"] = "pixel"
    kernel: Function
    realization: Function | None = None
    sampled: Function | None = None
    shape: Function | None = None
    damage: Function | None = None
    guide: str | None = None
    version: int = 1
    bounds: Bounds = field(default_factory=dict)
    joint: tuple[Joint, ...] = ()
    several_frames: bool = False
    once: bool = False
    draws_guide: bool = False

    @property
    def applies_to_one_frame(self) -> bool:
        """Whether it can be made of a picture."""
        return self.method == "pixel" and not self.several_frames

    @property
    def moves_frames(self) -> bool:
        """Whether frames are put in another order and no pixel changes: one frame does not show what was done."""
        return self.method == "temporal"

    @property
    def encodes(self) -> bool:
        """Whether an encoder's stream is the perturbed video."""
        return self.method == "codec"

    def encoding(self, parameters: Mapping[str, object]) -> dict[str, str | int | Fraction]:
        """The encoder's arguments, of ffmpeg's output; none where nothing is encoded.

        A fraction is a share of the bitrate of the source's file.
        """
        return self.kernel(**parameters) if self.encodes else {}

    def encoder(self, parameters: Mapping[str, object]) -> str | None:
        """ffmpeg's encoder; None where none is needed."""
        name = self.encoding(parameters).get("vcodec", "copy")
        return None if name == "copy" else str(name)

    def takes_file(self, parameters: Mapping[str, object]) -> bool:
        """Whether the source's file counts, and not its frames alone: its bitrate, or its own stream."""
        arguments = self.encoding(parameters)
        return "bsf" in arguments or any(isinstance(value, Fraction) for value in arguments.values())
