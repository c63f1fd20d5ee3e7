"""The tables of MLVP, MSRVTT-P and MM-Robustness: the published numbers, their counts, and what is drawn how often."""

from __future__ import annotations

import ffmpeg
import numpy as np
import pytest
from looping import each

from perturbations.suites import registry

Table = tuple[tuple[str, ...], list[tuple[object, ...]]]


def column(name: str, *values: object) -> Table:
    return (name,), [(value,) for value in values]


def beside(table: Table, **more: object) -> Table:
    """A table with columns of one value."""
    names, rows = table
    return (*names, *more), [(*row, *more.values()) for row in rows]


MOTION = (("radius", "sigma"), [(10, 3), (15, 5), (15, 8), (15, 12), (20, 15)])
DEFOCUS = (("radius", "alias"), [(3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)])
AMOUNTS = (0.03, 0.06, 0.09, 0.17, 0.27)
SIGMAS = (0.08, 0.12, 0.18, 0.26, 0.38)
QUALITIES = (25, 18, 15, 10, 7)
RATES = (2, 4, 8, 16, 32)
MPEG = ("codec", "qscale", "quantizer")

FOG: Table = (("intensity", "decay"), [(1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)])
SNOW: Table = (
    ("loc", "scale", "zoom", "threshold", "radius", "sigma", "blend"),
    [
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ],
)
# Multiplied out.
ELASTIC: Table = (
    ("alpha", "sigma", "affine"),
    [(488, 170.8, 24.4), (488, 19.52, 48.8), (12.2, 2.44, 4.88), (17.08, 2.44, 4.88), (29.28, 2.44, 4.88)],
)
BITRATES = column("bitrate", 500_000, 250_000, 100_000, 50_000, 25_000)
LENGTHS: Table = (("low", "high"), [(5, 9), (7, 13), (9, 17), (11, 21), (13, 25)])
RADII = column("radius", 3, 4, 6, 8, 10)
SHARES = column("share", 0.3, 0.4, 0.5, 0.6, 0.7)
ORDER = ("trimmed", "order", "pairs")

# As printed in MLVP, Tab. 37, and as released.
MLVP: dict[str, tuple[str, Table]] = {
    "gaussian_noise": ("low", column("sigma", *SIGMAS)),
    "impulse_noise": ("low", column("amount", *AMOUNTS)),
    "fog": ("low", FOG),
    "snow": ("low", SNOW),
    "elastic_distortion": ("low", ELASTIC),
    "h264_compression": ("low", beside(BITRATES, pix_fmt="yuv444p")),
    "motion_blur": ("mid", beside(LENGTHS, still="high")),
    "video_defocus": ("mid", beside(RADII, still="high")),
    "main_object_occlusion": ("mid", column("ratio", 0.3, 0.425, 0.55, 0.675, 0.8)),
    "style_transfer": ("high", column("alpha", 0.2, 0.4, 0.6, 0.8, 1.0)),
    "event_insertion": ("high", beside(SHARES, donors=2000)),
    "temporal_scrambling": (
        "high",
        (
            ORDER,
            [(0.6, "adjacent", 1), (0.7, "pairs", 2), (0.8, "pairs", 3), (0.9, "pairs", 4), (0.95, "shuffled", 0)],
        ),
    ),
}
# Where the text differs.
MLVP_PAPER: dict[str, Table] = {
    "h264_compression": beside(BITRATES, pix_fmt="yuv420p"),
    "motion_blur": beside(LENGTHS, still="low"),
    "video_defocus": beside(RADII, still="low"),
    "main_object_occlusion": column("ratio", 0.3, 0.4, 0.5, 0.6, 0.8),
    "event_insertion": beside(SHARES, place="middle", donors=3000),
    "temporal_scrambling": (
        ORDER,
        [(0.4, "adjacent", 1), (0.3, "pairs", 2), (0.2, "pairs", 3), (0.1, "pairs", 4), (0.05, "shuffled", 0)],
    ),
}
# As released, in the order of the paper's categories.
MSRVTT_P: dict[str, tuple[str, Table]] = {
    "gaussian_noise": ("noise", column("sigma", *SIGMAS)),
    "impulse_noise": ("noise", column("amount", *AMOUNTS)),
    "shot_noise": ("noise", (("model", "strength"), [("poisson", rate) for rate in (250, 100, 50, 30, 15)])),
    "speckle_noise": ("noise", column("scale", 0.15, 0.2, 0.25, 0.3, 0.35)),
    "motion_blur": ("blur", MOTION),
    "defocus_blur": ("blur", DEFOCUS),
    "zoom_blur": ("blur", (("stop", "step"), [(1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)])),
    "static_rotate": ("camera", column("degrees", 7.5, 15, 30, 45, 90)),
    "rotate": ("camera", column("most_degrees", 6, 12, 18, 24, 30)),
    "translate": ("camera", (("reach", "window"), [(8 * step, "lost") for step in range(1, 6)])),
    "jpeg": ("digital", column("quality", *QUALITIES)),
    "mpeg1": ("digital", (MPEG, [("mpeg2video", q, min(q, 31)) for q in (20, 40, 60, 80, 100)])),
    "mpeg2": ("digital", (MPEG, [("mpeg4", q, min(q, 31)) for q in (15, 30, 45, 60, 75)])),
    "jumble": ("temporal", column("length", 4, 8, 16, 32, 64)),
    "box_jumble": ("temporal", column("length", 2, 4, 8, 16, 32)),
    "sampling": ("temporal", column("rate", *RATES)),
    "reverse_sampling": ("temporal", column("rate", *RATES)),
    "freeze": (
        "temporal",
        (
            ("kept", "least", "opening"),
            [(0.4, 0, "lost"), (0.2, 0, "lost"), (0.1, 0, "lost"), (0.05, 2, "lost"), (0.1, 1, "lost")],
        ),
    ),
}
# Where the text differs.
MSRVTT_P_PAPER: dict[str, Table] = {
    "shot_noise": (("model", "strength"), [("salt_and_pepper", amount) for amount in AMOUNTS]),
    "rotate": column("most_degrees", 7, 13, 19, 25, 31),
    "translate": column("reach", 8, 16, 24, 32, 40),
    "jumble": column("length", 32, 16, 8, 4, 2),
    "box_jumble": column("length", 4, 9, 16, 25, 36),
    "freeze": column("kept", 0.4, 0.2, 0.1, 0.05, 0.025),
}
MM_ROBUSTNESS: dict[str, tuple[str, Table]] = {
    "gaussian_noise": ("noise", column("sigma", *SIGMAS)),
    "shot_noise": ("noise", column("rate", 60, 25, 12, 5, 3)),
    "impulse_noise": ("noise", column("amount", *AMOUNTS)),
    "speckle_noise": ("noise", column("scale", 0.15, 0.2, 0.35, 0.45, 0.6)),
    "defocus_blur": ("blur", DEFOCUS),
    "glass_blur": (
        "blur",
        (("sigma", "delta", "iterations"), [(0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)]),
    ),
    "motion_blur": ("blur", MOTION),
    "zoom_blur": ("blur", (("stop", "step"), [(1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.33, 0.03)])),
    "snow": ("weather", SNOW),
    "frost": ("weather", (("kept", "added"), [(1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)])),
    "fog": ("weather", FOG),
    "brightness": ("weather", column("added", 0.1, 0.2, 0.3, 0.4, 0.5)),
    "contrast": ("digital", column("factor", 0.4, 0.3, 0.2, 0.1, 0.05)),
    "elastic_transform": ("digital", ELASTIC),
    "pixelate": ("digital", column("scale", 0.6, 0.5, 0.4, 0.3, 0.25)),
    "jpeg_compression": ("digital", column("quality", *QUALITIES)),
    "stylize": ("stylize", column("alpha", 0.2, 0.4, 0.6, 0.8, 1.0)),
}
SUITES = {"mlvp": MLVP, "msrvtt_p": MSRVTT_P, "mm_robustness": MM_ROBUSTNESS}
OF_TEXT = {"mlvp": MLVP_PAPER, "msrvtt_p": MSRVTT_P_PAPER, "mm_robustness": {}}
CASES = [(suite, name, variant) for suite in SUITES for name in SUITES[suite] for variant in ("released", "paper")]


@pytest.mark.parametrize("suite", SUITES)
def test_the_suite_holds_the_papers_perturbations(suite: str) -> None:
    entries = registry.perturbations(suite, kind="video")
    assert {entry.name: entry.category for entry in entries} == {name: row[0] for name, row in SUITES[suite].items()}
    if suite == "mlvp":
        assert [entry.name for entry in entries] == list(MLVP)


def test_as_many_scenarios_as_the_papers_count_and_only_these_differ_from_the_text() -> None:
    count = {
        suite: sum(len(entry.by_severity) for entry in registry.perturbations(suite, kind="video")) for suite in SUITES
    }
    assert count == {"mlvp": 60, "msrvtt_p": 90, "mm_robustness": 85}
    for suite in SUITES:
        differing = {entry.name for entry in registry.perturbations(suite, "video") if "paper" in entry.others}
        # Other kernels, with the same numbers.
        kernels = {"mlvp": {"snow"}, "msrvtt_p": {"jpeg", "sampling", "reverse_sampling"}}
        assert differing == {*OF_TEXT[suite], *kernels.get(suite, ())}
    freeze = registry.get("msrvtt_p/freeze")
    assert freeze.parameters(5)["kept"] == freeze.parameters(3)["kept"]
    assert "mistake" in freeze.differences


@each(("suite", "name", "variant"), CASES)
def test_the_parameters_are_the_published_ones(suite: str, name: str, variant: str) -> None:
    names, rows = SUITES[suite][name][1]
    if variant == "paper":
        names, rows = OF_TEXT[suite].get(name, (names, rows))
    if (suite, name, variant) == ("mm_robustness", "fog", "released"):
        names, rows = (*names, "side"), [(*row, 1024) for row in rows]
    entry = registry.get(f"{suite}/{name}")
    assert entry.severities == (1, 2, 3, 4, 5)
    for severity, values in enumerate(rows, start=1):
        parameters = entry.in_variant(variant).parameters(severity)
        assert list(parameters) == list(names)
        for ours, published in zip(parameters.values(), values, strict=True):
            assert ours == (published if isinstance(published, str) else pytest.approx(published, rel=1e-12))


def test_the_papers_five_levels_of_text_are_the_codes_severities_3_to_7() -> None:
    for entry in registry.perturbations():
        if (entry.suite, entry.category) in (("mm_robustness", "character"), ("mm_robustness", "word")):
            ratios = [entry.parameters(severity)["ratio"] for severity in entry.paper_severities]
            assert ratios == pytest.approx([0.15, 0.2, 0.25, 0.3, 0.35]), entry.key
            assert entry.levels_of_paper == "severities 3 to 7 are the paper's levels 1 to 5"
        else:
            assert entry.paper_severities == entry.severities, entry.key
            assert not entry.levels_of_paper


def test_what_is_drawn_how_often_and_known_of_severity() -> None:
    drawn = {entry.name: entry.draw for entry in registry.perturbations("msrvtt_p", "video") if entry.draw != "none"}
    noise = ("gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise")
    assert {name for name, draw in drawn.items() if draw == "frame"} == {*noise, "motion_blur", "rotate", "translate"}
    assert {name for name, draw in drawn.items() if draw == "clip"} == {"jumble", "box_jumble", "freeze"}
    assert {entry.draw for entry in registry.perturbations("mm_robustness", "video")} == {"clip", "none"}
    flat = {entry.key for entry in registry.perturbations(kind="video") if not entry.monotonic}
    of_msrvtt_p = {"static_rotate", "translate", "mpeg1", "mpeg2", "box_jumble", "reverse_sampling", "freeze"}
    of_mm = {"snow", "fog", "elastic_transform", "glass_blur", "frost"}
    of_mlvp = {"elastic_distortion", "fog", "snow", "event_insertion", "temporal_scrambling"}
    known = {"mlvp": of_mlvp, "msrvtt_p": of_msrvtt_p, "mm_robustness": of_mm}
    # Real clips showed of these that a step may make less of a difference.
    known["transmission"] = {"bit_error", "packet_loss", "frame_rate"}
    known["tampering"] = {"repeat", "drop", "reverse"}
    assert flat == {f"{suite}/{name}" for suite, names in known.items() for name in names}


def test_the_ranges_of_zoom_blur() -> None:
    """Two of them reach their end, because of how numpy's arange rounds; those made the published numbers."""
    lengths = {
        entry.key: [len(np.arange(1, parameters["stop"], parameters["step"])) for parameters in entry.by_severity]
        for entry in map(registry.get, ("msrvtt_p/zoom_blur", "mm_robustness/zoom_blur"))
    }
    assert lengths == {"msrvtt_p/zoom_blur": [12, 16, 11, 13, 11], "mm_robustness/zoom_blur": [12, 16, 11, 13, 12]}


PLAYED = {"pix_fmt": "yuv420p", "qmax": "31", "fps_mode": "cfr", "strict": "experimental"}


@pytest.mark.parametrize(
    ("key", "published"),
    [
        ("msrvtt_p/mpeg1", {"vcodec": "mpeg2video", "q:v": "80", **PLAYED}),
        ("msrvtt_p/mpeg2", {"vcodec": "mpeg4", "q:v": "60", **PLAYED}),
        (
            "mlvp/h264_compression",
            {
                **{"vcodec": "libx264", "preset": "fast", "b:v": "50000", "pix_fmt": "yuv444p"},
                "x264-params": "cpu-independent=1",
            },
        ),
    ],
)
def test_the_encoder_gets_what_was_published(key: str, published: dict[str, str]) -> None:
    entry = registry.get(key)
    arguments = entry.kernel(**entry.parameters(4))
    command = ffmpeg.output(ffmpeg.input("in.mp4"), "out.mp4", **arguments).get_args()
    options = dict(zip(command[2:-1:2], command[3:-1:2], strict=True))
    assert options == {f"-{name}": value for name, value in published.items()} | {"-threads": "1"}
