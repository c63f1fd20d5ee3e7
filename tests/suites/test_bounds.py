"""Every parameter has bounds: what is published lies within, kernels compute at both ends, and all else is refused."""

from __future__ import annotations

import itertools
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pytest
from kernel_scenes import GUIDES, drawn, perturbed_size, scene
from looping import each
from text_support import role

from perturbations.base import bounds
from perturbations.base.bounds import Bound, Choice, Range, Several
from perturbations.base.errors import ConfigError, MediaError, cut, short
from perturbations.config import file as config_file
from perturbations.media import damaged_streams, decoding, encoding, profiles
from perturbations.media.clip import Frame, MediaClip, Timing
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import Perturbation

ENTRIES = [form for entry in suite_registry.perturbations() for form in entry.forms()]
VISUAL = [entry for entry in ENTRIES if entry.kind == "video"]
PARAMETERS = [(entry, name) for entry in ENTRIES for name in entry.bounds]


def name_of(entry: Perturbation) -> str:
    return f"{entry.key}-{entry.variant}"


def each_of(method: str) -> pytest.MarkDecorator:
    """One form per kernel and its bounds, which several suites may share."""
    forms = {(entry.kernel, str(entry.bounds)): entry for entry in VISUAL if entry.method == method}
    return pytest.mark.parametrize("entry", [*forms.values()], ids=name_of)


def ends(bound: Bound) -> list[Any]:
    """The most extreme values that a bound allows."""
    if isinstance(bound, Range):
        return [math.nextafter(bound.low, math.inf) if bound.above else bound.low, bound.high]
    if isinstance(bound, Choice):
        return list(bound.values)
    return [list(itertools.islice(itertools.cycle(ends(bound.of)), count)) for count in (1, bound.most)]


def extremes(entry: Perturbation) -> list[dict[str, Any]]:
    """Parameter sets of a published severity with one value put to an end of its bounds, where that is allowed."""
    candidates = [
        {**entry.parameters(severity), name: end}
        for severity in {entry.severities[0], entry.severities[-1]}
        for name, bound in entry.bounds.items()
        for end in ends(bound)
    ]
    return [parameters for parameters in candidates if not suite_registry.parameter_problems(entry, parameters)]


# --- what is within --------------------------------------------------------------------------------------------------


@each("entry", ENTRIES)
def test_what_is_published_lies_within_the_bounds_of_every_parameter(entry: Perturbation) -> None:
    for severity in entry.severities:
        assert suite_registry.parameter_problems(entry, entry.parameters(severity)) == []


def test_whole_numbers_and_switches_are_what_is_published() -> None:
    for entry, name in PARAMETERS:
        bound = entry.bounds[name]
        forms = [form for form in entry.forms() if form.bounds.get(name) == bound]
        values = [parameters[name] for form in forms for parameters in form.by_severity]
        if isinstance(bound, Range):
            assert bound.whole == all(isinstance(value, int) for value in values), (entry.key, name)
            assert bound.low < bound.high < sys.maxsize, (entry.key, name)
    for entry, name in PARAMETERS:
        switch = isinstance(entry.bounds[name], Choice) and True in entry.bounds[name].values
        for value in (True, False):
            assert bool(suite_registry.parameter_problems(entry, {**entry.parameters(1), name: value})) != switch, (
                entry.key
            )
        for value in (0, 1, 1.0) if switch else ():
            assert suite_registry.parameter_problems(entry, {**entry.parameters(1), name: value}), entry.key


@each("size", [(1, 1), (36, 50)])
@each_of("pixel")
@pytest.mark.filterwarnings("error")
def test_pixel_kernels_compute_at_both_ends(entry: Perturbation, size: tuple[int, int]) -> None:
    frames = scene(2, *size)
    guide = () if entry.guide is None else (GUIDES[entry.guide](*frames.shape[:3]),)
    kernel = entry.kernel
    cases = extremes(entry)
    assert len(cases) >= 2
    for parameters in cases:
        draw = drawn(entry, *frames.shape[:3])
        result = kernel(draw, *guide, *frames.shape[:3], **parameters)(frames[0], 0)
        expected = perturbed_size(entry, draw, frames.shape, **parameters)
        assert (result.shape, result.dtype) == (expected, np.uint8), parameters


@each("num_frames", [1, 2, 13, 300])
@each_of("temporal")
def test_temporal_kernels_compute_at_both_ends(entry: Perturbation, num_frames: int) -> None:
    guide = () if entry.guide is None else (GUIDES[entry.guide](num_frames, 4, 4),)
    for parameters in extremes(entry):
        draw = drawn(entry, num_frames, 4, 4)
        for kernel in filter(None, (entry.kernel, entry.sampled)):
            if parameters.get("least", 0) > num_frames:
                with pytest.raises(MediaError):
                    kernel(draw, *guide, num_frames, **parameters)
                continue
            plan = kernel(draw, *guide, num_frames, **parameters)
            assert len(plan) or parameters["opening"] == "lost"
            assert all(plan < num_frames)


@each_of("codec")
def test_encoders_accept_both_ends(entry: Perturbation, tmp_path: Path) -> None:
    clean = tmp_path / "clean.mp4"
    rate = Fraction(25)
    pictures = (Frame(frame, index, index) for index, frame in enumerate(scene(6, 48, 64)))
    encoding.encode(pictures, clean, profiles.PROFILES["lossless"], Timing(1 / rate, rate))
    for number, parameters in enumerate(extremes(entry)):
        arguments = entry.kernel(**parameters)
        if damage := arguments.get("bsf"):
            assert len(list(damaged_streams.shown_of_source(clean, [place / 25 for place in range(6)], damage))) == 6
            continue
        given = {name: 9_999 if isinstance(value, Fraction) else value for name, value in arguments.items()}
        assert encoded(clean, tmp_path / f"{number}.mp4", given) == 6, parameters


def encoded(clean: Path, path: Path, arguments: dict[str, Any]) -> int:
    import ffmpeg
    import imageio_ffmpeg

    ffmpeg.input(str(clean)).output(str(path), **arguments).run(cmd=imageio_ffmpeg.get_ffmpeg_exe(), quiet=True)
    return sum(1 for _ in decoding.decode(MediaClip(path)))


CAPTIONS = ("", "a", "A man, who walks his dog; 2 children play!", "word " * 50)


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.kind == "text"], ids=name_of)
def test_text_kernels_compute_at_both_ends(entry: Perturbation) -> None:
    kernel = entry.kernel
    roles = {name: role(name) for name in entry.roles}
    for parameters, text in itertools.product(extremes(entry), CAPTIONS):
        assert isinstance(kernel(text, np.random.default_rng(0), **parameters, **roles), str), parameters


# --- what is not -----------------------------------------------------------------------------------------------------

# No parameter may be -1: a turn of -1 degree is one of 359, and the positions of words, among which -1 is the last, are
# a list.
NEVER: list[Any] = [-1, -1.0, math.nan, math.inf, -math.inf, 2**64, 10**400, 16**5000, "", "x", "1", b"1", None]
NEVER += [[], ["x"], [None], [math.nan], {}, {"a": 1}, object()]


@each("value", NEVER)
def test_no_parameter_takes_it(value: Any) -> None:
    for entry, name in PARAMETERS:
        (problem,) = suite_registry.parameter_problems(entry, {**entry.parameters(1), name: value})
        assert problem == f"{name}: must be {entry.bounds[name]}, not {short(value)}"
        assert len(problem) < 500


def test_the_ends_belong_to_a_range_and_bounds_say_what_they_allow() -> None:
    assert Range(0, 1).allows(0)
    assert Range(0, 1).allows(1.0)
    assert not Range(0, 1).allows(math.nextafter(1, 2))
    assert not Range(0, 1, above=True).allows(0.0)
    assert Range(0, 1, above=True).allows(5e-324)
    assert not Range(0, 1, whole=True).allows(1.0)
    assert bounds.whole(1, 2**80).allows(2**80)
    assert not bounds.whole(1, 2**80).allows(2**80 + 1)
    assert str(Range(0, 1)) == "a number from 0 to 1"
    assert str(Range(0, 1, above=True)) == "a number above 0 and up to 1"
    assert str(bounds.whole(1, 100)) == "a whole number from 1 to 100"
    assert str(Choice(("a", "b"))) == "one of 'a', 'b'"
    assert str(Choice(("a",))) == "'a'"
    assert str(Several(bounds.whole(-1, 1), 3)) == "a list of at most 3, each a whole number from -1 to 1"


def test_exactly_the_declared_names_are_taken() -> None:
    fog = suite_registry.get("mlvp/fog")
    assert suite_registry.parameter_problems(fog, {"intensity": 1, "kernel": "os:system"}) == [
        "kernel: unknown parameter; known: intensity, decay",
        "decay: is missing; it must be a number from 0.1 to 100",
    ]
    assert suite_registry.parameter_problems(suite_registry.get("msrvtt_p/tense"), {}) == [
        "share: is missing; it must be a number from 0 to 1"
    ]


@pytest.mark.parametrize(
    ("key", "parameters", "expected"),
    [
        ("mm_robustness/zoom_blur", {"stop": 2.0, "step": 0.001}, "step: must take at most 255 steps from 1 to `stop`"),
        ("mlvp/motion_blur", {"low": 9, "high": 5, "still": "low"}, "low: must be at most `high`, not 9"),
        ("msrvtt_p/shot_noise", {"model": "salt_and_pepper", "strength": 2.0}, "from 0 to 1 where it is salt_and"),
        ("msrvtt_p/shot_noise", {"model": "poisson", "strength": 0.0}, "from 0.01 to 100000 where `model` is poisson"),
    ],
)
def test_what_parameters_must_fulfil_together(key: str, parameters: dict[str, Any], expected: str) -> None:
    (problem,) = suite_registry.parameter_problems(suite_registry.get(key), parameters)
    assert expected in problem


def configured(parameters: dict[str, dict[str, dict[int, dict[str, Any]]]], captions: bool) -> dict[str, Any]:
    place = (lambda table: {"captions": {"parameters": table}}) if captions else (lambda table: {"parameters": table})
    return {
        "datasets": {"mine": clips.DATASET},
        "suites": {suite: place(table) for suite, table in parameters.items()},
    }


@each("captions", [False, True])
@each("value", [-1, math.nan, math.inf, 2**64, "x", None])
def test_each_is_refused_by_its_key_of_the_file(value: Any, captions: bool) -> None:
    tables: dict[str, Any] = {}
    wanted = {}
    for entry, name in PARAMETERS:
        # The configuration asks for each suite's first variant.
        if (entry.kind == "text") == captions and entry.variant == suite_registry.suite(entry.suite).variants[0]:
            tables.setdefault(entry.suite, {}).setdefault(entry.name, {1: {}})[1][name] = value
            middle = "captions.parameters" if captions else "parameters"
            key = f"suites.{entry.suite}.{middle}.{entry.name}.1.{name}"
            wanted[key] = f"must be {entry.bounds[name]}, not {short(value)}"
    assert len(wanted) >= (47 if captions else 86)
    with pytest.raises(ConfigError) as caught:
        config_file.parse(configured(tables, captions))
    messages = dict(line.strip().split(": ", 1) for line in str(caught.value).split("\n")[1:])
    assert messages == wanted


# --- values in messages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "x" * 3_000_000,
        b"x" * 3_000_000,
        ["x" * 9999] * 9999,
        10**4000,
        16**9999,
        {"a" * 9999: [[[1]]]},
        Path("a" * 9999),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_short_in_messages(value: Any) -> None:
    assert len(short(value)) < 700


def test_short_and_cut_keep_a_message_on_its_line() -> None:
    assert short("a\nb") == "'a\\nb'"
    assert cut("a\nb\x1b[2Jc") == "a\\nb\\x1b[2Jc"
    assert cut("plain 'text' é") == "plain 'text' é"
    assert cut("a" * 500, 10) == "aaaaa...aaaaa"
