"""The visual kernels, declared: where the code is, and what its parameters may be.

Suites make perturbations of these; a new perturbation of an existing kernel needs no more than its table. Data;
standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from perturbations.base.bounds import REACH, SHARE, SIGMA_OF_TAPS, Bounds, Choice, Joint, Range
from perturbations.base.bounds import whole as whole_numbers
from perturbations.suites.code import Code


@dataclass(frozen=True, kw_only=True)
class Kernel(Code):
    """A visual kernel. Functions are `module:function` below `perturbations.video`, or of a module's full name.

    Attributes:
        once: whether it draws once per clip, also in a suite whose kernels draw per frame.
        draws_guide: whether each clip is given one of several guides, drawn once per clip: a style.
    """

    once: bool = False
    draws_guide: bool = False


def rounded(kernel: Kernel) -> Kernel:
    """The kernel as MM-Robustness' code stores its result, which is rounded where the formula is truncated."""
    return replace(kernel, kernel=f"released_mm_robustness:{kernel.kernel.partition(':')[2]}")


# --- noise -----------------------------------------------------------------------------------------------------------

GAUSSIAN_NOISE = Kernel(
    kernel="noise:gaussian_noise",
    realization="noise:draw_normal",
    bounds={"sigma": Range(0, 10)},  # of colour values in [0, 1]; from 29 on, levels leave 16 bits
)
GAUSSIAN_NOISE_OF_RANKS = replace(
    GAUSSIAN_NOISE, kernel="noise:gaussian_noise_of_ranks", realization="noise:draw_ranks"
)

IMPULSE_NOISE = Kernel(kernel="noise:impulse_noise", realization="noise:draw_uniform", bounds={"amount": SHARE})
SALT_AND_PEPPER = replace(IMPULSE_NOISE, kernel="noise:salt_and_pepper", realization="noise:draw_ranks")

_PHOTONS = Range(0.01, 100_000)
"""Photons of a white pixel. The table of Poisson numbers grows with them."""
SHOT_NOISE = Kernel(kernel="noise:shot_noise", realization="noise:draw_ranks", bounds={"rate": _PHOTONS})
SHOT_OR_IMPULSE_NOISE = Kernel(
    kernel="noise:shot_or_impulse_noise",
    realization="noise:draw_ranks",
    # A rate, or an amount.
    bounds={"model": Choice(("poisson", "salt_and_pepper")), "strength": Range(0, _PHOTONS.high)},
    joint=(
        Joint(
            "strength",
            lambda noise: (_PHOTONS if noise["model"] == "poisson" else SHARE).allows(noise["strength"]),
            f"must be {_PHOTONS} where `model` is poisson, {SHARE} where it is salt_and_pepper",
        ),
    ),
)
SPECKLE_NOISE = Kernel(
    kernel="noise:speckle_noise",
    realization="noise:draw_ranks",
    bounds={"scale": Range(0, 10)},
)

# --- blur ------------------------------------------------------------------------------------------------------------

DEFOCUS_BLUR = Kernel(
    kernel="blur:defocus_blur",
    # A disk of more than 12 pixels does not fit the kernel's 16-bit sums.
    bounds={"radius": whole_numbers(0, 12), "alias": Range(0.01, 100)},
)
STREAK_BLUR = Kernel(
    kernel="blur:motion_blur",
    realization="blur:draw_angle",
    version=2,
    bounds={"radius": REACH, "sigma": SIGMA_OF_TAPS},
    # As published, longer streaks also fade later: from a third of their length to all of it.
)
GLASS_BLUR = Kernel(
    kernel="blur:glass_blur",
    realization="blur:draw_glass",
    bounds={"sigma": Range(0.01, 50), "delta": whole_numbers(1, 200), "iterations": whole_numbers(1, 3)},
    # One pass over the pixels, as the more of them there are, the less does one step of `delta` decide.
)
GLASS_BLUR_RELEASED = replace(GLASS_BLUR, kernel="released_mm_robustness:glass_blur")
_MOST_VIEWS = 255  # their sum has 16 bits
ZOOM_BLUR = Kernel(
    kernel="blur:zoom_blur",
    bounds={"stop": Range(1, 10, above=True), "step": Range(0.001, 10)},
    joint=(
        Joint(
            "step",
            lambda views: (views["stop"] - 1) / views["step"] <= _MOST_VIEWS,
            f"must take at most {_MOST_VIEWS} steps from 1 to `stop`",
        ),
    ),
    # Eleven views, as in the published severity 1, ever farther apart.
)
_STILL = Choice(("high", "low"))
FLOW_BLUR = Kernel(
    kernel="flow_blur:motion_blur",
    guide="motion",
    several_frames=True,
    bounds={"low": whole_numbers(1, 301), "high": whole_numbers(1, 301), "still": _STILL},
    joint=(Joint("low", lambda lengths: bool(lengths["low"] <= lengths["high"]), "must be at most `high`"),),
    # Odd lengths, as published: twice as long, less one, where most moves.
)
FLOW_DEFOCUS = Kernel(
    kernel="flow_blur:video_defocus",
    guide="motion",
    several_frames=True,
    bounds={"radius": whole_numbers(1, 100), "still": _STILL},
)

# --- weather ---------------------------------------------------------------------------------------------------------

_SNOW: Bounds = {
    "loc": Range(0, 10),
    "scale": Range(0, 10),
    "zoom": Range(2, 100),  # of the canvas, only what a zoom of 2 shows is drawn
    "threshold": SHARE,
    "radius": REACH,
    "sigma": SIGMA_OF_TAPS,
    "blend": SHARE,
}
# The small flakes of the published severities from 3 on; ever more of them fall, and the picture whitens.
SNOW_OF_IMAGENET_C = tuple(
    dict(zip(_SNOW, row, strict=True))
    for row in (
        (0.1, 0.3, 3.0, 0.5, 10, 4.0, 0.8),
        (0.2, 0.3, 2.0, 0.5, 12, 4.0, 0.7),
        (0.55, 0.3, 4.0, 0.9, 12, 8.0, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8.0, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12.0, 0.55),
    )
)
"""Its five severities, which MLVP and MM-Robustness take."""
SNOW = Kernel(kernel="weather:snow", realization="weather:draw_snow", bounds=_SNOW)
SNOW_RELEASED = replace(SNOW, kernel="weather:sampled_snow", realization="weather:draw_sampled_snow", version=2)
STILL_SNOW = replace(SNOW, kernel="weather:still_snow", realization="weather:draw_still_snow")
STILL_SNOW_RELEASED = replace(STILL_SNOW, kernel="released_mm_robustness:still_snow")
_FOG: Bounds = {"intensity": Range(0, 1000), "decay": Range(0.1, 100)}
# The roughness of the middle severity, and ever more fog.
FOG = Kernel(kernel="weather:fog", realization="weather:draw_plasma", bounds=_FOG)
FOG_RELEASED = Kernel(
    kernel="released_mm_robustness:fog",
    realization="released_mm_robustness:draw_plasma",
    bounds={**_FOG, "side": whole_numbers(1, 1024)},
    joint=(Joint("side", lambda fog: int(fog["side"]).bit_count() == 1, "must be a power of two"),),
)
FROST = Kernel(
    kernel="frost:frost",
    realization="frost:draw_frost",
    guide="frost",
    bounds={"kept": SHARE, "added": SHARE},
    # From a bare pane to ice that hides the picture.
)
FROST_RELEASED = replace(FROST, kernel="released_mm_robustness:frost_on_lens")
BRIGHTNESS = Kernel(kernel="weather:brightness", bounds={"added": SHARE})

# --- digital ---------------------------------------------------------------------------------------------------------

CONTRAST = Kernel(kernel="digital:contrast", bounds={"factor": Range(0, 10)})
ELASTIC = Kernel(
    kernel="digital:elastic_distortion",
    realization="digital:draw_elastic",
    bounds={"alpha": Range(0, 10_000), "sigma": Range(0.01, 1000), "affine": Range(0, 1000)},
    # Published severities 1 and 2 tilt much, 3 to 5 wobble: here one field, of the width of 3 to 5, tilts and wobbles
    # more and more, so that the table cannot be inverted.
)
ELASTIC_OF_IMAGENET_C = tuple(
    {"alpha": 244 * alpha, "sigma": 244 * sigma, "affine": 244 * affine}
    for alpha, sigma, affine in (
        (2, 0.7, 0.1),
        (2, 0.08, 0.2),
        (0.05, 0.01, 0.02),
        (0.07, 0.01, 0.02),
        (0.12, 0.01, 0.02),
    )
)
"""Its five severities, which MLVP and MM-Robustness take; 244, not 224, is its constant."""
PIXELATE = Kernel(kernel="digital:pixelate", bounds={"scale": Range(0, 1, above=True)})
PIXELATE_RELEASED = replace(
    PIXELATE, kernel="released_mm_robustness:pixelate", shape="released_mm_robustness:shape_of_pixelate"
)
JPEG = Kernel(kernel="digital:jpeg", bounds={"quality": whole_numbers(1, 100)})
JPEG_OF_BGR = replace(JPEG, kernel="digital:jpeg_of_bgr", version=2)

# --- codec -----------------------------------------------------------------------------------------------------------

H264 = Kernel(
    kernel="codec:h264",
    method="codec",
    version=2,
    # x264 counts in kilobits per second.
    bounds={"bitrate": whole_numbers(1_000, 1_000_000_000), "pix_fmt": Choice(("yuv444p", "yuv420p"))},
)
COARSEST = 31
"""ffmpeg's MPEG encoders quantize with this whatever larger number they are given."""


def mpeg(codec: str) -> Kernel:
    """ffmpeg's encoder `codec`: "mpeg2video" or "mpeg4"."""
    return Kernel(
        kernel="codec:mpeg",
        method="codec",
        version=3,
        bounds={
            "codec": Choice((codec,)),
            "qscale": whole_numbers(1, 1000),
            "quantizer": whole_numbers(2, COARSEST),
        },
        # From the coarsest quantizer on, bits are only weighed more.
    )


# --- camera ----------------------------------------------------------------------------------------------------------

STATIC_ROTATE = Kernel(
    kernel="camera:static_rotate",
    bounds={"degrees": Range(0, 360)},
    # Up to half a right angle: beyond, lines come to lie on lines again.
)
ROTATE = Kernel(
    kernel="camera:rotate",
    realization="kernel:draw_unit",
    bounds={"most_degrees": whole_numbers(0, 180)},
)
TRANSLATE = Kernel(
    kernel="camera:translate",
    realization="camera:draw_origin",
    bounds={"reach": whole_numbers(1, 256)},
)

# As the authors' writer: frames that are smaller than the window are lost.
TRANSLATE_RELEASED = Kernel(
    kernel="camera:translate_released",
    realization="camera:draw_origin",
    shape="camera:shape_of_translation",
    version=2,
    bounds={"reach": whole_numbers(1, 256), "window": Choice(("lost", "filled"))},
)
TRANSLATE_ONCE = replace(TRANSLATE_RELEASED, once=True)

# --- objects and style -----------------------------------------------------------------------------------------------

MAIN_OBJECT_OCCLUSION = Kernel(
    kernel="occlusion:main_object_occlusion",
    realization="occlusion:draw_places",
    guide="main_object",
    bounds={"ratio": SHARE},
)
MAIN_OBJECT_OCCLUSION_RELEASED = replace(MAIN_OBJECT_OCCLUSION, kernel="occlusion:occlusion_released", version=2)
STYLE_TRANSFER = Kernel(
    kernel="style:style_transfer",
    guide="style",
    draws_guide=True,
    bounds={"alpha": SHARE},
)
STYLE_TRANSFER_RELEASED = replace(STYLE_TRANSFER, kernel="released_mm_robustness:style_transfer")

# --- time ------------------------------------------------------------------------------------------------------------

_FRAMES = whole_numbers(1, 1_000_000)
EVENT_INSERTION = Kernel(
    kernel="temporal:event_insertion",
    realization="kernel:draw_unit",
    method="temporal",
    guide="donor",
    bounds={"share": SHARE, "place": Choice(("end", "middle")), "donors": _FRAMES},
)
EVENT_INSERTION_RELEASED = Kernel(
    kernel="temporal:insertion_released",
    sampled="temporal:insertion_sampled",
    method="temporal",
    guide="donor",
    version=2,
    bounds={"share": SHARE, "donors": _FRAMES},
    # From one sampled frame of 12 to all but one.
)
TEMPORAL_SCRAMBLING = Kernel(
    kernel="temporal:temporal_scrambling",
    realization="temporal:draw_scrambling",
    method="temporal",
    # Of 12 chunks.
    bounds={"trimmed": SHARE, "order": Choice(("adjacent", "pairs", "shuffled")), "pairs": whole_numbers(0, 6)},
    # The published orders in turn, and an ever larger trim.
)
TEMPORAL_SCRAMBLING_RELEASED = replace(
    TEMPORAL_SCRAMBLING, kernel="temporal:scrambling_released", sampled="temporal:scrambling_sampled", version=2
)
JUMBLE = Kernel(
    kernel="temporal:jumble",
    realization="temporal:draw_order",
    method="temporal",
    bounds={"length": _FRAMES},
    # Longer segments let frames stray farther,
)
# and shorter ones keep fewer of them together.
BOX_JUMBLE = replace(JUMBLE, kernel="temporal:box_jumble")
SAMPLING = Kernel(
    kernel="temporal:sampling",
    method="temporal",
    bounds={"rate": _FRAMES},
)
REVERSE_SAMPLING = replace(SAMPLING, kernel="temporal:reverse_sampling")
SAMPLING_RELEASED = replace(SAMPLING, kernel="temporal:sampling_released", version=2)
REVERSE_SAMPLING_RELEASED = replace(REVERSE_SAMPLING, kernel="temporal:reverse_sampling_released", version=2)
FREEZE = Kernel(
    kernel="temporal:freeze",
    realization="temporal:draw_order",
    method="temporal",
    bounds={"kept": SHARE},
)
FREEZE_RELEASED = Kernel(
    kernel="temporal:freeze_released",
    realization="temporal:draw_order",
    method="temporal",
    version=2,
    bounds={"kept": SHARE, "least": whole_numbers(0, 100), "opening": Choice(("lost", "first"))},
)
