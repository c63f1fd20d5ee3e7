"""MLVP: multi-level video perturbations (HAT-VTR), the low, middle and high level: Tab. 36-37, App. E."""

from __future__ import annotations

from perturbations.suites.suite_registry import Form, KernelParameters, Paper, Suite, table
from perturbations.video import codec, digital, flow_blur, noise, occlusion, style, temporal, weather

_TABLES = "Tab. 1, 2, 16, 17, 19, 20, 24 and 32-35"
"""The tables of the paper that have a column per perturbation."""

_PAPER = Paper(suite="mlvp", video_source="MLVP, Tab. 36-37, App. E")

_BITRATES = (500_000, 250_000, 100_000, 50_000, 25_000)
_LENGTHS = ((5, 9), (7, 13), (9, 17), (11, 21), (13, 25))
_RADII = (3, 4, 6, 8, 10)
_SHARES = (0.3, 0.4, 0.5, 0.6, 0.7)
_ORDERS = (("adjacent", 1), ("pairs", 2), ("pairs", 3), ("pairs", 4), ("shuffled", 0))
_TRIMMED = (0.6, 0.7, 0.8, 0.9, 0.95)

# What 60 70 80 90 95 % of the clip kept leaves to trim.
_KEPT = (0.4, 0.3, 0.2, 0.1, 0.05)


def _scrambling(trimmed: tuple[float, ...]) -> tuple[KernelParameters, ...]:
    rows = [(part, order, pairs) for part, (order, pairs) in zip(trimmed, _ORDERS, strict=True)]
    return table("trimmed order pairs", *rows)


_STILL = (
    "a frame without motion, whose every pixel is at its own 75th percentile, gets the large kernel everywhere; the "
    "text's static areas are less affected"
)

_LOW = (
    _PAPER.video(
        "gaussian_noise",
        "low",
        noise.GAUSSIAN_NOISE,
        table("sigma", 0.08, 0.12, 0.18, 0.26, 0.38),
        "additive normal noise, the same on every frame",
    ),
    _PAPER.video(
        "impulse_noise",
        "low",
        noise.IMPULSE_NOISE,
        table("amount", 0.03, 0.06, 0.09, 0.17, 0.27),
        "salt and pepper, the same pixels on every frame",
    ),
    _PAPER.video(
        "fog",
        "low",
        weather.FOG,
        table("intensity decay", (1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)),
        "a standing bank of fractal fog",
        # Severities 3 to 5 roughen the plasma, and rough fog can be nearer to the clean frame than smooth fog: the
        # mean absolute error stays between 37 and 42 grey levels, and falls from 3 to 4 on many clips.
        monotonic=False,
    ),
    _PAPER.video(
        "snow",
        "low",
        weather.SNOW_RELEASED,
        weather.SNOW_OF_IMAGENET_C,
        "a curtain of falling snow",
        variants={"paper": Form(kernel=weather.SNOW)},
        differences="the snow falls 3 pixels per sampled frame, because the code perturbs the 12 frames that a model "
        "reads: 33 pixels in any clip of 12 frames or more; by the text, 3 pixels per frame. It shaped the column Snow "
        f"of {_TABLES} (CLIP4Clip's R@1 of 29.6 to 14.9). The effect is small, because a single frame hardly shows how "
        "far the snow fell",
        # Severities 2 and 3 are equally far from the clean clip (mean absolute error 42, 69, 69, 82, 95): which of the
        # two is farther depends on the clip.
        monotonic=False,
    ),
    _PAPER.video(
        "elastic_distortion",
        "low",
        digital.ELASTIC,
        digital.ELASTIC_OF_IMAGENET_C,
        "one affine tilt and one rubbery displacement",
        # The published table is inverted: mean absolute error 19, 27, 9, 9, 10. It is kept, not mended.
        monotonic=False,
    ),
    _PAPER.video(
        "h264_compression",
        "low",
        codec.H264,
        table("bitrate pix_fmt", *((bitrate, "yuv444p") for bitrate in _BITRATES)),
        "a real H.264 encode at a low bitrate",
        source="Alg. 1",
        variants={"paper": Form(table=table("bitrate pix_fmt", *((bitrate, "yuv420p") for bitrate in _BITRATES)))},
        differences="pipes RGB frames without naming a pixel format, so x264 encodes 4:4:4; the text's streaming "
        "service would transcode the source's own 4:2:0",
    ),
)

_MIDDLE = (
    _PAPER.video(
        "motion_blur",
        "mid",
        flow_blur.FLOW_BLUR,
        table("low high still", *((low, high, "high") for low, high in _LENGTHS)),
        "blur along the motion, longest where most moves",
        source="Alg. 2",
        variants={"paper": Form(table=table("low high still", *((low, high, "low") for low, high in _LENGTHS)))},
        differences=_STILL,
    ),
    _PAPER.video(
        "video_defocus",
        "mid",
        flow_blur.FLOW_DEFOCUS,
        table("radius still", *((radius, "high") for radius in _RADII)),
        "out of focus, most where most moves",
        source="Alg. 2",
        variants={"paper": Form(table=table("radius still", *((radius, "low") for radius in _RADII)))},
        differences=_STILL,
    ),
    _PAPER.video(
        "main_object_occlusion",
        "mid",
        occlusion.MAIN_OBJECT_OCCLUSION_RELEASED,
        table("ratio", 0.3, 0.425, 0.55, 0.675, 0.8),
        "a black rectangle over a part of the main object",
        source="Alg. 3",
        variants={"paper": Form(kernel=occlusion.MAIN_OBJECT_OCCLUSION, table=table("ratio", 0.3, 0.4, 0.5, 0.6, 0.8))},
        differences="evenly spaced area ratios, where the table prints 0.30 0.40 0.50 0.60 0.80; a rectangle is "
        "clipped at the frame's border. Without a detection, the clipped rectangle is reused and clipped again, so it "
        "shrinks in every sampled frame; `paper` moves a whole rectangle, in every frame. A box without area covers "
        f"nothing. It shaped the column Occlu. of {_TABLES}, severities 2 to 4 most",
    ),
)

_HIGH = (
    _PAPER.video(
        "style_transfer",
        "high",
        style.STYLE_TRANSFER,
        table("alpha", 0.2, 0.4, 0.6, 0.8, 1.0),
        "painted in the style of another picture, one picture per clip",
        source="AdaIN: Huang and Belongie 2017",
    ),
    _PAPER.video(
        "event_insertion",
        "high",
        temporal.EVENT_INSERTION_RELEASED,
        table("share donors", *((share, 2000) for share in _SHARES)),
        "the most similar other clip in place of a part of its own frames",
        variants={
            "paper": Form(
                kernel=temporal.EVENT_INSERTION,
                table=table("share place donors", *((share, "middle", 3000) for share in _SHARES)),
            )
        },
        differences="looks the other clip up by the clip's caption, not by its frames, among 2,000 clips, not 3,000, "
        "and by the dot product of features that are not normalized: clips with long features are chosen more often. "
        "4 5 6 7 8 of the 12 frames that a model reads are the other clip's, spread over the whole of it, after the "
        "first 8 7 6 5 4 of the clip's own 12; by the text a segment is spliced into the middle. Frames are resized "
        "bilinearly, without averaging. `frames/12` stores these 12 frames; full-length storage has the kept head and "
        "then the other clip, squeezed, in which 12 uniform samples are the same or close frames. It shaped the column "
        f"Event of {_TABLES} (CLIP4Clip's R@1 of 37.6 to 22.2)",
        # Whether more of the donor's frames are farther from the clean clip depends on both clips.
        monotonic=False,
    ),
    _PAPER.video(
        "temporal_scrambling",
        "high",
        temporal.TEMPORAL_SCRAMBLING_RELEASED,
        _scrambling(_TRIMMED),
        "trimmed, cut into 12 chunks, and the chunks reordered",
        variants={"paper": Form(kernel=temporal.TEMPORAL_SCRAMBLING, table=_scrambling(_KEPT))},
        differences="trims 60 to 95 % of the clip away, rounded down; the table reads as if so much were kept. Of the "
        "scrambled rest a model reads 12 evenly spaced frames, the first and the last included, or 12 random ones with "
        "repetitions where fewer are left: of clips of up to 220 frames at severity 5, of 110 at severity 4. "
        "`frames/12` stores these 12 frames; full-length storage has the scrambled rest, which evaluators sample as "
        f"they do. It shaped the column Tempo. of {_TABLES} (CLIP4Clip's R@1 of 39.0 to 32.8, although its "
        "mean pooling cannot see order), severity 5 and short clips most",
        # A mean-pooled model cannot see order, and how far two frames of a clip differ does not depend on severity.
        monotonic=False,
    ),
)

SUITE = Suite(
    name="mlvp",
    title="MLVP: multi-level video perturbations",
    reference="Zhang et al., Robust Test-Time Video-Text Retrieval: Benchmarking and Adapting for Query Shifts",
    videos=_LOW + _MIDDLE + _HIGH,
)
