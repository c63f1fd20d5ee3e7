"""Transmission: what happens to a video between a camera in the rain and a player behind a bad line.

Bit errors, H.264 and H.265 at constant quality and at limited bitrates, frame rate and rain are those of
Mini Kinetics-C (Yi et al., arXiv 2110.06513). Losses of packets are those of Lost in Transmission (Chang and Fu,
arXiv 2206.05252), which has no severities. `paper` is ours where the sources say so: it needs a clip's frames only, and
severities are apart on short clips too. `released` has the numbers of Mini Kinetics-C's code, and takes the stream and
the bitrate of the source's own file, as that does.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from perturbations.base.bounds import SHARE, Range, whole
from perturbations.base.kernel import Kernel
from perturbations.suites.suite_registry import Form, KernelParameters, Paper, Suite, table
from perturbations.video import codec, rain, temporal, transport

_VARIANTS = ("paper", "released")
_KINETICS_C = Paper(suite="transmission", video_source="Mini Kinetics-C, arXiv 2110.06513", variants=_VARIANTS)
_LOST = Paper(suite="transmission", video_source="Lost in Transmission, arXiv 2206.05252", variants=_VARIANTS)
_OURS = Paper(suite="transmission", video_source="ours", variants=_VARIANTS)

_BIT_ERRORS = Kernel(
    kernel=transport.bit_errors,
    damage=transport.flip_bits,
    realization=transport.draw_bits,
    method="codec",
    version=2,
    bounds={"spacing": whole(50, 1_000_000_000), "least": whole(0, 65_536)},
)
_BYTE_ERRORS = Kernel(
    kernel=transport.byte_errors,
    method="codec",
    bounds={"spacing": whole(50, 1_000_000_000)},
)
_PACKET_LOSS = Kernel(
    kernel=transport.packet_loss,
    damage=transport.lose_packets,
    realization=transport.draw_packets,
    method="codec",
    version=2,
    bounds={"share": SHARE, "least": whole(0, 65_536)},
)
_H264_QUALITY = Kernel(kernel=codec.quality, method="codec", bounds={"crf": whole(0, 51)})
_H265_QUALITY = replace(_H264_QUALITY, kernel=partial(codec.quality, h265=True))
_H264_QUALITY_RELEASED = replace(_H264_QUALITY, kernel=partial(codec.quality, medium=True))
_H265_QUALITY_RELEASED = replace(_H264_QUALITY, kernel=partial(codec.quality, h265=True, medium=True))
_H264_LIMITED = Kernel(kernel=codec.limited, method="codec", bounds={"bitrate": whole(1_000, 1_000_000_000)})
_H265_LIMITED = replace(_H264_LIMITED, kernel=partial(codec.limited, h265=True))
_H264_SHARE = Kernel(kernel=codec.share, method="codec", bounds={"divisor": whole(1, 1_000_000)})
_H265_SHARE = replace(_H264_SHARE, kernel=partial(codec.share, h265=True))
_LOWERED_RATE = Kernel(
    kernel=temporal.lowered_rate,
    method="temporal",
    guide="clock",
    several_frames=True,
    version=2,
    bounds={"rate": whole(1, 1_000_000)},
)
_FRAME_RATE = Kernel(
    kernel=temporal.frame_rate,
    method="temporal",
    guide="clock",
    several_frames=True,
    bounds={"fps": Range(0.001, 1000)},
)
_RESOLUTION = Kernel(
    kernel=transport.resolution,
    bounds={"scale": Range(0, 1, above=True)},
)
_RAIN = Kernel(
    kernel=rain.rain,
    realization=rain.draw_rain,
    bounds={"density": Range(0, 0.01), "length": Range(0, 1), "contrast": SHARE},
)


def _released(
    differences: str, kernel: Kernel | None = None, by_severity: tuple[KernelParameters, ...] | None = None
) -> dict[str, Form]:
    """What Mini Kinetics-C's code does."""
    return {"released": Form(kernel=kernel, table=by_severity, differences=differences)}


_PRESET = "encodes with the encoder's own preset, `medium`"
_SHARES = f"takes a half to a 32nd of the source file's bitrate; {_PRESET}"
_DIVISORS = table("divisor", 2, 4, 8, 16, 32)
_BITRATES = table("bitrate", 400_000, 200_000, 100_000, 50_000, 25_000)

SUITE = Suite(
    name="transmission",
    title="Transmission: bit errors, lost packets, codecs, frame rate, resolution, rain",
    reference="Yi et al., Benchmarking the Robustness of Spatial-Temporal Models Against Corruptions; "
    "Chang and Fu, Lost in Transmission: On the Impact of Networking Corruptions on Video Machine Learning Models",
    videos=(
        _KINETICS_C.video(
            "bit_error",
            "network",
            _BIT_ERRORS,
            table("spacing least", (100_000, 1), (50_000, 2), (30_000, 3), (20_000, 4), (10_000, 5)),
            "wrong bits in an H.264 stream, concealed by the decoder",
            source="its code's bytes per error; single bits, the least number, encoder, container and draw: ours",
            variants=_released(
                "replaces whole bytes of the source file's own stream, in every frame and header, as FFmpeg's filter "
                "`noise` does; nothing is random, for our decoder of one thread, and a short file may lose nothing",
                _BYTE_ERRORS,
                table("spacing", 100_000, 50_000, 30_000, 20_000, 10_000),
            ),
            # More wrong bits are as a rule worse, but one that loses a frame may hide another: on eight real clips, two
            # draws each, the PSNR of 12 sampled frames rose in 1 of 64 steps.
            monotonic=False,
        ),
        _LOST.video(
            "packet_loss",
            "network",
            _PACKET_LOSS,
            table("share least", (0.005, 1), (0.01, 2), (0.03, 3), (0.1, 4), (0.3, 5)),
            "packets of an MPEG transport stream are lost, and the decoder conceals it",
            source="severities, the least number, encoder, container and draw: ours",
            variants=_released(
                "loses the shares that Mini Kinetics-C prints, of our stream; of a short clip it may lose nothing",
                by_severity=table("share least", *((share, 0) for share in (0.01, 0.02, 0.03, 0.04, 0.06))),
            ),
            # A lost reference of many frames may be farther away than frozen frames, and a frozen frame nearer than one
            # in pieces: on six real clips, three draws each, the mean absolute error of 12 sampled frames (8 12 24 40
            # 47 grey levels on average) fell in 4 of 72 steps.
            monotonic=False,
        ),
        _KINETICS_C.video(
            "h264_crf",
            "codec",
            _H264_QUALITY,
            table("crf", 23, 30, 37, 44, 51),
            "a real H.264 encode at a constant quality",
            source="its code's numbers; preset `fast`: ours",
            variants=_released(_PRESET, _H264_QUALITY_RELEASED),
        ),
        _KINETICS_C.video(
            "h264_bitrate",
            "codec",
            _H264_LIMITED,
            _BITRATES,
            "a real H.264 encode at a limited bitrate",
            source="halved per severity as in its code; from which bitrate, and preset `fast`: ours",
            variants=_released(_SHARES, _H264_SHARE, _DIVISORS),
        ),
        _KINETICS_C.video(
            "h265_crf",
            "codec",
            _H265_QUALITY,
            table("crf", 27, 33, 39, 45, 51),
            "a real H.265 encode at a constant quality",
            source="its code's numbers; preset `fast`: ours",
            variants=_released(_PRESET, _H265_QUALITY_RELEASED),
        ),
        _KINETICS_C.video(
            "h265_bitrate",
            "codec",
            _H265_LIMITED,
            _BITRATES,
            "a real H.265 encode at a limited bitrate",
            source="halved per severity as in its code; from which bitrate, and preset `fast`: ours",
            variants=_released(f"{_SHARES}; on one thread, 1 dB milder at severity 5", _H265_SHARE, _DIVISORS),
        ),
        _KINETICS_C.video(
            "frame_rate",
            "stream",
            _LOWERED_RATE,
            table("rate", 2, 3, 5, 8, 15),
            "every second, third, fifth, eighth or fifteenth frame, held until the next",
            source="shares of the clip's own rate: ours",
            variants=_released(
                "lowers the rate to 20, 16, 12, 9 and 6 frames per second; a clip that has no more stays as it is. The "
                "code names these rates by an option that FFmpeg does not have, so its encode is left out",
                _FRAME_RATE,
                table("fps", 20.0, 16.0, 12.0, 9.0, 6.0),
            ),
            # How far held frames are from the clip's own depends on where they fall among the sampled ones: on six
            # real clips the error (6 9 11 16 23) fell in 6 of 72 steps.
            monotonic=False,
        ),
        _OURS.video(
            "resolution",
            "stream",
            _RESOLUTION,
            table("scale", 0.5, 0.33, 0.25, 0.16, 0.1),
            "sent at a lower resolution, and enlarged by the player",
        ),
        _KINETICS_C.video(
            "rain",
            "weather",
            _RAIN,
            table(
                "density length contrast",
                (0.0013, 0.045, 0.8),
                (0.0013, 0.13, 0.8),
                (0.0013, 0.27, 0.7),
                (0.002, 0.27, 0.6),
                (0.0025, 0.36, 0.5),
            ),
            "falling streaks of rain over a dimmed picture",
            source="its code's numbers, lengths as shares of its 224 pixels; that drops fall, their slant and speeds: "
            "ours",
        ),
    ),
    variants=_VARIANTS,
)
