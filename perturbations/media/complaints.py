"""What libav says while it decodes, and which of it means that a picture is missing or wrong.

A file is damaged when a picture is. Decoders also complain about what no picture needs: an instruction to forget a
picture from before a cut, a supplemental message of a wrong length. `err_detect=explode` makes an error of all of them,
so decoding goes on, as in ffmpeg, and the words decide. Words that are not listed here mean damage.
"""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

import av
import av.error
import av.logging

from perturbations.base.errors import MediaError

_quiet = logging.getLogger("libav")  # PyAV's; what is not captured is said by the raised errors
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


def listen() -> None:
    """Have libav's errors reach `decode`, each of them, and nobody else. Another program may have changed it."""
    if av.logging.get_level() != av.logging.ERROR:
        av.logging.set_level(av.logging.ERROR)
    if av.logging.get_skip_repeated():
        av.logging.set_skip_repeated(False)


_NOT_NEEDED = re.compile(
    r"mmco: unref short failure"  # H.264: a picture to forget is not there: it is from before a cut
    r"|number of reference frames .* exceeds max"  # H.264: it forgets the oldest; if that is missed, it says so
    r"|\bSEI\b|recovery_frame_cnt|in buffering period"  # H.264, HEVC: supplemental messages
    r"|RPU|DOVI|film grain|[Cc]losed [Cc]aption"  # what further messages hold, of any codec
)
_MISSING_REFERENCE = re.compile(
    r"[Rr]eference picture missing|Missing reference picture|Could not find ref with POC|co located POCs unavailable"
)
"""The picture refers to another that is not there: behind a cut, the decoder does not show it."""


class Decoded(NamedTuple):
    """The frames that a packet completes; `lacks_reference`: the picture of this packet refers to one not there."""

    frames: list[av.VideoFrame]
    lacks_reference: bool


def decode(packet: av.Packet[av.VideoStream]) -> Decoded:
    """Decode a packet. Raises `MediaError` where the decoder complains about what a picture needs."""
    with av.logging.Capture() as lines:  # of this thread
        frames = packet.decode()
    needed = [text for _, _, text in lines if not _NOT_NEEDED.search(text)]
    for text in needed:
        if not _MISSING_REFERENCE.search(text):
            raise MediaError(f"a picture is damaged: {text.strip()}")
    return Decoded(frames, bool(needed))
