"""The published numbers, the look-up, and which way imports point."""

from __future__ import annotations

import csv
import inspect
import json
from pathlib import Path
from typing import get_args, get_type_hints

import ffmpeg
import numpy as np
import pytest
from copies import ROOT
from looping import each

import perturbations
from perturbations.base.errors import UnknownPerturbationError
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import Perturbation

PACKAGE = Path(perturbations.__file__).parent
ENTRIES = suite_registry.perturbations()
FORMS = [form for entry in ENTRIES for form in entry.forms()]


def test_keys_are_unique_and_variants_differ_where_a_reason_is_given() -> None:
    assert len({entry.key for entry in ENTRIES}) == len(ENTRIES)
    assert all(suite_registry.get(entry.key) is entry for entry in ENTRIES)
    for entry in ENTRIES:
        assert bool(entry.others) == any(form.differences for form in entry.forms()), entry.key
        # The text of `tampering` is no paper's: its default says how MVTamperBench's differs.
        assert entry.suite == "tampering" or not entry.in_variant("paper").differences, entry.key


each_form = each("entry", FORMS)


@each_form
def test_a_declaration_fits_its_functions(entry: Perturbation) -> None:
    function = entry.kernel
    kernel = dict(inspect.signature(function).parameters)
    fixed = [name for name, parameter in kernel.items() if parameter.default is not parameter.empty]
    assert all(isinstance(kernel.pop(name).default, bool) for name in fixed)
    named = {name for name, parameter in kernel.items() if parameter.kind is parameter.KEYWORD_ONLY}
    if kernel.pop("flakes", None):
        (flakes,) = get_args(get_type_hints(function)["flakes"])
        named |= flakes.__required_keys__
    for severity in entry.severities:
        assert {*entry.parameters(severity), *entry.roles} == named
    if entry.method == "text":
        assert [name for name in kernel if name not in named] == ["text", "rng"]
        return
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
    drawn = inspect.signature(entry.realization).parameters
    assert list(drawn) == ["rng", "num_frames", "height", "width"]


@each_form
def test_a_declaration_is_plain_data_and_says_where_it_comes_from(entry: Perturbation) -> None:
    for severity in entry.severities:
        parameters = entry.parameters(severity)
        assert json.loads(json.dumps(parameters)) == parameters
        parameters["other"] = 1
        assert entry.parameters(severity) != parameters  # a copy was given
    assert entry.source
    assert entry.summary
    assert "\n" not in entry.summary
    assert entry.version >= 1
    assert suite_registry.get(entry.key, entry.variant) == entry


def test_an_unknown_name_brings_the_nearest_and_no_severity_or_variant_is_made_up() -> None:
    with pytest.raises(UnknownPerturbationError, match=r"'mlvp/gausian_noise'.*mlvp/gaussian_noise"):
        suite_registry.get("mlvp/gausian_noise")
    for name, meant in (("fogg", "mlvp/fog or mm_robustness/fog"), ("mlpv", "mlvp"), ("ocrr", "mm_robustness/ocr")):
        with pytest.raises(UnknownPerturbationError, match=rf"no perturbation '{name}'; did you mean {meant}.*\?"):
            suite_registry.get(name)
    with pytest.raises(UnknownPerturbationError, match=r"no suite 'mlpv'; known: .*mlvp"):
        suite_registry.suite("mlpv")
    for severity in (0, 6, -1):
        with pytest.raises(UnknownPerturbationError, match=rf"mlvp/fog has no severity {severity}; .*1, 2, 3, 4, 5"):
            suite_registry.get("mlvp/fog").parameters(severity)
    with pytest.raises(UnknownPerturbationError, match=r"no variant 'printed'.*released.*paper"):
        suite_registry.get("mlvp/fog").in_variant("printed")


def test_entries_by_suite_and_kind() -> None:
    assert suite_registry.perturbations() == [
        entry for name in suite_registry.suites() for entry in suite_registry.perturbations(name)
    ]
    assert all(entry.kind == "video" for entry in suite_registry.perturbations(kind="video"))
    assert all(entry.suite == name for name in suite_registry.suites() for entry in suite_registry.perturbations(name))


# --- the tables of MLVP, MSRVTT-P and MM-Robustness, and what is drawn how often --------------------------------------


# As released, and as printed where that differs (MLVP, Tab. 37): a line per parameter, a column per severity.
with (ROOT / "tests" / "golden/parameters.csv").open(encoding="utf-8", newline="") as file:
    PUBLISHED = list(csv.DictReader(file))
SUITES = list(dict.fromkeys(line["suite"] for line in PUBLISHED))
CASES = [
    (entry.suite, entry.name, variant)
    for suite in SUITES
    for entry in suite_registry.perturbations(suite, kind="video")
    for variant in ("released", "paper")
]


@pytest.mark.parametrize("suite", SUITES)
def test_the_suite_holds_the_papers_perturbations(suite: str) -> None:
    entries = suite_registry.perturbations(suite, kind="video")
    lines = [line for line in PUBLISHED if line["suite"] == suite]
    assert {entry.name: entry.category for entry in entries} == {
        line["perturbation"]: line["category"] for line in lines
    }
    if suite == "mlvp":
        assert [entry.name for entry in entries] == list(dict.fromkeys(line["perturbation"] for line in lines))


def test_as_many_scenarios_as_the_papers_count_and_only_these_differ_from_the_text() -> None:
    count = {
        suite: sum(len(entry.by_severity) for entry in suite_registry.perturbations(suite, kind="video"))
        for suite in SUITES
    }
    assert count == {"mlvp": 60, "msrvtt_p": 90, "mm_robustness": 85}
    for suite in SUITES:
        differing = {entry.name for entry in suite_registry.perturbations(suite, "video") if "paper" in entry.others}
        # Other kernels, with the same numbers.
        kernels = {"mlvp": {"snow"}, "msrvtt_p": {"jpeg", "sampling", "reverse_sampling"}}
        numbers = {line["perturbation"] for line in PUBLISHED if (line["suite"], line["variant"]) == (suite, "paper")}
        # MM-Robustness's own form is the paper's.
        assert differing == (set() if suite == "mm_robustness" else numbers | kernels[suite])
    freeze = suite_registry.get("msrvtt_p/freeze")
    assert freeze.parameters(5)["kept"] == freeze.parameters(3)["kept"]
    assert "mistake" in freeze.differences


@each(("suite", "name", "variant"), CASES)
def test_the_parameters_are_the_published_ones(suite: str, name: str, variant: str) -> None:
    lines = {
        line["parameter"]: line
        for line in PUBLISHED
        if (line["suite"], line["perturbation"]) == (suite, name) and line["variant"] in ("both", variant)
    }
    entry = suite_registry.get(f"{suite}/{name}")
    assert entry.severities == (1, 2, 3, 4, 5)
    for severity in entry.severities:
        parameters = entry.in_variant(variant).parameters(severity)
        assert list(parameters) == list(lines)
        for parameter, ours in parameters.items():
            printed = lines[parameter][str(severity)]
            assert ours == (printed if isinstance(ours, str) else pytest.approx(float(printed), rel=1e-12))


def test_of_which_perturbations_a_severity_may_distort_less() -> None:
    flat = {entry.key for entry in suite_registry.perturbations(kind="video") if not entry.monotonic}
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
        for entry in map(suite_registry.get, ("msrvtt_p/zoom_blur", "mm_robustness/zoom_blur"))
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
    entry = suite_registry.get(key)
    arguments = entry.kernel(**entry.parameters(4))
    command = ffmpeg.output(ffmpeg.input("in.mp4"), "out.mp4", **arguments).get_args()
    options = dict(zip(command[2:-1:2], command[3:-1:2], strict=True))
    assert options == {f"-{name}": value for name, value in published.items()} | {"-threads": "1"}
