"""The published numbers, the look-up, and which way imports point."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import ffmpeg
import pytest

import perturbations
from perturbations.base.errors import UnknownPerturbationError
from perturbations.suites import registry
from perturbations.suites.registry import Perturbation

PACKAGE = Path(perturbations.__file__).parent
ENTRIES = registry.perturbations()
KEYS = [entry.key for entry in ENTRIES]
FORMS = [form for entry in ENTRIES for form in entry.forms()]
FORM_KEYS = [f"{form.key}-{form.variant}" for form in FORMS]

SNOW = ("loc", "scale", "zoom", "threshold", "radius", "sigma", "blend")

# As printed in MLVP, Tab. 37; elastic distortion multiplied out.
MLVP = {
    "gaussian_noise": (("sigma",), [(0.08,), (0.12,), (0.18,), (0.26,), (0.38,)]),
    "impulse_noise": (("amount",), [(0.03,), (0.06,), (0.09,), (0.17,), (0.27,)]),
    "fog": (("intensity", "decay"), [(1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)]),
    "snow": (
        SNOW,
        [
            (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
            (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
            (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
        ],
    ),
    "elastic_distortion": (
        ("alpha", "sigma", "affine"),
        [
            (488, 170.8, 24.4),
            (488, 19.52, 48.8),
            (12.2, 2.44, 4.88),
            (17.08, 2.44, 4.88),
            (29.28, 2.44, 4.88),
        ],
    ),
    "h264_compression": (("bitrate",), [(500_000,), (250_000,), (100_000,), (50_000,), (25_000,)]),
    "motion_blur": (("low", "high"), [(5, 9), (7, 13), (9, 17), (11, 21), (13, 25)]),
    "video_defocus": (("radius",), [(3,), (4,), (6,), (8,), (10,)]),
    "main_object_occlusion": (("ratio",), [(0.3,), (0.425,), (0.55,), (0.675,), (0.8,)]),
    "style_transfer": (("alpha",), [(0.2,), (0.4,), (0.6,), (0.8,), (1.0,)]),
    "event_insertion": (("share",), [(0.3,), (0.4,), (0.5,), (0.6,), (0.7,)]),
    "temporal_scrambling": (
        ("trimmed", "order", "pairs"),
        [(0.6, "adjacent", 1), (0.7, "pairs", 2), (0.8, "pairs", 3), (0.9, "pairs", 4), (0.95, "shuffled", 0)],
    ),
}

# Where the text differs from the released code, and what the variants have beside the table's numbers.
PAPER = {
    "main_object_occlusion": [(0.3,), (0.4,), (0.5,), (0.6,), (0.8,)],
    "temporal_scrambling": [
        (0.4, "adjacent", 1),
        (0.3, "pairs", 2),
        (0.2, "pairs", 3),
        (0.1, "pairs", 4),
        (0.05, "shuffled", 0),
    ],
}
VARIANTS = {
    "h264_compression": {"released": {"pix_fmt": "yuv444p"}, "paper": {"pix_fmt": "yuv420p"}},
    "motion_blur": {"released": {"still": "high"}, "paper": {"still": "low"}},
    "video_defocus": {"released": {"still": "high"}, "paper": {"still": "low"}},
    "event_insertion": {
        "released": {"donors": 2000},
        "paper": {"place": "middle", "donors": 3000},
    },
}
LEVELS = ["low"] * 6 + ["mid"] * 3 + ["high"] * 3


# --- tables ----------------------------------------------------------------------------------------------------------


def test_mlvp_holds_twelve_in_the_papers_order() -> None:
    assert [entry.name for entry in registry.perturbations("mlvp")] == list(MLVP)
    assert [entry.level for entry in registry.perturbations("mlvp")] == LEVELS


@pytest.mark.parametrize("variant", ["released", "paper"])
@pytest.mark.parametrize("name", MLVP)
def test_mlvp_parameters_are_the_published_ones(name: str, variant: str) -> None:
    names, table = MLVP[name]
    table = PAPER.get(name, table) if variant == "paper" else table
    entry = registry.get(f"mlvp/{name}")
    assert entry.severities == (1, 2, 3, 4, 5)
    for severity, values in enumerate(table, start=1):
        expected = {**dict(zip(names, values, strict=True)), **VARIANTS.get(name, {}).get(variant, {})}
        parameters = entry.in_variant(variant).parameters(severity)
        assert list(parameters) == list(expected)
        for key, value in expected.items():
            assert parameters[key] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-12))


def test_what_is_known_of_severity() -> None:
    """These need not grow on every clip: elastic's table is inverted, fog's is flat, snow's has a plateau."""
    known = {entry.name for entry in registry.perturbations("mlvp") if not entry.monotonic}
    assert known == {"elastic_distortion", "fog", "snow", "event_insertion", "temporal_scrambling"}


def test_the_variants_differ_only_where_a_reason_is_given() -> None:
    for entry in ENTRIES:
        assert bool(entry.others) == any(form.differences for form in entry.forms()), entry.key
        assert not entry.in_variant("paper").differences, entry.key


# --- declarations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", FORMS, ids=FORM_KEYS)
def test_a_declaration_fits_its_functions(entry: Perturbation) -> None:
    kernel = inspect.signature(registry.resolve(entry.kernel)).parameters
    named = {name for name, parameter in kernel.items() if parameter.kind is parameter.KEYWORD_ONLY}
    assert all(parameter.default is parameter.empty for parameter in kernel.values())
    for severity in entry.severities:
        assert {*entry.parameters(severity), *entry.roles} == named
    if entry.method == "text":
        return  # tests/test_text_kernels.py
    if entry.method == "codec":
        assert (entry.realization is None) == (entry.damage is None) == (entry.draw == "none")
        assert entry.guide is None
        assert named == set(kernel)
        return
    # The realization first, then the guide, if there is one.
    size = ["num_frames", "height", "width"] if entry.method == "pixel" else ["num_frames"]
    assert [name for name in kernel if name not in named][1 + (entry.guide is not None) :] == size
    if entry.realization is None:
        assert entry.draw == "none" or entry.guide == "style"
        return
    # Without the parameters: that is what makes the severities share a realization.
    drawn = inspect.signature(registry.resolve(entry.realization)).parameters
    assert list(drawn) == ["rng", "num_frames", "height", "width"]


@pytest.mark.parametrize("entry", FORMS, ids=FORM_KEYS)
def test_parameters_are_plain_data(entry: Perturbation) -> None:
    for severity in entry.severities:
        parameters = entry.parameters(severity)
        assert json.loads(json.dumps(parameters)) == parameters
        parameters["other"] = 1
        assert entry.parameters(severity) != parameters  # a copy was given


@pytest.mark.parametrize("entry", ENTRIES, ids=KEYS)
def test_a_declaration_says_where_it_comes_from(entry: Perturbation) -> None:
    assert entry.source
    assert entry.summary
    assert "\n" not in entry.summary
    assert entry.version >= 1
    assert registry.get(entry.key) is entry


def test_keys_are_unique() -> None:
    assert len(set(KEYS)) == len(KEYS)


def test_the_encoder_gets_what_the_algorithm_says() -> None:
    entry = registry.get("mlvp/h264_compression")
    arguments = registry.resolve(entry.kernel)(**entry.parameters(4))
    command = ffmpeg.output(ffmpeg.input("in.mp4"), "out.mp4", **arguments).get_args()
    options = dict(zip(command[2:-1:2], command[3:-1:2], strict=True))
    assert options == {
        "-vcodec": "libx264",
        "-preset": "fast",
        "-b:v": "50000",
        "-pix_fmt": "yuv444p",
        "-threads": "1",
        "-x264-params": "cpu-independent=1",
    }


# --- look-up ---------------------------------------------------------------------------------------------------------


def test_an_unknown_name_brings_the_nearest() -> None:
    with pytest.raises(UnknownPerturbationError, match=r"'mlvp/gausian_noise'.*mlvp/gaussian_noise"):
        registry.get("mlvp/gausian_noise")
    with pytest.raises(UnknownPerturbationError, match=r"no suite 'mlpv'; known: .*mlvp"):
        registry.suite("mlpv")


@pytest.mark.parametrize("severity", [0, 6, -1])
def test_an_unknown_severity_is_refused(severity: int) -> None:
    with pytest.raises(UnknownPerturbationError, match=rf"mlvp/fog has no severity {severity}; .*1, 2, 3, 4, 5"):
        registry.get("mlvp/fog").parameters(severity)


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(UnknownPerturbationError, match=r"no variant 'printed'.*released.*paper"):
        registry.get("mlvp/fog").in_variant("printed")


def test_entries_by_suite_and_kind() -> None:
    assert registry.perturbations() == [entry for name in registry.suites() for entry in registry.perturbations(name)]
    assert all(entry.kind == "video" for entry in registry.perturbations(kind="video"))
    assert all(entry.suite == name for name in registry.suites() for entry in registry.perturbations(name))


# --- start-up --------------------------------------------------------------------------------------------------------


def test_listing_the_suites_is_light() -> None:
    """Snakemake and `perturb --help` do it on every start."""
    script = (
        "import sys\n"
        "from perturbations.suites import registry\n"
        "assert registry.perturbations()\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    heavy = {
        "textblob",
        "nltk",
        "transformers",
        "numpy",
        "cv2",
        "pandas",
        "pyarrow",
        "torch",
        "scipy",
        "av",
        "pydantic",
        "snakemake",
    }
    assert not heavy & set(loaded.stdout.split())
    assert "perturbations" in loaded.stdout
