"""The code of a perturbation: its functions, what they need and may be given, and what follows from their kind."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from perturbations.base.bounds import Bounds, Joint

KernelMethod = Literal["pixel", "temporal", "codec", "text"]

ParameterValue = bool | int | float | str | list[str] | list[int]
"""A parameter of a kernel. A caption's kernel may take lists: tags of words, positions in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """The functions of a perturbation, `module:function`, resolved when first used. What asks for a kind asks here.

    Attributes:
        method: "pixel" changes frames one by one; "temporal" says which frame stands where; "codec" is an encode whose
            stream is the result; "text" changes a caption.
        kernel: for "pixel" it is `kernel(realization, num_frames, height, width, **parameters) -> apply(frame, index)`;
            for "temporal" `kernel(realization, num_frames, **parameters)` gives the frames' positions in the clip; for
            "codec" `kernel(**parameters)` gives the encoder's arguments; for "text" it is
            `kernel(text, rng, **parameters, **roles) -> text`.
        realization: `module:function(rng, num_frames, height, width)` that draws what is random. It is not given
            the parameters, so the severities of a clip share it. None where nothing is random, and for "text",
            whose kernels draw.
        sampled: as `kernel`, of a temporal one: the plan of the 12 frames that the authors' models read, where these
            are not sampled uniformly from what the kernel gives.
        shape: `module:function(realizations, num_frames, height, width, **parameters)`, which gives the
            `video.kernel.Shape` of the perturbed clip. It receives the realization of each frame, or the clip's one:
            these are kept, so each is a few numbers. None where a pixel kernel keeps every frame and its size.
        damage: of a "codec" one whose stream does not arrive as it is, `module:function(realization, stream,
            **parameters) -> stream`; bytes of an MPEG transport stream. What a decoder makes of it is the result.
        guide: what the kernel must know of the clip beside its frames: a file of `perturbations.guides`. It is the
            kernel's second argument.
        version: raise it when the kernel's results change; every row made by the old one becomes stale.
        bounds: what each parameter may be; every parameter has one.
        joint: what parameters must fulfil together.
        several_frames: whether a "pixel" one makes sense of several frames alone: it is about motion or time.
    """

    method: KernelMethod = "pixel"
    kernel: str
    realization: str | None = None
    sampled: str | None = None
    shape: str | None = None
    damage: str | None = None
    guide: str | None = None
    version: int = 1
    bounds: Bounds = field(default_factory=dict)
    joint: tuple[Joint, ...] = ()
    several_frames: bool = False

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

    @property
    def changed_columns(self) -> frozenset[str]:
        """The columns of length and size that a perturbed clip's row may have otherwise than its source's."""
        length = {"frame_count", "duration_s"} if self.moves_frames or self.shape else set()
        return frozenset(length | ({"width", "height"} if self.shape else set()))

    def encoding(self, parameters: Mapping[str, object]) -> dict[str, str | int | Fraction]:
        """The encoder's arguments, of ffmpeg's output; none where nothing is encoded.

        A fraction is a share of the bitrate of the source's file.
        """
        arguments: dict[str, str | int | Fraction] = resolve(self.kernel)(**parameters) if self.encodes else {}
        return arguments

    def encoder(self, parameters: Mapping[str, object]) -> str | None:
        """ffmpeg's encoder; None where none is needed."""
        name = self.encoding(parameters).get("vcodec", "copy")
        return None if name == "copy" else str(name)

    def takes_file(self, parameters: Mapping[str, object]) -> bool:
        """Whether the source's file counts, and not its frames alone: its bitrate, or its own stream."""
        arguments = self.encoding(parameters)
        return "bsf" in arguments or any(isinstance(value, Fraction) for value in arguments.values())


def resolve(dotted: str) -> Callable[..., Any]:
    """The function behind `module:function`."""
    module, _, name = dotted.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function
