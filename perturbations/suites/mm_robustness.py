"""MM-Robustness (Qiu et al.): 17 image perturbations after ImageNet-C, 16 of text: Sec. 2, Tab. 7-9.

On video one draw a clip.
"""

from __future__ import annotations

from perturbations.bounds import (
    ALPHA,
    DISK,
    ELASTIC,
    FOG,
    IMPULSES,
    NOISE,
    PHOTONS,
    QUALITY,
    RATIO,
    SHARE,
    SNOW,
    SPECKLES,
    STREAK,
    ZOOM,
    ZOOM_VIEWS,
    Bounds,
    Choice,
    Joint,
    Range,
    whole,
)
from perturbations.suites.registry import Parameters, Perturbation, Suite

_VIDEO_SOURCE = "MM-Robustness, Sec. 2, Tab. 7, after ImageNet-C"


def _image(
    name: str,
    level: str,
    kernel: str,
    realization: str | None,
    released: tuple[Parameters, ...],
    summary: str,
    bounds: Bounds,
    *,
    joint: tuple[Joint, ...] = (),
    guide: str | None = None,
    version: int = 1,
    monotonic: bool = True,
) -> Perturbation:
    return Perturbation(
        suite="mm_robustness",
        name=name,
        level=level,
        method="pixel",
        kernel=f"perturbations.video.{kernel}",
        realization=realization and f"perturbations.video.{realization}",
        guide=guide,
        version=version,
        released=released,
        bounds=bounds,
        joint=joint,
        draw="none" if realization is None and guide is None else "clip",
        summary=summary,
        source=_VIDEO_SOURCE,
        monotonic=monotonic,
    )


def _table(names: str, *rows: tuple[float, ...]) -> tuple[Parameters, ...]:
    """One parameter set a row."""
    return tuple(dict(zip(names.split(), row, strict=True)) for row in rows)


def _column(name: str, *values: float) -> tuple[Parameters, ...]:
    """One parameter set a value."""
    return tuple({name: value} for value in values)


VIDEO = (
    # --- noise -------------------------------------------------------------------------------------------------------
    _image(
        "gaussian_noise",
        "noise",
        "noise:gaussian_noise",
        "noise:draw_normal",
        _column("sigma", 0.08, 0.12, 0.18, 0.26, 0.38),
        "additive normal noise",
        NOISE,
    ),
    _image(
        "shot_noise",
        "noise",
        "noise:shot_noise",
        "noise:draw_ranks",
        _column("rate", 60.0, 25.0, 12.0, 5.0, 3.0),
        "Poisson noise of few photons",
        {"rate": PHOTONS},
    ),
    _image(
        "impulse_noise",
        "noise",
        "noise:salt_and_pepper",
        "noise:draw_ranks",
        _column("amount", 0.03, 0.06, 0.09, 0.17, 0.27),
        "salt and pepper on single colour values",
        IMPULSES,
    ),
    _image(
        "speckle_noise",
        "noise",
        "noise:speckle_noise",
        "noise:draw_ranks",
        _column("scale", 0.15, 0.2, 0.35, 0.45, 0.6),
        "normal noise that grows with brightness",
        SPECKLES,
    ),
    # --- blur --------------------------------------------------------------------------------------------------------
    _image(
        "defocus_blur",
        "blur",
        "blur:defocus_blur",
        None,
        _table("radius alias", (3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
        "a lens out of focus",
        DISK,
    ),
    _image(
        "glass_blur",
        "blur",
        "blur:glass_blur",
        "blur:draw_glass",
        _table("sigma delta iterations", (0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
        "a pane of frosted glass",
        {"sigma": Range(0.01, 50), "delta": whole(1, 200), "iterations": whole(1, 3)},
        # Severity 2 moves pixels once, severity 1 twice; severity 3 three times, severity 4 twice: the mean absolute
        # error is 5, 5, 9, 9, 10 grey levels.
        monotonic=False,
    ),
    _image(
        "motion_blur",
        "blur",
        "blur:motion_blur",
        "blur:draw_angle",
        _table("radius sigma", (10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0)),
        "a streak of the whole frame",
        STREAK,
        version=2,
    ),
    _image(
        "zoom_blur",
        "blur",
        "blur:zoom_blur",
        None,
        _table("stop step", (1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.33, 0.03)),
        "a camera that rushes forward",
        ZOOM,
        joint=(ZOOM_VIEWS,),
    ),
    # --- weather -----------------------------------------------------------------------------------------------------
    _image(
        "snow",
        "weather",
        "weather:still_snow",
        "weather:draw_still_snow",
        _table(
            "loc scale zoom threshold radius sigma blend",
            (0.1, 0.3, 3.0, 0.5, 10, 4.0, 0.8),
            (0.2, 0.3, 2.0, 0.5, 12, 4.0, 0.7),
            (0.55, 0.3, 4.0, 0.9, 12, 8.0, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8.0, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12.0, 0.55),
        ),
        "a curtain of snow that stands still",
        SNOW,
        # Severities 2 and 3 are equally far from the clean clip: which of the two is farther depends on the clip.
        monotonic=False,
    ),
    _image(
        "frost",
        "weather",
        "weather:frost",
        "weather:draw_frost",
        _table("kept added", (1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
        "ice on the lens",
        {"kept": SHARE, "added": SHARE},
        guide="frost",
        # Severity 4 keeps less of the frame than severity 3 under as much ice, which is darker, and nearer to it: the
        # mean absolute error is 62, 75, 81, 77, 81 grey levels.
        monotonic=False,
    ),
    _image(
        "fog",
        "weather",
        "weather:fog",
        "weather:draw_plasma",
        _table("intensity decay", (1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)),
        "a standing bank of fractal fog",
        FOG,
        # Rough fog can be nearer to the clean frame than smooth fog.
        monotonic=False,
    ),
    _image(
        "brightness",
        "weather",
        "weather:brightness",
        None,
        _column("added", 0.1, 0.2, 0.3, 0.4, 0.5),
        "bright daylight",
        {"added": SHARE},
    ),
    # --- digital -----------------------------------------------------------------------------------------------------
    _image(
        "contrast",
        "digital",
        "digital:contrast",
        None,
        _column("factor", 0.4, 0.3, 0.2, 0.1, 0.05),
        "levels pulled to the mean",
        {"factor": Range(0, 10)},
    ),
    _image(
        "elastic_transform",
        "digital",
        "digital:elastic_distortion",
        "digital:draw_elastic",
        # 244, not 224: ImageNet-C's constant.
        tuple(
            {"alpha": 244 * alpha, "sigma": 244 * sigma, "affine": 244 * affine}
            for alpha, sigma, affine in (
                (2, 0.7, 0.1),
                (2, 0.08, 0.2),
                (0.05, 0.01, 0.02),
                (0.07, 0.01, 0.02),
                (0.12, 0.01, 0.02),
            )
        ),
        "one affine tilt and one rubbery displacement",
        ELASTIC,
        # The published table is inverted.
        monotonic=False,
    ),
    _image(
        "pixelate",
        "digital",
        "digital:pixelate",
        None,
        _column("scale", 0.6, 0.5, 0.4, 0.3, 0.25),
        "coarse pixels",
        {"scale": Range(0, 1, above=True)},
    ),
    _image(
        "jpeg_compression",
        "digital",
        "digital:jpeg",
        None,
        _column("quality", 25, 18, 15, 10, 7),
        "every frame a JPEG of low quality",
        QUALITY,
    ),
    # --- stylize -----------------------------------------------------------------------------------------------------
    _image(
        "stylize",
        "stylize",
        "style:style_transfer",
        None,
        _column("alpha", 0.2, 0.4, 0.6, 0.8, 1.0),
        "painted in the style of another picture",
        ALPHA,
        guide="style",
    ),
)

_TEXT_SOURCE = "MM-Robustness, Sec. 2, App. 5.3, Tab. 8"

# Severities 3 to 7 are the paper's five levels, 0.15 to 0.35. Products in doubles, as in the released code: the ceiling
# of 0.05 * 6 * 10 words is 4.
_RATIOS = tuple(0.05 * severity for severity in range(1, 8))


def _text(
    name: str,
    level: str,
    kernel: str,
    summary: str,
    released: tuple[Parameters, ...],
    *,
    bounds: Bounds | None = None,
    paper: tuple[Parameters, ...] | None = None,
    differences: str = "",
    roles: tuple[str, ...] = (),
    gated: bool = False,
    random: bool = True,
) -> Perturbation:
    return Perturbation(
        suite="mm_robustness",
        name=name,
        kind="text",
        level=level,
        method="text",
        kernel=f"perturbations.text.{kernel}",
        realization=None,
        version=1,
        released=released,
        paper=paper,
        bounds=bounds or {},
        draw="caption" if random else "none",
        roles=roles,
        gated=gated,
        summary=summary,
        source=_TEXT_SOURCE,
        differences=differences,
    )


def _character(name: str, summary: str) -> Perturbation:
    table = tuple({"ratio": ratio} for ratio in _RATIOS)
    return _text(name, "character", f"characters:{name}", summary, table, bounds=RATIO)


def _word(name: str, summary: str, roles: tuple[str, ...] = ()) -> Perturbation:
    table = tuple({"ratio": ratio} for ratio in _RATIOS)
    return _text(name, "word", f"words:{name}", summary, table, bounds=RATIO, roles=roles, gated=True)


def _style(style: str, summary: str) -> Perturbation:
    table = ({"style": style},)
    return _text(
        style,
        "sentence",
        "sentences:restyle",
        summary,
        table,
        bounds={"style": Choice((style,))},
        roles=("styler",),
        gated=True,
        random=False,
    )


TEXT = (
    _character("keyboard", "characters become neighbours on the keyboard"),
    _character("ocr", "characters are recognized wrongly"),
    _character("char_insert", "random characters are inserted"),
    _character("char_replace", "characters become random ones"),
    _character("char_swap", "neighbouring characters are exchanged"),
    _character("char_delete", "characters are left out"),
    _word("synonym_replace", "words become synonyms", roles=("wordnet",)),
    _text(
        "word_insert",
        "word",
        "words:word_insert",
        "synonyms are inserted",
        tuple({"ratio": ratio, "skip_stop_words": False} for ratio in _RATIOS),
        paper=tuple({"ratio": ratio, "skip_stop_words": True} for ratio in _RATIOS),
        bounds={**RATIO, "skip_stop_words": Choice((False, True))},
        differences='draws from all words, so that "a" brings in "vitamin a"; the text says: not from stop words',
        roles=("wordnet",),
        gated=True,
    ),
    _word("word_swap", "words change places"),
    _word("word_delete", "words are left out"),
    _word("insert_punctuation", "punctuation marks are inserted"),
    _style("formal", "in a formal style"),
    _style("casual", "in a casual style"),
    _style("passive", "in the passive voice"),
    _style("active", "in the active voice"),
    _text(
        "back_translation",
        "sentence",
        "sentences:back_translation",
        "into another language and back",
        ({},),
        roles=("translator",),
        random=False,
    ),
)

SUITE = Suite(
    name="mm_robustness",
    title="MM-Robustness: image and text perturbations of multimodal models, on video",
    reference="Qiu et al., Benchmarking Robustness of Multimodal Image-Text Models under Distribution Shift",
    perturbations=VIDEO + TEXT,
    draws_by_choice=True,
)
