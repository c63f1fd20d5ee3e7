"""MSRVTT-P and YouCook2-P (Schiappa et al.): Sec. 3.1, App. A.1 (video), App. A.2 and Tab. 5 (text).

Noise, blur and camera are drawn for every frame.
"""

from __future__ import annotations

from perturbations.bounds import (
    DISK,
    IMPULSES,
    NOISE,
    PHOTONS,
    QUALITY,
    SHARE,
    SPECKLES,
    STREAK,
    ZOOM,
    ZOOM_VIEWS,
    Bounds,
    Choice,
    Joint,
    Range,
    Several,
    whole,
)
from perturbations.suites.registry import Combined, Parameters, Perturbation, Suite

_VIDEO_SOURCE = "MSRVTT-P / YouCook2-P, Sec. 3.1, App. A.1"

_AMOUNTS = (0.03, 0.06, 0.09, 0.17, 0.27)
_RATES = (2, 4, 8, 16, 32)
_COARSEST = 31  # ffmpeg quantizes with this whatever larger number it is given


def _mpeg(codec: str, *scales: int) -> tuple[dict[str, str | int], ...]:
    """The published -q:v, and the quantizer that it comes to."""
    return tuple({"codec": codec, "qscale": scale, "quantizer": min(scale, _COARSEST)} for scale in scales)


def _mpeg_bounds(codec: str) -> Bounds:
    return {"codec": Choice((codec,)), "qscale": whole(1, 1000), "quantizer": whole(2, _COARSEST)}


_FRAMES = whole(1, 1_000_000)

VIDEO = (
    # --- noise -------------------------------------------------------------------------------------------------------
    Perturbation(
        suite="msrvtt_p",
        name="gaussian_noise",
        level="noise",
        method="pixel",
        kernel="perturbations.video.noise:gaussian_noise_of_ranks",
        realization="perturbations.video.noise:draw_ranks",
        version=1,
        released=tuple({"sigma": sigma} for sigma in (0.08, 0.12, 0.18, 0.26, 0.38)),
        bounds=NOISE,
        draw="frame",
        summary="additive normal noise, new on every frame",
        source=_VIDEO_SOURCE,
    ),
    Perturbation(
        suite="msrvtt_p",
        name="impulse_noise",
        level="noise",
        method="pixel",
        kernel="perturbations.video.noise:salt_and_pepper",
        realization="perturbations.video.noise:draw_ranks",
        version=1,
        released=tuple({"amount": amount} for amount in _AMOUNTS),
        bounds=IMPULSES,
        draw="frame",
        summary="salt and pepper on single colour values, new on every frame",
        source=_VIDEO_SOURCE,
    ),
    Perturbation(
        suite="msrvtt_p",
        name="shot_noise",
        level="noise",
        method="pixel",
        kernel="perturbations.video.noise:shot_or_impulse_noise",
        realization="perturbations.video.noise:draw_ranks",
        version=1,
        released=tuple({"model": "poisson", "strength": float(rate)} for rate in (250, 100, 50, 30, 15)),
        paper=tuple({"model": "salt_and_pepper", "strength": amount} for amount in _AMOUNTS),
        # A rate, or an amount.
        bounds={"model": Choice(("poisson", "salt_and_pepper")), "strength": Range(0, PHOTONS.high)},
        joint=(
            Joint(
                "strength",
                lambda noise: (PHOTONS if noise["model"] == "poisson" else SHARE).allows(noise["strength"]),
                f"must be {PHOTONS} where `model` is poisson, {SHARE} where it is salt_and_pepper",
            ),
        ),
        draw="frame",
        summary="Poisson noise of few photons, new on every frame",
        source=_VIDEO_SOURCE,
        differences="draws Poisson numbers, as ImageNet-C does at the rates 60 25 12 5 3; the text repeats the salt "
        "and pepper of impulse noise, amounts included",
    ),
    Perturbation(
        suite="msrvtt_p",
        name="speckle_noise",
        level="noise",
        method="pixel",
        kernel="perturbations.video.noise:speckle_noise",
        realization="perturbations.video.noise:draw_ranks",
        version=1,
        # The text gives no numbers; ImageNet-C's are .15 .2 .35 .45 .6.
        released=tuple({"scale": scale} for scale in (0.15, 0.2, 0.25, 0.3, 0.35)),
        bounds=SPECKLES,
        draw="frame",
        summary="normal noise that grows with brightness, new on every frame",
        source=_VIDEO_SOURCE,
    ),
    # --- blur --------------------------------------------------------------------------------------------------------
    Perturbation(
        suite="msrvtt_p",
        name="motion_blur",
        level="blur",
        method="pixel",
        kernel="perturbations.video.blur:motion_blur",
        realization="perturbations.video.blur:draw_angle",
        version=2,
        released=tuple(
            {"radius": radius, "sigma": sigma}
            for radius, sigma in ((10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0))
        ),
        bounds=STREAK,
        draw="frame",
        summary="a streak of the whole frame, in a new direction on every frame",
        source=_VIDEO_SOURCE,
    ),
    Perturbation(
        suite="msrvtt_p",
        name="defocus_blur",
        level="blur",
        method="pixel",
        kernel="perturbations.video.blur:defocus_blur",
        realization=None,
        version=1,
        released=tuple(
            {"radius": radius, "alias": alias} for radius, alias in ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5))
        ),
        bounds=DISK,
        draw="none",
        summary="a lens out of focus",
        source=_VIDEO_SOURCE,
    ),
    Perturbation(
        suite="msrvtt_p",
        name="zoom_blur",
        level="blur",
        method="pixel",
        kernel="perturbations.video.blur:zoom_blur",
        realization=None,
        version=1,
        # The text gives no numbers.
        released=tuple(
            {"stop": stop, "step": step}
            for stop, step in ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03))
        ),
        bounds=ZOOM,
        joint=(ZOOM_VIEWS,),
        draw="none",
        summary="a camera that rushes forward",
        source=_VIDEO_SOURCE,
    ),
    # --- camera ------------------------------------------------------------------------------------------------------
    Perturbation(
        suite="msrvtt_p",
        name="static_rotate",
        level="camera",
        method="pixel",
        kernel="perturbations.video.camera:static_rotate",
        realization=None,
        version=1,
        released=tuple({"degrees": degrees} for degrees in (7.5, 15.0, 30.0, 45.0, 90.0)),
        bounds={"degrees": Range(0, 360)},
        draw="none",
        summary="every frame turned by the same angle",
        source=_VIDEO_SOURCE,
        # A right angle puts the frame's lines on lines again: it can be nearer to the frame than 45 degrees.
        monotonic=False,
    ),
    Perturbation(
        suite="msrvtt_p",
        name="rotate",
        level="camera",
        method="pixel",
        kernel="perturbations.video.camera:rotate",
        realization="perturbations.video.camera:draw_unit",
        version=1,
        released=tuple({"most_degrees": 6 * severity + 1} for severity in range(1, 6)),
        bounds={"most_degrees": whole(0, 180)},
        draw="frame",
        summary="every frame turned by a whole angle of its own",
        source=_VIDEO_SOURCE,
    ),
    Perturbation(
        suite="msrvtt_p",
        name="translate",
        level="camera",
        method="pixel",
        kernel="perturbations.video.camera:translate",
        realization="perturbations.video.camera:draw_origin",
        version=1,
        released=tuple({"reach": 8 * severity} for severity in range(1, 6)),
        bounds={"reach": whole(1, 256)},
        draw="frame",
        summary="a camera that shakes: a window of 7/8 at a new place on every frame",
        source=_VIDEO_SOURCE,
        # The mildest windows lie in the corner, the others nearer to the centre, where the frame is enlarged evenly:
        # the mean absolute error is 32, 29, 28, 27, 29 grey levels.
        monotonic=False,
    ),
    # --- digital -----------------------------------------------------------------------------------------------------
    Perturbation(
        suite="msrvtt_p",
        name="jpeg",
        level="digital",
        method="pixel",
        kernel="perturbations.video.digital:jpeg",
        realization=None,
        version=1,
        released=tuple({"quality": quality} for quality in (25, 18, 15, 10, 7)),
        bounds=QUALITY,
        draw="none",
        summary="every frame a JPEG of low quality",
        source=_VIDEO_SOURCE,
    ),
    Perturbation(
        suite="msrvtt_p",
        name="mpeg1",
        level="digital",
        method="codec",
        kernel="perturbations.video.codec:mpeg",
        realization=None,
        version=1,
        released=_mpeg("mpeg2video", 20, 40, 60, 80, 100),
        bounds=_mpeg_bounds("mpeg2video"),
        draw="none",
        summary="an MPEG-2 encode at a coarse quantizer (MPEG1 is the paper's name)",
        source=_VIDEO_SOURCE,
        # From severity 2 on the quantizer is 31, the coarsest there is: what follows differs little.
        monotonic=False,
    ),
    Perturbation(
        suite="msrvtt_p",
        name="mpeg2",
        level="digital",
        method="codec",
        kernel="perturbations.video.codec:mpeg",
        realization=None,
        version=1,
        released=_mpeg("mpeg4", 15, 30, 45, 60, 75),
        bounds=_mpeg_bounds("mpeg4"),
        draw="none",
        summary="an MPEG-4 encode at a coarse quantizer (MPEG2 is the paper's name)",
        source=_VIDEO_SOURCE,
        # From severity 3 on the quantizer is 31, the coarsest there is: what follows differs little.
        monotonic=False,
    ),
    # --- temporal ----------------------------------------------------------------------------------------------------
    Perturbation(
        suite="msrvtt_p",
        name="jumble",
        level="temporal",
        method="temporal",
        kernel="perturbations.video.temporal:jumble",
        realization="perturbations.video.temporal:draw_order",
        version=1,
        released=tuple({"length": length} for length in (4, 8, 16, 32, 64)),
        paper=tuple({"length": length} for length in (32, 16, 8, 4, 2)),
        bounds={"length": _FRAMES},
        draw="clip",
        summary="frames shuffled inside segments",
        source=_VIDEO_SOURCE,
        differences="the writer's segments grow from 4 to 64 frames; the text's shrink from 32 to 2",
    ),
    Perturbation(
        suite="msrvtt_p",
        name="box_jumble",
        level="temporal",
        method="temporal",
        kernel="perturbations.video.temporal:box_jumble",
        realization="perturbations.video.temporal:draw_order",
        version=1,
        released=tuple({"length": length} for length in (2, 4, 8, 16, 32)),
        paper=tuple({"length": length} for length in (4, 9, 16, 25, 36)),
        bounds={"length": _FRAMES},
        draw="clip",
        summary="segments in shuffled order",
        source=_VIDEO_SOURCE,
        differences="the writer's segments have 2 4 8 16 32 frames; the text's 4 9 16 25 36",
        # Longer segments keep more of the order, not less.
        monotonic=False,
    ),
    Perturbation(
        suite="msrvtt_p",
        name="sampling",
        level="temporal",
        method="temporal",
        kernel="perturbations.video.temporal:sampling",
        realization=None,
        version=1,
        released=tuple({"rate": rate} for rate in _RATES),
        bounds={"rate": _FRAMES},
        draw="none",
        summary="every r-th frame, held r frames",
        source=_VIDEO_SOURCE,
    ),
    Perturbation(
        suite="msrvtt_p",
        name="reverse_sampling",
        level="temporal",
        method="temporal",
        kernel="perturbations.video.temporal:reverse_sampling",
        realization=None,
        version=1,
        released=tuple({"rate": rate} for rate in _RATES),
        bounds={"rate": _FRAMES},
        draw="none",
        summary="every r-th frame, held r frames, backwards",
        source=_VIDEO_SOURCE,
        # Going backwards moves frames farther than any rate.
        monotonic=False,
    ),
    Perturbation(
        suite="msrvtt_p",
        name="freeze",
        level="temporal",
        method="temporal",
        kernel="perturbations.video.temporal:freeze",
        realization="perturbations.video.temporal:draw_order",
        version=1,
        released=tuple({"kept": kept} for kept in (0.4, 0.2, 0.1, 0.05, 0.1)),
        paper=tuple({"kept": kept} for kept in (0.4, 0.2, 0.1, 0.05, 0.025)),
        bounds={"kept": SHARE},
        draw="clip",
        summary="a stream that hangs: a share of the frames, each held until the next",
        source=_VIDEO_SOURCE,
        differences="keeps 10 % of the frames at severity 5, as at severity 3, by mistake; the text says 2.5 %",
        monotonic=False,
    ),
)

_TEXT_SOURCE = "MSRVTT-P, App. A.2, Tab. 5"

_MISLABELLED = 'takes "female" for a male word and "male" for a female one, which changes 2 captions more and 1 less'


_EITHER = Choice((False, True))
_SHARE: Bounds = {"share": SHARE}

# Penn tags, and what begins several of them.
_PENN = """
CC CD DT EX FW IN JJ JJR JJS LS MD NN NNP NNPS NNS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT
WP WP$ WRB
"""
_TAGS = tuple(_PENN.split())


def _text(
    name: str,
    level: str,
    kernel: str,
    summary: str,
    *,
    parameters: Parameters | None = None,
    paper: Parameters | None = None,
    bounds: Bounds | None = None,
    differences: str = "",
    roles: tuple[str, ...] = (),
    random: bool = True,
) -> Perturbation:
    return Perturbation(
        suite="msrvtt_p",
        name=name,
        kind="text",
        level=level,
        method="text",
        kernel=f"perturbations.text.{kernel}",
        realization=None,
        version=1,
        released=(parameters or {},),
        paper=(paper,) if paper is not None else None,
        bounds=bounds or {},
        draw="caption" if random else "none",
        roles=roles,
        summary=summary,
        source=_TEXT_SOURCE,
        differences=differences,
    )


def _gender(name: str, gender: str, summary: str) -> Perturbation:
    return _text(
        name,
        "Bias",
        "bias:to_gender",
        summary,
        parameters={"gender": gender, "mislabelled": True},
        paper={"gender": gender, "mislabelled": False},
        bounds={"gender": Choice((gender,)), "mislabelled": _EITHER},
        differences=_MISLABELLED,
        random=False,
    )


def _drop(name: str, tags: tuple[str, ...], summary: str, keep: bool = False) -> Perturbation:
    return _text(
        name,
        "DropText",
        f"parts_of_speech:{'keep' if keep else 'drop'}",
        summary,
        parameters={"tags": list(tags)},
        bounds={"tags": Several(Choice(_TAGS), len(_TAGS))},
        roles=("tagger",),
        random=False,
    )


def _position(name: str, positions: tuple[int, ...], summary: str) -> Perturbation:
    return _text(
        name,
        "Positional",
        "parts_of_speech:drop_positions",
        summary,
        parameters={"positions": list(positions)},
        bounds={"positions": Several(whole(-1000, 999), 100)},
        random=False,
    )


def _style(name: str, style: str, summary: str) -> Perturbation:
    return _text(
        name,
        "TextStyle",
        "sentences:restyle",
        summary,
        parameters={"style": style},
        bounds={"style": Choice((style,))},
        roles=("styler",),
        random=False,
    )


TEXT = (
    _text("insert_adv", "AddText", "words:insert_adv", "an adverb before each verb", roles=("tagger",)),
    _text(
        "append_irr",
        "AddText",
        "words:append_irrelevant",
        "an irrelevant opening phrase; from 10 words on, a proverb at the end too",
        parameters={"closing_from": 10},
        bounds={"closing_from": whole(0, 1_000_000)},
    ),
    _gender("gender_female", "f", "male words become female"),
    _gender("gender_male", "m", "female words become male"),
    _text("gender_neutral", "Bias", "bias:to_neutral", "gendered words become neutral", random=False),
    _text("gender_swap", "Bias", "bias:swap", "gendered words change gender", roles=("tagger",), random=False),
    _text(
        "keyboard",
        "ChangeChar",
        "characters:keyboard_slip",
        "a letter slips to a neighbouring key",
        parameters={"share": 0.2},
        bounds=_SHARE,
    ),
    _text(
        "ocr",
        "ChangeChar",
        "characters:ocr_slip",
        "a character is recognized wrongly",
        parameters={"share": 0.2},
        bounds=_SHARE,
    ),
    _text("prefix_swap", "ChangeChar", "words:prefix_swap", "another first morph, same tag", roles=("tagger",)),
    _text("punctuation", "ChangeChar", "characters:punctuation", "brackets around it, an end mark"),
    _text(
        "spelling_error",
        "ChangeChar",
        "characters:spelling_error",
        "a common misspelling",
        parameters={"share": 0.3},
        bounds=_SHARE,
    ),
    _text(
        "typos",
        "ChangeChar",
        "characters:typos",
        "a letter more, less, exchanged or replaced",
        parameters={"share": 0.3},
        bounds=_SHARE,
    ),
    _drop("no_nouns", ("NN",), "nouns become [UNK]"),
    _drop("no_verbs", ("VB",), "verbs become [UNK]"),
    _drop("no_nouns_and_no_verbs", ("NN", "VB"), "nouns and verbs become [UNK]"),
    _drop("only_nouns", ("NN",), "all but nouns become [UNK]", keep=True),
    _drop("only_verbs", ("VB",), "all but verbs become [UNK]", keep=True),
    _drop("only_nouns_and_only_verbs", ("NN", "VB"), "all but nouns and verbs become [UNK]", keep=True),
    _text(
        "random_noun",
        "DropText",
        "parts_of_speech:drop_random",
        "one noun becomes [UNK] wherever it stands",
        parameters={"tag": "NN", "otherwise_first": False},
        bounds={"tag": Choice(("NN",)), "otherwise_first": _EITHER},
        roles=("tagger",),
    ),
    _text(
        "random_verb",
        "DropText",
        "parts_of_speech:drop_random",
        "one verb becomes [UNK] wherever it stands; without one, the first word",
        parameters={"tag": "VB", "otherwise_first": True},
        bounds={"tag": Choice(("VB",)), "otherwise_first": _EITHER},
        roles=("tagger",),
    ),
    _position("drop_first", (0,), "the first word becomes [UNK]"),
    _position("drop_last", (-1,), "the last word becomes [UNK]"),
    _position("drop_first_and_last", (0, -1), "the first and last words become [UNK]"),
    _text("shuffle_order", "Positional", "parts_of_speech:shuffle_order", "the words in a random order"),
    _text(
        "back_trans",
        "SwapText",
        "sentences:back_translation",
        "into another language and back",
        roles=("translator",),
        random=False,
    ),
    _text(
        "mlm_suggestion",
        "SwapText",
        "words:masked_suggestion",
        "words become what a language model puts in their gap",
        parameters={"share": 0.2},
        bounds=_SHARE,
        roles=("tagger", "masked_lm"),
    ),
    _text(
        "multi_pos_swap_JJ",
        "SwapText",
        "words:multi_pos_swap",
        "adjectives become words of several parts of speech",
        parameters={"tag": "JJ"},
        bounds={"tag": Choice(("JJ",))},
        roles=("tagger", "ambiguous"),
    ),
    _text(
        "multi_pos_swap_NN",
        "SwapText",
        "words:multi_pos_swap",
        "nouns become words of several parts of speech",
        parameters={"tag": "NN"},
        bounds={"tag": Choice(("NN",))},
        roles=("tagger", "ambiguous"),
    ),
    _text(
        "swap_syn_word_embedding",
        "SwapText",
        "words:neighbour_swap",
        "a word becomes its neighbour in an embedding",
        parameters={"share": 0.1},
        bounds=_SHARE,
        roles=("tagger", "inflector", "neighbours"),
    ),
    _text(
        "swap_syn_wordnet",
        "SwapText",
        "words:synonym_swap",
        "a word becomes its WordNet synonym",
        parameters={"share": 0.1},
        bounds=_SHARE,
        roles=("tagger", "wordnet"),
    ),
    _style("active_to_passive", "passive", "active voice becomes passive"),
    _style("casual_to_formal", "formal", "casual style becomes formal"),
    _style("formal_to_casual", "casual", "formal style becomes casual"),
    _text(
        "reverse_neg",
        "TextStyle",
        "grammar:reverse_negation",
        "the statement negated, or its negation undone",
        roles=("tagger", "inflector"),
        random=False,
    ),
    _text(
        "tense",
        "TextStyle",
        "grammar:tense",
        "a verb in another tense",
        parameters={"share": 0.1},
        bounds=_SHARE,
        roles=("tagger", "inflector"),
    ),
)

SUITE = Suite(
    name="msrvtt_p",
    title="MSRVTT-P and YouCook2-P: visual and language perturbations of text-to-video retrieval",
    reference="Schiappa et al., Robustness Analysis of Video-Language Models Against Visual and Language Perturbations",
    perturbations=VIDEO + TEXT,
    whole_videos=True,
    # Sec. 4, Fig. 4: 66; 48 where captions have no gender to change.
    combined=Combined(
        severity=3,
        video=("box_jumble", "defocus_blur", "jpeg", "jumble", "shot_noise", "static_rotate"),
        text=(
            "append_irr",
            "gender_female",
            "gender_male",
            "gender_swap",
            "mlm_suggestion",
            "multi_pos_swap_NN",
            "no_nouns_and_no_verbs",
            "no_verbs",
            "random_noun",
            "shuffle_order",
            "spelling_error",
        ),
    ),
)
