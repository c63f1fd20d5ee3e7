"""What a corpus may be compared with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perturbations import captions, recipe, registry
from perturbations.report import card

NUMBERS = "published numbers: "


def video(key: str, severity: int = 3, variant: str = "released", **more: Any) -> dict[str, Any]:
    entry = registry.get(key)
    made = recipe.make(entry, severity, variant=variant, seed=0, storage={"tier": "recipe"}, **more)
    return {**made, "params": recipe.canonical(made["params"]), "backend": "{}"}


def text(key: str, backend: str = "offline", **more: Any) -> dict[str, Any]:
    made = captions.make(registry.get(key), 1, backend=backend, **more)
    return {**made, "params": recipe.canonical(made["params"]), "recipe": recipe.canonical(made)}


@pytest.mark.parametrize("variant", registry.VARIANTS)
def test_every_published_row_compares(variant: str) -> None:
    rows = [
        video(one.key, severity, variant) for one in registry.perturbations(kind="video") for severity in one.severities
    ]
    assert card.comparability(rows) == f"comparable with {NUMBERS}no stand-in for a model was used"


def test_stand_ins_calibrated_severities_and_own_parameters_do_not() -> None:
    frost = {**video("mm_robustness/frost"), "backend": json.dumps({"frost": {"backend": "offline"}})}
    calibrated = {**video("mlvp/fog"), "variant": "calibrated"}
    own = video("mlvp/gaussian_noise", replaced={"sigma": 0.5})
    same = video("mlvp/gaussian_noise", replaced=registry.get("mlvp/gaussian_noise").parameters(3))
    said = "not comparable with published numbers: "
    assert card.comparability([frost, same]) == f"{said}offline backends made frost (frost)"
    assert card.comparability([calibrated]) == f"{said}severities are calibrated"
    assert card.comparability([own, same]) == f"{said}parameters are not the published ones: gaussian_noise"
    assert card.comparability([calibrated, frost, own]) == (
        f"{said}offline backends made frost (frost); severities are calibrated; "
        "parameters are not the published ones: gaussian_noise"
    )


def test_captions_count_too() -> None:
    assert card.comparability([], [text("msrvtt_p/keyboard")]).startswith("comparable")
    assert card.comparability([], [text("mm_robustness/synonym_replace", "pretrained")]).startswith("comparable")
    said = card.comparability([video("mlvp/fog")], [text("msrvtt_p/back_trans"), text("mm_robustness/synonym_replace")])
    assert said == (
        f"not comparable with {NUMBERS}offline backends made back_trans (translator), synonym_replace (similarity)"
    )
