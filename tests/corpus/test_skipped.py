"""What cannot be made of captions, here or in their language: known before anything runs, left out and listed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from copies import ROOT
from looping import each

import perturbations
from perturbations.base.errors import ConfigError, ManifestError
from perturbations.config.file import parse
from perturbations.config.sections import Config
from perturbations.corpus.plan import caption_recipes, folders, sharding, targets
from perturbations.corpus.plan.corpus_rules import CorpusRules
from perturbations.evaluation.plan import evaluation_files as evaluation_paths
from perturbations.evaluation.plan import planned_runs as evaluation
from perturbations.manifest import skipped
from perturbations.models import role_registry as models
from perturbations.suites import suite_registry
from perturbations.text import languages

REASON = "apertium-eng-spa: install it"


def configured(language: str = "en", **keys: Any) -> Config:
    tiny = {"adapter": "folder", "annotations": "a.json", "videos": "v", "language": language}
    return parse({"datasets": {"tiny": tiny}, "suites": {"msrvtt_p": {}, "mm_robustness": {}}, **keys})


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has everything."""
    monkeypatch.setattr(models, "missing", lambda role, backend: None)


@pytest.fixture
def without_translator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "missing", lambda role, backend: REASON if role == "translator" else None)


def left_out(*names: str) -> list[dict[str, Any]]:
    return [{"perturbation": name, "severities": [1], "reason": REASON} for name in names]


def test_where_everything_is_installed_nothing_is_skipped() -> None:
    settings = configured()
    for suite in settings.suites:
        assert caption_recipes.skipped(settings, "tiny", suite) == []
        assert caption_recipes.scenarios(settings, "tiny", suite) == caption_recipes.requested(settings, "tiny", suite)


@pytest.mark.usefixtures("without_translator")
def test_what_lacks_its_backend_is_skipped_and_the_rest_is_made() -> None:
    settings = configured()
    assert caption_recipes.skipped(settings, "tiny", "msrvtt_p") == left_out("back_trans")
    assert caption_recipes.skipped(settings, "tiny", "mm_robustness") == left_out("back_translation")
    assert len(caption_recipes.scenarios(settings, "tiny", "msrvtt_p")) == 34
    wanted = json.loads(CorpusRules(settings).texts_settings(SimpleNamespace(dataset="tiny", suite="msrvtt_p")))
    assert wanted["skipped"] == left_out("back_trans")


def test_installing_it_later_adds_exactly_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = configured()
    complete = folders.texts_of_recipes(settings, "tiny", "msrvtt_p")
    monkeypatch.setattr(models, "missing", lambda role, backend: REASON if role == "translator" else None)
    before = folders.texts_of_recipes(settings, "tiny", "msrvtt_p")
    assert complete.keys() - before.keys() == {"back_trans/1"}
    assert before.items() < complete.items()


@pytest.mark.usefixtures("without_translator")
def test_what_is_named_and_lacks_its_backend_is_an_error() -> None:
    settings = configured(suites={"msrvtt_p": {"captions": {"perturbations": ["keyboard", "back_trans"]}}})
    with pytest.raises(ConfigError, match=rf"of the captions of `tiny`:\n  back_trans: {REASON}\n"):
        caption_recipes.scenarios(settings, "tiny", "msrvtt_p")
    with pytest.raises(ConfigError, match="names perturbations that cannot be made"):
        targets.texts(settings, "msrvtt_p", "tiny", lambda dataset: [])
    # The menu lists its target all the same.
    assert "2 perturbations of msrvtt_p" in targets.texts_text(settings, "msrvtt_p", "tiny")


@pytest.mark.usefixtures("without_translator")
def test_an_evaluation_asks_no_skipped_captions_and_lists_them() -> None:
    settings = configured()
    planned = {(scenario.suite, scenario.perturbation) for scenario in evaluation.scenarios(settings, "tiny")}
    assert ("msrvtt_p", "keyboard") in planned
    assert not {("msrvtt_p", "back_trans"), ("mm_robustness", "back_translation")} & planned
    listed = evaluation_paths.skipped(settings, "tiny")
    assert listed == left_out("msrvtt_p/back_trans", "mm_robustness/back_translation")
    plan = sharding.DatasetPlan((), {}, listed=1, captions=1)
    lines = evaluation_paths.results(settings, "tiny", "evaluation", lambda name: plan, lambda name: ()).sizes
    assert lines[1:-1] == (
        f"captions of msrvtt_p on tiny: skipped: 1 perturbation, back_trans ({REASON})",
        f"captions of mm_robustness on tiny: skipped: 1 perturbation, back_translation ({REASON})",
    )
    videos_only = configured(evaluation={"directions": ["v2t"]})
    assert evaluation_paths.skipped(videos_only, "tiny") == []


def test_skipped_perturbations_are_read_as_written() -> None:
    entries = [{**entry, "reason": reason} for entry, reason in zip(left_out("a", "b", "c"), "xyx", strict=True)]
    assert skipped.of_manifest({skipped.SET: {skipped.SKIPPED: entries}}) == entries
    assert skipped.of_manifest({skipped.SET: {}}) == skipped.of_manifest({}) == []
    assert skipped.sentences(entries) == ["skipped: 2 perturbations, a, c (x)", "skipped: 1 perturbation, b (y)"]


@pytest.mark.parametrize("value", ["x", 3, [3], [{}], [{"perturbation": "a", "severities": ["1"], "reason": "x"}]])
def test_a_manifest_that_lists_something_else_is_refused(value: object) -> None:
    with pytest.raises(ManifestError, match="does not list skipped perturbations"):
        skipped.of_manifest({skipped.SET: {skipped.SKIPPED: value}})


# --- languages --------------------------------------------------------------------------------------------------------


def made_in(language: str, suite: str = "msrvtt_p") -> set[str]:
    return {name for name, _ in caption_recipes.scenarios(configured(language), "tiny", suite)}


POSITIONS = {"drop_first", "drop_last", "drop_first_and_last", "shuffle_order"}


def test_a_perturbation_is_made_for_captions_that_it_means_something_for() -> None:
    assert made_in("zh") == {"punctuation"}
    assert made_in("ru") == made_in("ar") == {"punctuation", *POSITIONS}
    assert made_in("de") == {"punctuation", *POSITIONS, "keyboard", "ocr", "typos"}
    assert len(made_in("en")) == 35
    assert made_in("ja", "mm_robustness") == {"char_swap", "char_delete"}


def test_the_reason_says_what_a_perturbation_is_made_for() -> None:
    reasons = {
        entry["perturbation"]: entry["reason"]
        for entry in caption_recipes.skipped(configured("zh"), "tiny", "msrvtt_p")
    }
    assert reasons["tense"] == reasons["back_trans"] == "made for English"
    assert reasons["keyboard"] == "made for Latin letters"
    assert reasons["drop_first"] == "made for words between spaces"
    with pytest.raises(ConfigError, match="keyboard: made for Latin letters"):
        caption_recipes.skipped(
            configured("ar", suites={"msrvtt_p": {"captions": {"perturbations": ["keyboard"]}}}), "tiny", "msrvtt_p"
        )
    with pytest.raises(ConfigError, match=r"datasets\.tiny\.language: unknown language 'xx'; known: af, am, ar"):
        configured("xx")


@each("entry", suite_registry.perturbations(kind="text"))
def test_models_of_english_are_asked_about_english_only(entry: suite_registry.Perturbation) -> None:
    if entry.roles or entry.gated:
        assert entry.languages == "English"


def test_perturbations_in_any_language_change_it() -> None:
    """Otherwise their declarations would claim too much."""
    for key in ("msrvtt_p/punctuation", "mm_robustness/char_swap", "mm_robustness/char_delete"):
        text = "男人在弹吉他和唱歌跳舞"
        results = [perturbations.perturb_text(text, key, seed=seed, item_id="c").changed for seed in range(3)]
        assert any(results), key
    for name in POSITIONS:
        assert perturbations.perturb_text("мужчина играет на гитаре", f"msrvtt_p/{name}", seed=1, item_id="c").changed


ARABIC, CHINESE, ENGLISH = "رجل يعزف على الجيتار", "男人在弹吉他", "a man plays a guitar"


with (ROOT / "tests" / "golden/languages.csv").open(encoding="utf-8", newline="") as file:
    _, *LANGUAGES = csv.reader(file)


@each(("caption", "is_english"), [(caption, word == "yes") for caption, word in LANGUAGES])
def test_a_caption_in_another_language_is_left_alone_by_what_is_for_english(caption: str, is_english: bool) -> None:
    assert languages.is_written_for("English", caption) == is_english
    assert languages.is_written_for("words between spaces", caption)
    result = perturbations.perturb_text(caption, "msrvtt_p/append_irr", seed=0, item_id="c", dataset="d")
    assert result.changed == is_english


def test_captions_in_another_script_are_noticed() -> None:
    assert languages.other_script([ENGLISH, ARABIC, ENGLISH, "123", ""], "en") is None
    assert languages.other_script([ARABIC, ARABIC, ENGLISH, "123", "🎾"], "en") == ("Arabic", 2 / 3)
    assert languages.other_script([ARABIC, ENGLISH], "ar") is None
    assert languages.other_script([CHINESE], "en") == ("Chinese characters", 1)
    assert languages.other_script([CHINESE, "ひらがな"], "ja") is None
    assert languages.other_script(["naïve straße"], "en") is None
    assert languages.other_script(["", "..."], "en") is None


@pytest.mark.parametrize(("language", "warnings"), [("en", 1), ("ar", 0)])
def test_a_run_on_captions_of_another_script_is_warned(
    language: str, warnings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"item_id": name, "caption": text} for name, text in (("a", ARABIC), ("b", ARABIC), ("c", ENGLISH))]
    Path("a.json").write_text(json.dumps(rows))
    settings = configured(language)
    work = targets.texts(settings, "msrvtt_p", "tiny", lambda dataset: sharding.plan_captions(settings, dataset))
    assert [line for line in work.sizes if line.startswith("warning")] == warnings * [
        "warning: datasets.tiny.language is `en`, but 67% of the captions are written in Arabic: name their language, "
        "so that perturbations that mean nothing for it are skipped"
    ]


# --- what is no caption -----------------------------------------------------------------------------------------------


@each(
    "given", [None, float("nan"), 3, 2.5, True, b"a man", ["a man"], {"a": 1}, np.float64("nan"), np.array(["a man"])]
)
def test_what_is_no_caption_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=rf"a caption must be a str, not {type(given).__name__}: "):
        perturbations.perturb_text(given, "msrvtt_p/keyboard", seed=0, item_id="c")
