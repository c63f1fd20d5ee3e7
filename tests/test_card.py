"""What a corpus may be compared with."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import clips

from perturbations.engine import card
from perturbations.manifest import sets
from perturbations.manifest.kinds import QUARANTINED, TextRow, VideoRow
from perturbations.plan import captions, recipe
from perturbations.suites import registry

NUMBERS = "published numbers: "


def video(key: str, severity: int = 3, variant: str | None = None, **more: Any) -> VideoRow:
    wanted = recipe.make(registry.get(key), severity, variant=variant, seed=0, storage=recipe.Unstored(), **more)
    return clips.video_row(wanted)


def text(key: str, backend: str = "offline", **more: Any) -> TextRow:
    wanted = captions.make(registry.get(key), 1, backend=backend, **more)
    return clips.text_row(wanted, source_text="a man sings", text="a man sinfs")


def test_every_published_row_compares() -> None:
    rows = [
        video(form.key, severity, form.variant)
        for entry in registry.perturbations(kind="video")
        for form in entry.forms()
        for severity in form.severities
    ]
    assert card.comparability(rows) == f"comparable with {NUMBERS}no stand-in for a model was used"


def test_stand_ins_calibrated_severities_and_own_parameters_do_not() -> None:
    frost = replace(video("mm_robustness/frost"), backend=json.dumps({"frost": {"backend": "offline"}}))
    calibrated = replace(video("mlvp/fog"), calibrated=True)
    own = video("mlvp/gaussian_noise", replaced={"sigma": 0.5})
    same = video("mlvp/gaussian_noise", replaced=registry.get("mlvp/gaussian_noise").parameters(3))
    prefix = "not comparable with published numbers: "
    assert card.comparability([frost, same]) == f"{prefix}offline backends made frost (frost)"
    assert card.comparability([calibrated]) == f"{prefix}severities are calibrated"
    assert card.comparability([own, same]) == f"{prefix}parameters are not the published ones: gaussian_noise"
    assert card.comparability([calibrated, frost, own]) == (
        f"{prefix}offline backends made frost (frost); severities are calibrated; "
        "parameters are not the published ones: gaussian_noise"
    )


def test_captions_count_too() -> None:
    assert card.comparability([], [text("msrvtt_p/keyboard")]).startswith("comparable")
    assert card.comparability([], [text("mm_robustness/synonym_replace", "pretrained")]).startswith("comparable")
    verdict = card.comparability(
        [video("mlvp/fog")], [text("msrvtt_p/back_trans"), text("mm_robustness/synonym_replace")]
    )
    assert verdict == (
        f"not comparable with {NUMBERS}offline backends made back_trans (translator), "
        f"synonym_replace (similarity); offline, back_trans {registry.get('msrvtt_p/back_trans').not_comparable}"
    )


def test_the_card_says_what_became_of_every_listed_clip() -> None:
    rows = [replace(video("mlvp/fog", severity), psnr_db=20.0 + severity) for severity in (1, 2)]
    rows.append(replace(rows[0], item_id="other", status=QUARANTINED, psnr_db=None))
    listed = sets.Listed(listed=1000, listed_sha256="0", complete=1, quarantined=1, missing=998, scenarios=2)
    about = {"dataset": "data", "package_version": "1.2.3", "config_digest": "abc"}
    lines = card.card(registry.suite("mlvp"), rows, listed, about).splitlines()
    assert "- 1 of 1,000 listed clips complete; 1 quarantined; 998 missing" in lines
    assert "- 2 of 2,000 videos; perturbations: 1, severities: 1, 2" in lines
    assert "| fog | " in lines[-1]
    assert lines[-1].endswith("| 2 | none | 21.0 / 22.0 |")
    assert "made by perturbations 1.2.3; configuration abc" in "\n".join(lines)


def test_a_clip_that_did_not_change_is_no_part_of_the_mean() -> None:
    values = [(1, math.inf), (1, 30.0), (1, 20.0), (2, math.inf), (3, None)]
    rows = [replace(video("mlvp/temporal_scrambling", severity), psnr_db=value) for severity, value in values]
    listed = sets.Listed(listed=3, listed_sha256="0", complete=3, quarantined=0, missing=0, scenarios=3)
    line = card.card(registry.suite("mlvp"), rows, listed, {"dataset": "data"}).splitlines()[-1]
    assert line.endswith("| 25.0 / equal / - |")


def test_a_card_without_a_video_is_one() -> None:
    listed = sets.Listed(listed=2, listed_sha256="0", complete=0, quarantined=0, missing=2, scenarios=5)
    text = card.card(registry.suite("mlvp"), [], listed, {"dataset": "data"})
    assert "0 of 2 listed clips complete; 2 missing" in text


def test_a_card_of_nothing_does_not_call_it_comparable() -> None:
    assert card.comparability([]).startswith("not comparable")
