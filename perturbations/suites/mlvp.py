"""MLVP: multi-level video perturbations (HAT-VTR), the low, middle and high level: Tab. 36-37, App. E."""

from __future__ import annotations

from perturbations.bounds import ALPHA, ELASTIC, FOG, IMPULSES, NOISE, RATIO, SHARE, SNOW, Choice, Joint, whole
from perturbations.suites.registry import Parameters, Perturbation, Suite

_SOURCE = "MLVP, Tab. 36-37, App. E"

_BITRATES = (500_000, 250_000, 100_000, 50_000, 25_000)
_LENGTHS = ((5, 9), (7, 13), (9, 17), (11, 21), (13, 25))
_RADII = (3, 4, 6, 8, 10)
_SHARES = (0.3, 0.4, 0.5, 0.6, 0.7)
_ORDERS = (("adjacent", 1), ("pairs", 2), ("pairs", 3), ("pairs", 4), ("shuffled", 0))
_TRIMMED = (0.6, 0.7, 0.8, 0.9, 0.95)

# What 60 70 80 90 95 % of the clip kept leaves to trim.
_KEPT = (0.4, 0.3, 0.2, 0.1, 0.05)


def _scrambling(trimmed: tuple[float, ...]) -> tuple[Parameters, ...]:
    return tuple(
        {"trimmed": part, "order": order, "pairs": pairs} for part, (order, pairs) in zip(trimmed, _ORDERS, strict=True)
    )


_STILL = (
    "a frame without motion, whose every pixel is at its own 75th percentile, gets the large kernel everywhere; the "
    "text's static areas are less affected"
)

_STILL_COUNTS = Choice(("high", "low"))

PERTURBATIONS = (
    Perturbation(
        suite="mlvp",
        name="gaussian_noise",
        level="low",
        method="pixel",
        kernel="perturbations.video.noise:gaussian_noise",
        realization="perturbations.video.noise:draw_normal",
        version=1,
        released=tuple({"sigma": sigma} for sigma in (0.08, 0.12, 0.18, 0.26, 0.38)),
        bounds=NOISE,
        draw="clip",
        summary="additive normal noise, the same on every frame",
        source=_SOURCE,
    ),
    Perturbation(
        suite="mlvp",
        name="impulse_noise",
        level="low",
        method="pixel",
        kernel="perturbations.video.noise:impulse_noise",
        realization="perturbations.video.noise:draw_uniform",
        version=1,
        released=tuple({"amount": amount} for amount in (0.03, 0.06, 0.09, 0.17, 0.27)),
        bounds=IMPULSES,
        draw="clip",
        summary="salt and pepper, the same pixels on every frame",
        source=_SOURCE,
    ),
    Perturbation(
        suite="mlvp",
        name="fog",
        level="low",
        method="pixel",
        kernel="perturbations.video.weather:fog",
        realization="perturbations.video.weather:draw_plasma",
        version=1,
        released=tuple(
            {"intensity": intensity, "decay": decay}
            for intensity, decay in ((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4))
        ),
        bounds=FOG,
        draw="clip",
        summary="a standing bank of fractal fog",
        source=_SOURCE,
        # Severities 3 to 5 roughen the plasma, and rough fog can be nearer to the clean frame than smooth fog: the
        # mean absolute error stays between 37 and 42 grey levels, and falls from 3 to 4 on many clips.
        monotonic=False,
    ),
    Perturbation(
        suite="mlvp",
        name="snow",
        level="low",
        method="pixel",
        kernel="perturbations.video.weather:snow",
        realization="perturbations.video.weather:draw_snow",
        version=1,
        released=tuple(
            {
                "loc": loc,
                "scale": scale,
                "zoom": zoom,
                "threshold": threshold,
                "radius": radius,
                "sigma": sigma,
                "blend": blend,
            }
            for loc, scale, zoom, threshold, radius, sigma, blend in (
                (0.1, 0.3, 3.0, 0.5, 10, 4.0, 0.8),
                (0.2, 0.3, 2.0, 0.5, 12, 4.0, 0.7),
                (0.55, 0.3, 4.0, 0.9, 12, 8.0, 0.7),
                (0.55, 0.3, 4.5, 0.85, 12, 8.0, 0.65),
                (0.55, 0.3, 2.5, 0.85, 12, 12.0, 0.55),
            )
        ),
        bounds=SNOW,
        draw="clip",
        summary="a curtain of snow that falls 3 pixels a frame",
        source=_SOURCE,
        # Severities 2 and 3 are equally far from the clean clip (mean absolute error 42, 69, 69, 82, 95): which of the
        # two is farther depends on the clip.
        monotonic=False,
    ),
    Perturbation(
        suite="mlvp",
        name="elastic_distortion",
        level="low",
        method="pixel",
        kernel="perturbations.video.digital:elastic_distortion",
        realization="perturbations.video.digital:draw_elastic",
        version=1,
        # 244, not 224: ImageNet-C's constant, which both papers took over.
        released=tuple(
            {"alpha": 244 * alpha, "sigma": 244 * sigma, "affine": 244 * affine}
            for alpha, sigma, affine in (
                (2, 0.7, 0.1),
                (2, 0.08, 0.2),
                (0.05, 0.01, 0.02),
                (0.07, 0.01, 0.02),
                (0.12, 0.01, 0.02),
            )
        ),
        bounds=ELASTIC,
        draw="clip",
        summary="one affine tilt and one rubbery displacement",
        source=_SOURCE,
        # The published table is inverted: mean absolute error 19, 27, 9, 9, 10. It is kept, not mended.
        monotonic=False,
    ),
    Perturbation(
        suite="mlvp",
        name="h264_compression",
        level="low",
        method="codec",
        kernel="perturbations.video.codec:h264",
        realization=None,
        version=1,
        released=tuple({"bitrate": bitrate, "pix_fmt": "yuv444p"} for bitrate in _BITRATES),
        paper=tuple({"bitrate": bitrate, "pix_fmt": "yuv420p"} for bitrate in _BITRATES),
        # x264 counts in kilobits a second.
        bounds={"bitrate": whole(1_000, 1_000_000_000), "pix_fmt": Choice(("yuv444p", "yuv420p"))},
        draw="none",
        summary="a real H.264 encode at a low bitrate",
        source=f"{_SOURCE}, Alg. 1",
        differences="pipes RGB frames without naming a pixel format, so x264 encodes 4:4:4; the text's streaming "
        "service would transcode the source's own 4:2:0",
    ),
    Perturbation(
        suite="mlvp",
        name="motion_blur",
        level="mid",
        method="pixel",
        kernel="perturbations.video.flow_blur:motion_blur",
        realization=None,
        guide="motion",
        version=1,
        released=tuple({"low": low, "high": high, "still": "high"} for low, high in _LENGTHS),
        paper=tuple({"low": low, "high": high, "still": "low"} for low, high in _LENGTHS),
        bounds={"low": whole(1, 301), "high": whole(1, 301), "still": _STILL_COUNTS},
        joint=(Joint("low", lambda lengths: bool(lengths["low"] <= lengths["high"]), "must be at most `high`"),),
        draw="none",
        summary="blur along the motion, longest where most moves",
        source=f"{_SOURCE}, Alg. 2",
        differences=_STILL,
    ),
    Perturbation(
        suite="mlvp",
        name="video_defocus",
        level="mid",
        method="pixel",
        kernel="perturbations.video.flow_blur:video_defocus",
        realization=None,
        guide="motion",
        version=1,
        released=tuple({"radius": radius, "still": "high"} for radius in _RADII),
        paper=tuple({"radius": radius, "still": "low"} for radius in _RADII),
        bounds={"radius": whole(1, 100), "still": _STILL_COUNTS},
        draw="none",
        summary="out of focus, most where most moves",
        source=f"{_SOURCE}, Alg. 2",
        differences=_STILL,
    ),
    Perturbation(
        suite="mlvp",
        name="main_object_occlusion",
        level="mid",
        method="pixel",
        kernel="perturbations.video.occlusion:main_object_occlusion",
        realization="perturbations.video.occlusion:draw_places",
        guide="main_object",
        version=1,
        released=tuple({"ratio": ratio} for ratio in (0.3, 0.425, 0.55, 0.675, 0.8)),
        paper=tuple({"ratio": ratio} for ratio in (0.3, 0.4, 0.5, 0.6, 0.8)),
        bounds=RATIO,
        draw="clip",
        summary="a black rectangle over a part of the main object",
        source=f"{_SOURCE}, Alg. 3",
        differences="evenly spaced area ratios, where the table prints .30 .40 .50 .60 .80",
    ),
    Perturbation(
        suite="mlvp",
        name="style_transfer",
        level="high",
        method="pixel",
        kernel="perturbations.video.style:style_transfer",
        realization=None,
        guide="style",
        version=1,
        released=tuple({"alpha": alpha} for alpha in (0.2, 0.4, 0.6, 0.8, 1.0)),
        bounds=ALPHA,
        draw="clip",
        summary="painted in the style of another picture, one picture a clip",
        source=f"{_SOURCE}; AdaIN: Huang and Belongie 2017",
    ),
    Perturbation(
        suite="mlvp",
        name="event_insertion",
        level="high",
        method="temporal",
        kernel="perturbations.video.temporal:event_insertion",
        realization="perturbations.video.temporal:draw_start",
        guide="donor",
        version=1,
        released=tuple({"share": share, "place": "end", "donors": 2000} for share in _SHARES),
        paper=tuple({"share": share, "place": "middle", "donors": 3000} for share in _SHARES),
        bounds={"share": SHARE, "place": Choice(("end", "middle")), "donors": whole(1, 1_000_000)},
        draw="clip",
        summary="a segment of the most similar other clip in place of its own frames",
        source=_SOURCE,
        differences="looks the other clip up by the embedding of the clip's caption, not of its frames, among 2,000 "
        "clips, not 3,000, and appends the segment to the kept head; the text splices it into the middle",
        # Whether more of the donor's frames are farther from the clean clip depends on both clips.
        monotonic=False,
    ),
    Perturbation(
        suite="mlvp",
        name="temporal_scrambling",
        level="high",
        method="temporal",
        kernel="perturbations.video.temporal:temporal_scrambling",
        realization="perturbations.video.temporal:draw_scrambling",
        version=1,
        released=_scrambling(_TRIMMED),
        paper=_scrambling(_KEPT),
        # Of 12 chunks.
        bounds={"trimmed": SHARE, "order": Choice(("adjacent", "pairs", "shuffled")), "pairs": whole(0, 6)},
        draw="clip",
        summary="trimmed, cut into 12 chunks, and the chunks reordered",
        source=_SOURCE,
        differences="trims 60 to 95 % of the clip away; the table reads as if so much were kept",
        # A mean-pooled model cannot see order, and how far two frames of a clip differ does not depend on severity.
        monotonic=False,
    ),
)

SUITE = Suite(
    name="mlvp",
    title="MLVP: multi-level video perturbations",
    reference="Zhang et al., Robust Test-Time Video-Text Retrieval: Benchmarking and Adapting for Query Shifts",
    perturbations=PERTURBATIONS,
)
