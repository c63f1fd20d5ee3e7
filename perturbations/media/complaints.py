"""What libav says while it decodes, and which of it means that a picture is missing or wrong.

A file is damaged when a picture is. Decoders also complain about what no picture needs: an instruction to forget a
picture from before a cut, a supplemental message of a wrong length. `err_detect=explode` makes an error of all of them,
so decoding goes on, as in ffmpeg, and the words decide. Words that are not listed here mean damage.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import av
import av.logging

from perturbations.base.errors import MediaError, cut

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
    r"\bSEI\b|recovery_frame_cnt|in buffering period|num_sps_ids_minus1|active_parameter_set_id"  # H.264, HEVC
    r"|RPU|DOVI|film grain|[Cc]losed [Cc]aption"  # what such messages hold, of any codec
)
"""Complaints about supplemental messages."""

_ABSENT = re.compile(r"mmco: unref short failure|number of reference frames .* exceeds max")
"""Of H.264: pictures to forget are not those that are there. They are from before a cut, or they are missing."""

_UNREFERENCED = re.compile(
    r"[Rr]eference picture missing|Missing reference picture|Could not find ref with POC|co located POCs unavailable"
    r"|Error constructing the frame RPS"
)
"""The picture itself refers to one that is not there. Behind a cut, the decoder does not show it."""


class Decoded(NamedTuple):
    """The frames that a packet completes, and whether the decoder complains of it, misses a picture, and for its own.

    Of pictures to forget, and of what pictures do not need, complaints alone do not mean damage.
    """

    frames: list[av.VideoFrame]
    has_complaints: bool = False
    is_absent: bool = False
    lacks_reference: bool = False


def decode(packet: av.Packet[av.VideoStream]) -> Decoded:
    """Decode a packet. Raises `MediaError` where the decoder complains about what a picture needs."""
    with av.logging.Capture() as lines:  # of this thread
        frames = packet.decode()
    texts = [text.strip() for _, _, text in lines]
    lacking = [text for text in texts if _UNREFERENCED.search(text)]
    absent = [text for text in texts if _ABSENT.search(text)]
    for text in texts:
        if text not in lacking and text not in absent and not _NOT_NEEDED.search(text):
            raise MediaError(f"the file is damaged: {cut(text)}")
    return Decoded(frames, bool(texts), bool(absent or lacking), bool(lacking))


_DEMUXERS = {
    "CRC mismatch": "the file is damaged: a checksum differs",  # of Ogg, whose page is left out
    "File ended prematurely": "the file ends early",  # of Matroska, as the two below
    "EBML number": "a part of the file is damaged or missing",
    "exceeds containing master element": "a part of the file is damaged or missing",
}
"""Words of demuxers, which leave out a part of a file and go on, and what they mean."""


@contextmanager
def demuxing() -> Iterator[None]:
    """Raise `MediaError` where libav finds in what is read meanwhile that a part of the file is not there."""
    with av.logging.Capture() as lines:
        yield
    for _, _, text in lines:
        for words, meaning in _DEMUXERS.items():
            if words in text:
                raise MediaError(meaning)
