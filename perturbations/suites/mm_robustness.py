"""MM-Robustness (Qiu et al.): 17 image perturbations after ImageNet-C, 16 of text: Sec. 2, Tab. 7-9.

On video, what is random is drawn once per clip.
"""

from __future__ import annotations

from perturbations import kernels
from perturbations.bounds import SHARE, Choice
from perturbations.suites.registry import Paper, Perturbation, Suite, table

_PAPER = Paper(
    suite="mm_robustness",
    video_source="MM-Robustness, Sec. 2, Tab. 7, after ImageNet-C",
    text_source="MM-Robustness, Sec. 2, App. 5.3, Tab. 8",
)

VIDEO = (
    # --- noise -------------------------------------------------------------------------------------------------------
    _PAPER.video(
        "gaussian_noise",
        "noise",
        kernels.GAUSSIAN_NOISE,
        table("sigma", 0.08, 0.12, 0.18, 0.26, 0.38),
        "additive normal noise",
    ),
    _PAPER.video(
        "shot_noise",
        "noise",
        kernels.SHOT_NOISE,
        table("rate", 60.0, 25.0, 12.0, 5.0, 3.0),
        "Poisson noise of few photons",
    ),
    _PAPER.video(
        "impulse_noise",
        "noise",
        kernels.SALT_AND_PEPPER,
        table("amount", 0.03, 0.06, 0.09, 0.17, 0.27),
        "salt and pepper on single colour values",
    ),
    _PAPER.video(
        "speckle_noise",
        "noise",
        kernels.SPECKLE_NOISE,
        table("scale", 0.15, 0.2, 0.35, 0.45, 0.6),
        "normal noise that grows with brightness",
    ),
    # --- blur --------------------------------------------------------------------------------------------------------
    _PAPER.video(
        "defocus_blur",
        "blur",
        kernels.DEFOCUS_BLUR,
        table("radius alias", (3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
        "a lens out of focus",
    ),
    _PAPER.video(
        "glass_blur",
        "blur",
        kernels.GLASS_BLUR,
        table("sigma delta iterations", (0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
        "a pane of frosted glass",
        # Severity 2 moves pixels once, severity 1 twice; severity 3 three times, severity 4 twice: the mean absolute
        # error is 5, 5, 9, 9, 10 grey levels.
        monotonic=False,
    ),
    _PAPER.video(
        "motion_blur",
        "blur",
        kernels.STREAK_BLUR,
        table("radius sigma", (10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0)),
        "a streak of the whole frame",
    ),
    _PAPER.video(
        "zoom_blur",
        "blur",
        kernels.ZOOM_BLUR,
        table("stop step", (1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.33, 0.03)),
        "a camera that rushes forward",
    ),
    # --- weather -----------------------------------------------------------------------------------------------------
    _PAPER.video(
        "snow",
        "weather",
        kernels.STILL_SNOW,
        table(
            "loc scale zoom threshold radius sigma blend",
            (0.1, 0.3, 3.0, 0.5, 10, 4.0, 0.8),
            (0.2, 0.3, 2.0, 0.5, 12, 4.0, 0.7),
            (0.55, 0.3, 4.0, 0.9, 12, 8.0, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8.0, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12.0, 0.55),
        ),
        "a curtain of snow that stands still",
        # Severities 2 and 3 are equally far from the clean clip: which of the two is farther depends on the clip.
        monotonic=False,
    ),
    _PAPER.video(
        "frost",
        "weather",
        kernels.FROST,
        table("kept added", (1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
        "ice on the lens",
        # Severity 4 keeps less of the frame than severity 3 under as much ice, which is darker, and nearer to it: the
        # mean absolute error is 62, 75, 81, 77, 81 grey levels.
        monotonic=False,
    ),
    _PAPER.video(
        "fog",
        "weather",
        kernels.FOG,
        table("intensity decay", (1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4)),
        "a standing bank of fractal fog",
        # Rough fog can be nearer to the clean frame than smooth fog.
        monotonic=False,
    ),
    _PAPER.video(
        "brightness", "weather", kernels.BRIGHTNESS, table("added", 0.1, 0.2, 0.3, 0.4, 0.5), "bright daylight"
    ),
    # --- digital -----------------------------------------------------------------------------------------------------
    _PAPER.video(
        "contrast",
        "digital",
        kernels.CONTRAST,
        table("factor", 0.4, 0.3, 0.2, 0.1, 0.05),
        "levels pulled to the mean",
    ),
    _PAPER.video(
        "elastic_transform",
        "digital",
        kernels.ELASTIC,
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
        # The published table is inverted.
        monotonic=False,
    ),
    _PAPER.video("pixelate", "digital", kernels.PIXELATE, table("scale", 0.6, 0.5, 0.4, 0.3, 0.25), "coarse pixels"),
    _PAPER.video(
        "jpeg_compression",
        "digital",
        kernels.JPEG,
        table("quality", 25, 18, 15, 10, 7),
        "every frame a JPEG of low quality",
    ),
    # --- stylize -----------------------------------------------------------------------------------------------------
    _PAPER.video(
        "stylize",
        "stylize",
        kernels.STYLE_TRANSFER,
        table("alpha", 0.2, 0.4, 0.6, 0.8, 1.0),
        "painted in the style of another picture",
    ),
)

# Severities 3 to 7 are the paper's five levels, 0.15 to 0.35. Products in doubles, as in the released code: the ceiling
# of 0.05 * 6 * 10 words is 4.
_RATIO = {"ratio": SHARE}
_RATIOS = tuple(0.05 * severity for severity in range(1, 8))


def _character(name: str, summary: str) -> Perturbation:
    table = tuple({"ratio": ratio} for ratio in _RATIOS)
    return _PAPER.text(name, "character", f"characters:{name}", summary, table, _RATIO)


def _word(name: str, summary: str, roles: tuple[str, ...] = ()) -> Perturbation:
    table = tuple({"ratio": ratio} for ratio in _RATIOS)
    return _PAPER.text(name, "word", f"words:{name}", summary, table, _RATIO, roles=roles, gated=True)


def _style(style: str, summary: str) -> Perturbation:
    table = ({"style": style},)
    return _PAPER.text(
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
    _PAPER.text(
        "word_insert",
        "word",
        "words:word_insert",
        "synonyms are inserted",
        tuple({"ratio": ratio, "skip_stop_words": False} for ratio in _RATIOS),
        paper=tuple({"ratio": ratio, "skip_stop_words": True} for ratio in _RATIOS),
        bounds={**_RATIO, "skip_stop_words": Choice((False, True))},
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
    _PAPER.text(
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
