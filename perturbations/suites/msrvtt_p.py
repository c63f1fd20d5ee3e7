"""MSRVTT-P and YouCook2-P (Schiappa et al.): Sec. 3.1, App. A.1 (video), App. A.2 and Tab. 5 (text).

Noise, blur and camera are drawn for every frame. The authors released two programs, which differ: `released` is the
writer of videos, `released_online` perturbs inside the feature extractors. Which made which table is not said.
"""

from __future__ import annotations

from collections.abc import Mapping

from perturbations.suites.suite_registry import Combined, Form, Paper, ParameterValue, Perturbation, Suite, table
from perturbations.video import blur, camera, codec, defocus, digital, noise, temporal

_PAPER = Paper(
    suite="msrvtt_p",
    variants=("released", "released_online", "paper"),
    video_source="MSRVTT-P / YouCook2-P, Sec. 3.1, App. A.1",
    draw="frame",
)

_AMOUNTS = (0.03, 0.06, 0.09, 0.17, 0.27)
_RATES = (2, 4, 8, 16, 32)
_REACHES = (8, 16, 24, 32, 40)


def _mpeg(name: str, encoder: str, scales: tuple[int, ...], summary: str) -> Perturbation:
    """The published -q:v, and the quantizer that it comes to: the coarsest from severity 2 or 3 on."""
    released = table("codec qscale quantizer", *((encoder, scale, min(scale, codec.COARSEST)) for scale in scales))
    # What follows the coarsest quantizer differs little.
    return _PAPER.video(name, "digital", codec.of_mpeg(encoder), released, summary, monotonic=False)


def _frozen(opening: str) -> tuple[Mapping[str, ParameterValue], ...]:
    """Shares of the frames, but so many at least: those of severity 5 are severity 3's, by mistake."""
    kept = ((0.4, 0), (0.2, 0), (0.1, 0), (0.05, 2), (0.1, 1))
    return table("kept least opening", *((share, least, opening) for share, least in kept))


VIDEO = (
    # --- noise -------------------------------------------------------------------------------------------------------
    _PAPER.video(
        "gaussian_noise",
        "noise",
        noise.GAUSSIAN_NOISE_OF_RANKS,
        table("sigma", 0.08, 0.12, 0.18, 0.26, 0.38),
        "additive normal noise, new on every frame",
    ),
    _PAPER.video(
        "impulse_noise",
        "noise",
        noise.SALT_AND_PEPPER,
        table("amount", *_AMOUNTS),
        "salt and pepper on single colour values, new on every frame",
    ),
    _PAPER.video(
        "shot_noise",
        "noise",
        noise.SHOT_OR_IMPULSE_NOISE,
        table("model strength", *(("poisson", rate) for rate in (250.0, 100.0, 50.0, 30.0, 15.0))),
        "Poisson noise of few photons, new on every frame",
        variants={
            "paper": Form(
                table=table("model strength", *(("salt_and_pepper", amount) for amount in _AMOUNTS)),
            )
        },
        differences="draws Poisson numbers, as ImageNet-C does, at the rates 250 100 50 30 15; the text repeats the "
        "salt and pepper of impulse noise, amounts included",
    ),
    _PAPER.video(
        "speckle_noise",
        "noise",
        noise.SPECKLE_NOISE,
        # The text gives no numbers; ImageNet-C's are .15 .2 .35 .45 .6.
        table("scale", 0.15, 0.2, 0.25, 0.3, 0.35),
        "normal noise that grows with brightness, new on every frame",
    ),
    # --- blur --------------------------------------------------------------------------------------------------------
    _PAPER.video(
        "motion_blur",
        "blur",
        blur.STREAK_BLUR,
        table("radius sigma", (10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0)),
        "a streak of the whole frame, in a new direction on every frame",
    ),
    _PAPER.video(
        "defocus_blur",
        "blur",
        defocus.DEFOCUS_BLUR,
        table("radius alias", (3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
        "a lens out of focus",
    ),
    _PAPER.video(
        "zoom_blur",
        "blur",
        blur.ZOOM_BLUR,
        # The text gives no numbers.
        table("stop step", (1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
        "a camera that rushes forward",
    ),
    # --- camera ------------------------------------------------------------------------------------------------------
    _PAPER.video(
        "static_rotate",
        "camera",
        camera.STATIC_ROTATE,
        table("degrees", 7.5, 15.0, 30.0, 45.0, 90.0),
        "every frame turned by the same angle",
        # A right angle puts the frame's lines on lines again: it can be nearer to the frame than 45 degrees.
        monotonic=False,
    ),
    _PAPER.video(
        "rotate",
        "camera",
        camera.ROTATE,
        table("most_degrees", 6, 12, 18, 24, 30),
        "every frame turned by a whole angle of its own",
        variants=dict.fromkeys(("released_online", "paper"), Form(table=table("most_degrees", 7, 13, 19, 25, 31))),
        differences="turns by up to 6 12 18 24 30 degrees, the feature extractors' program by one degree more; the "
        "text gives no numbers, so `paper` has that program's",
    ),
    _PAPER.video(
        "translate",
        "camera",
        camera.TRANSLATE_RELEASED,
        table("reach window", *((reach, "lost") for reach in _REACHES)),
        "a camera that shakes: a window at a new place on every frame",
        variants={
            "released_online": Form(
                kernel=camera.TRANSLATE_ONCE,
                table=table("reach window", *((reach, "filled") for reach in _REACHES)),
                differences="one place per clip, so that nothing shakes: 224 x 224 pixels (256 x 256 of frames 288 "
                "wide) in the upper left, black where they reach beyond the frame. The text draws for every frame",
            ),
            # The mildest windows lie in the corner, the others nearer to the centre, where the frame is enlarged
            # evenly: the mean absolute error is 32, 29, 28, 27, 29 grey levels.
            "paper": Form(kernel=camera.TRANSLATE, table=table("reach", *_REACHES)),
        },
        differences="scales the shorter side to 256 and writes windows of 224 x 224 that begin less than 40 pixels "
        "from the upper left corner: the right of a wide frame is never seen. At severity 5 a sixth of a wide frame's "
        "windows reach beyond it, and the writer drops those frames without a word, so the clip becomes shorter. The "
        "text says only that each frame is cropped about a new centre; `paper` takes a window of 7/8 of the frame. All "
        "figures of this perturbation are of such windows wherever the writer's files were read",
        monotonic=False,
    ),
    # --- digital -----------------------------------------------------------------------------------------------------
    _PAPER.video(
        "jpeg",
        "digital",
        digital.JPEG_OF_BGR,
        table("quality", 25, 18, 15, 10, 7),
        "every frame a JPEG of low quality",
        variants={"released_online": Form(kernel=digital.JPEG), "paper": Form(kernel=digital.JPEG)},
        differences="the writer takes OpenCV's blue for red, so that JPEG thins out other colours: 27 to 35 dB from a "
        "JPEG of the right colours",
    ),
    _mpeg(
        "mpeg1",
        "mpeg2video",
        (20, 40, 60, 80, 100),
        "an MPEG-2 encode at a coarse quantizer (MPEG1 is the paper's name)",
    ),
    _mpeg("mpeg2", "mpeg4", (15, 30, 45, 60, 75), "an MPEG-4 encode at a coarse quantizer (MPEG2 is the paper's name)"),
    # --- temporal ----------------------------------------------------------------------------------------------------
    _PAPER.video(
        "jumble",
        "temporal",
        temporal.JUMBLE,
        table("length", 4, 8, 16, 32, 64),
        "frames shuffled inside segments",
        variants=dict.fromkeys(("released_online", "paper"), Form(table=table("length", 32, 16, 8, 4, 2))),
        differences="the writer's segments grow from 4 to 64 frames; the text's, and the feature extractors', shrink "
        "from 32 to 2",
    ),
    _PAPER.video(
        "box_jumble",
        "temporal",
        temporal.BOX_JUMBLE,
        table("length", 2, 4, 8, 16, 32),
        "segments in shuffled order",
        variants=dict.fromkeys(("released_online", "paper"), Form(table=table("length", 4, 9, 16, 25, 36))),
        differences="the writer's segments have 2 4 8 16 32 frames; the text's, and the feature extractors', "
        "4 9 16 25 36",
        # Longer segments keep more of the order, not less.
        monotonic=False,
    ),
    _PAPER.video(
        "sampling",
        "temporal",
        temporal.SAMPLING_RELEASED,
        table("rate", *_RATES),
        "every r-th frame, held r frames",
        variants={"paper": Form(kernel=temporal.SAMPLING)},
        differences="holds the last frame for r frames too, so that a clip gets up to 31 frames longer; the text slows "
        "the playback down and names no length",
    ),
    _PAPER.video(
        "reverse_sampling",
        "temporal",
        temporal.REVERSE_SAMPLING_RELEASED,
        table("rate", *_RATES),
        "every r-th frame, held r frames, backwards",
        variants={"paper": Form(kernel=temporal.REVERSE_SAMPLING)},
        differences="holds the last frame for r frames too, so that a clip gets up to 31 frames longer and begins with "
        "its last sampled frame, r times",
        # Going backwards moves frames farther than any rate.
        monotonic=False,
    ),
    _PAPER.video(
        "freeze",
        "temporal",
        temporal.FREEZE_RELEASED,
        _frozen("lost"),
        "a stream that hangs: a share of the frames, each held until the next",
        variants={
            "released_online": Form(
                table=_frozen("first"),
                differences="keeps 10 % of the frames at severity 5, as at severity 3, by mistake, and so figures of "
                "the two are alike; the text says 2.5 %",
            ),
            "paper": Form(kernel=temporal.FREEZE, table=table("kept", 0.4, 0.2, 0.1, 0.05, 0.025)),
        },
        differences="keeps 10 % of the frames at severity 5, as at severity 3, by mistake, and so figures of the two "
        "are alike; the text says 2.5 %. Frames before the first one kept are lost, which makes the clip shorter; of a "
        "clip of fewer than 3, 5 or 10 frames none is left at severities 1, 2 and 3, and severity 4 stops at one "
        "frame: such a clip is quarantined",
        monotonic=False,
    ),
)


def _captions() -> tuple[Perturbation, ...]:
    from perturbations.suites.msrvtt_p_captions import TEXT

    return TEXT


SUITE = Suite(
    name="msrvtt_p",
    title="MSRVTT-P and YouCook2-P: visual and language perturbations of text-to-video retrieval",
    reference="Schiappa et al., Robustness Analysis of Video-Language Models Against Visual and Language Perturbations",
    videos=VIDEO,
    captions=_captions,
    variants=_PAPER.variants,
    whole_videos=True,
    corpora={"msrvtt_p": "msrvtt", "youcook2_p": "youcook2"},
    # Sec. 4, Fig. 4: 66; 48 where captions have no gender to change.
    combined=Combined(
        severity=3,
        video=("box_jumble", "defocus_blur", "jpeg", "jumble", "shot_noise", "static_rotate"),
        text=(
            *("append_irr", "gender_female", "gender_male", "gender_swap", "mlm_suggestion", "multi_pos_swap_NN"),
            *("no_nouns_and_no_verbs", "no_verbs", "random_noun", "shuffle_order", "spelling_error"),
        ),
    ),
)
