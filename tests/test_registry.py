"""The published numbers, the look-up, and which way imports point."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from looping import each

import perturbations
from perturbations.base.errors import UnknownPerturbationError
from perturbations.suites import registry
from perturbations.suites.registry import Perturbation

PACKAGE = Path(perturbations.__file__).parent
ENTRIES = registry.perturbations()
FORMS = [form for entry in ENTRIES for form in entry.forms()]


def test_keys_are_unique_and_variants_differ_where_a_reason_is_given() -> None:
    assert len({entry.key for entry in ENTRIES}) == len(ENTRIES)
    assert all(registry.get(entry.key) is entry for entry in ENTRIES)
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
    assert registry.get(entry.key, entry.variant) == entry


def test_an_unknown_name_brings_the_nearest_and_no_severity_or_variant_is_made_up() -> None:
    with pytest.raises(UnknownPerturbationError, match=r"'mlvp/gausian_noise'.*mlvp/gaussian_noise"):
        registry.get("mlvp/gausian_noise")
    with pytest.raises(UnknownPerturbationError, match=r"no suite 'mlpv'; known: .*mlvp"):
        registry.suite("mlpv")
    for severity in (0, 6, -1):
        with pytest.raises(UnknownPerturbationError, match=rf"mlvp/fog has no severity {severity}; .*1, 2, 3, 4, 5"):
            registry.get("mlvp/fog").parameters(severity)
    with pytest.raises(UnknownPerturbationError, match=r"no variant 'printed'.*released.*paper"):
        registry.get("mlvp/fog").in_variant("printed")


def test_entries_by_suite_and_kind() -> None:
    assert registry.perturbations() == [entry for name in registry.suites() for entry in registry.perturbations(name)]
    assert all(entry.kind == "video" for entry in registry.perturbations(kind="video"))
    assert all(entry.suite == name for name in registry.suites() for entry in registry.perturbations(name))
