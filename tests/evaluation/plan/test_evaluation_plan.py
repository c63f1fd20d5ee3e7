"""What an evaluation asks: its scenarios and jobs, and which queries have which answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import clips
import pytest
from evaluation_job import bad_source, caption, perturbed_caption, source
from looping import each

from perturbations.base.errors import ConfigError, ManifestError
from perturbations.config import file as config_file
from perturbations.config import sections as config
from perturbations.corpus.plan import caption_recipes, recipe, tiers
from perturbations.evaluation.plan import evaluation_files, evaluation_rules
from perturbations.evaluation.plan import planned_runs as evaluation
from perturbations.evaluation.plan.planned_runs import category_of
from perturbations.evaluation.result_rows import ScenarioKey, as_settings, from_settings
from perturbations.evaluation.run import retrieval_of_scenario
from perturbations.suites import suite_registry

SUITES: dict[str, Any] = {"mlvp": {}, "mm_robustness": {}}


def parsed(suites: dict[str, Any] = SUITES, /, **evaluated: Any) -> config.Config:
    return config_file.parse({"datasets": {"demo": clips.DATASET}, "suites": suites, "evaluation": evaluated})


def test_clean_queries_come_first_and_each_suite_at_severity_5() -> None:
    planned = evaluation.scenarios(parsed(), "demo")
    assert (planned[0].direction, planned[0].scenario) == ("v2t", ScenarioKey("clean", "clean", 0))
    of_videos = {row.perturbation: row.severity for row in planned if (row.direction, row.suite) == ("v2t", "mlvp")}
    assert of_videos == {entry.name: 5 for entry in suite_registry.perturbations("mlvp", "video")}
    of_captions = {row.perturbation: row.severity for row in planned if row.direction == "t2v" and row.suite != "clean"}
    # What cannot be made on this machine is skipped.
    possible = {name for name, _ in caption_recipes.scenarios(parsed(), "demo", "mm_robustness")}
    assert {"keyboard", "word_swap"} <= possible
    entries = suite_registry.perturbations("mm_robustness", "text")
    assert of_captions == {entry.name: min(5, len(entry.severities)) for entry in entries if entry.name in possible}


def test_severities_are_by_category_and_fall_to_the_highest_that_is_made() -> None:
    suites = {"mlvp": {"severities": [2, 4]}}
    planned = evaluation.scenarios(parsed(suites, severities=[1, 3, 5]), "demo")
    assert {scenario.severity for scenario in planned if scenario.suite == "mlvp"} == {2, 4}
    with pytest.raises(ConfigError, match="nothing of mlvp is made there or below: its lowest severity is 2"):
        evaluation.scenarios(parsed(suites, severities=[1]), "demo")
    planned = evaluation.scenarios(parsed(severities={"character": 7, "word": [2], "high": [1, 4]}), "demo")
    by_level: dict[str, set[int | None]] = {}
    for scenario in planned:
        by_level.setdefault(category_of(scenario), set()).add(scenario.severity)
    assert (by_level["character"], by_level["word"], by_level["high"]) == ({7}, {2}, {1, 4})
    assert (by_level["sentence"], by_level["low"], by_level["clean"]) == ({1}, {5}, {0})


def test_mixes_without_perturbed_videos_are_refused() -> None:
    captions = {"mm_robustness": {"perturbations": []}}
    for suites, changed in ((captions, {}), (SUITES, {"directions": ["t2v"]}), (SUITES, {"suites": []})):
        for mix in ("mixed_types", "mixed_severity"):
            with pytest.raises(ConfigError, match="evaluation.mixes: they are of perturbed videos"):
                evaluation.scenarios(parsed(suites, mixes=[mix], **changed), "demo")
    planned = evaluation.scenarios(parsed({**captions, "mlvp": {}}, mixes=["mixed_types"]), "demo")
    assert {scenario.suite for scenario in planned if scenario.mix} == {"mlvp"}


def test_a_severity_that_its_suite_does_not_make_is_said() -> None:
    """Not so of those that the paper has not: sentence perturbations have one severity."""
    lines = evaluation.other_severities(parsed({"mlvp": {"severities": [3]}}), "demo")
    assert lines == [
        f"evaluation.severities: `suites.mlvp` does not make severity 5 of {category}: severity 3 is evaluated in its "
        "place"
        for category in ("low", "mid", "high")
    ]
    lines = evaluation.other_severities(parsed({"mlvp": {"severities": [3, 4]}}, severities=[2, 3]), "demo")
    assert lines
    assert all("severity 2 of" in line and line.endswith(": nothing is evaluated in its place") for line in lines)
    assert evaluation.other_severities(parsed(severities=[1, 5, 7]), "demo") == []


def test_sides_perturb_the_modality_of_their_part() -> None:
    suites = {"msrvtt_p": {"captions": {"perturbations": TEXTS}}}
    planned = evaluation.scenarios(parsed(suites, sides=["query", "gallery", "both"]), "demo")
    videos = {entry.name for entry in suite_registry.perturbations("msrvtt_p", "video")}
    combined = suite_registry.suite("msrvtt_p").combined
    assert combined is not None
    pairs = {(video, text, 3, 1) for video in combined.video for text in TEXTS}
    for direction, of_queries, of_gallery in (("v2t", videos, set(TEXTS)), ("t2v", set(TEXTS), videos)):
        first, *own = (scenario for scenario in planned if scenario.direction == direction)
        assert first.side == "none"
        assert {scenario.perturbation for scenario in own if scenario.side == "query"} == of_queries
        assert {scenario.perturbation for scenario in own if scenario.side == "gallery"} == of_gallery
        assert pairs == {
            (scenario.perturbation, scenario.text_perturbation, scenario.severity, scenario.text_severity)
            for scenario in own
            if scenario.side == "both"
        }


TEXTS = ["shuffle_order", "spelling_error"]


def test_each_model_is_planned_by_its_own_options() -> None:
    entries = [{"name": "Small", "num_frames": 4}, {"name": "fast", "setting": "qgs_cross", "precision": "bfloat16"}]
    models = evaluation.models(parsed(models=entries, num_frames=6))
    assert [key.rpartition("-")[0] for key in models] == ["small-qs", "fast-qgs_cross"]
    small, fast = (own.evaluation for own in models.values())
    assert (small.num_frames, small.precision, small.setting) == (4, "float32", "qs")
    assert (fast.num_frames, fast.precision, fast.setting) == (6, "bfloat16", "qgs_cross")
    alone = evaluation.models(parsed(models=entries[:1], num_frames=6))
    assert list(alone) == list(models)[:1]  # another model in the list changes nothing of this one
    (single,) = evaluation.models(parsed())
    assert single == evaluation.model_key(parsed())


def test_jobs_hold_every_scenario_once_and_the_parameters_of_their_methods() -> None:
    published = evaluation_files.jobs(parsed(), "demo", "adaptation")
    jobs = evaluation_files.jobs(parsed(parameters={"hatvtr": {"alpha": 50, "m": 0.5}}), "demo", "adaptation")
    assert jobs.keys() == published.keys()
    own = [run for run in jobs[f"{LOW}/adaptation"] if run not in published[f"{LOW}/adaptation"]]
    assert {(run.method, run.label) for run in own} == {("hatvtr", "HAT-VTR")}
    assert {json.loads(run.parameters or "")["alpha"] for run in own} == {50.0}
    wanted = parsed(mixes=["mixed_severity", "mixed_types"], severities=[1, 5])
    alone = evaluation_files.jobs(wanted, "demo", "evaluation")
    flat = [run for runs in alone.values() for run in runs]
    assert sorted(map(str, flat)) == sorted(map(str, evaluation.scenarios(wanted, "demo")))
    for name, members in alone.items():
        *part, category, _ = name.split("/")
        assert all([run.direction, run.side, run.suite] == part for run in members)
        assert category.replace("_", "").isalnum()


LOW = "v2t/query/mlvp/low"


def test_runs_come_back_from_the_settings_of_their_job() -> None:
    wanted = parsed(sides=["query", "gallery"], mixes=["mixed_types"], severities=[1, 5], seeds=[42, 7])
    for runs in evaluation_files.jobs(wanted, "demo", "adaptation").values():
        assert from_settings(json.loads(json.dumps(as_settings(runs)))) == runs


@pytest.mark.parametrize(("key", "values"), [("device", ("cpu", "cuda")), ("reader", ("pyav", "decord"))])
def test_what_a_result_is_made_with_changes_no_settings(key: str, values: tuple[str, str]) -> None:
    given = [parsed(**{key: value}) for value in values]
    first, second = (
        (evaluation_files.jobs(own, "demo", "adaptation"), evaluation_rules.loaded_model(own, None)) for own in given
    )
    assert first == second


@each(
    ("wrong", "message"),
    [
        ({"suites": ["msrvtt_p"]}, "evaluation.suites.0: no configured suite is called 'msrvtt_p'"),
        ({"methods": ["qbnorm"]}, "evaluation.querybank: the method `qbnorm` needs a bank"),
        ({"querybank": "train"}, "evaluation.querybank: no configured dataset is called 'train'"),
        ({"gallerybank": "train"}, "evaluation.gallerybank: no configured dataset is called 'train'"),
        ({"pooling": "xpool"}, "evaluation.checkpoint: `xpool` needs the weights"),
        ({"revision": "abc"}, "evaluation.model"),
        ({"model": "clip", "checkpoint": "nowhere.pth"}, "no such file: nowhere.pth"),
        ({"methods": ["tcr", "tcr"]}, "evaluation.methods: lists a value twice: 'tcr' with the same parameters"),
        ({"methods": ["tcr", {"name": "tcr", "parameters": {"share": 0.3}, "label": "a"}]}, "lists a value twice"),
        ({"methods": ["tcr", {"name": "tcr", "parameters": {"share": 1}}]}, "two settings are called 'TCR': give each"),
        ({"methods": [{"name": "tcr", "parameters": {"sahre": 1}}]}, "evaluation.methods.0.parameters.sahre: .*share"),
        ({"methods": [{"name": "trc"}]}, "evaluation.methods.0.name: method 'trc' is unknown; .*; did you mean tcr"),
        ({"models": [{"name": "a", "methods": ["sar", "sar"]}]}, "evaluation.models.0.methods: lists a value twice"),
        ({"methods": ["magic"]}, "evaluation.methods.0: method 'magic' is unknown; allowed: none, tent, .*qbnorm"),
        ({"methods": ["tcr", "hatvr"]}, "evaluation.methods.1: method 'hatvr' is unknown; .*; did you mean hatvtr"),
        ({"severities": []}, "evaluation.severities"),
        ({"seeds": [1, 1]}, "evaluation.seeds"),
        ({"sides": ["both"]}, "evaluation.sides: `both` needs a suite that declares combinations: msrvtt_p"),
        ({"severities": {"chars": 5}}, "evaluation.severities: unknown category 'chars'; known: .*character"),
        ({"severities": {"word": 9}}, "evaluation.severities.word.0: .* at most 7, not 9"),
        ({"models": [{"name": "a b"}]}, "evaluation.models.0.name"),
        ({"models": [{"name": "a"}, {"name": "A"}]}, "evaluation.models: two models have the same name"),
        ({"models": [{"name": "a"}], "model": "clip"}, "evaluation.models: `model`, .* single model"),
        ({"models": [{"name": "a", "pooling": "xpool"}]}, "evaluation.models.0.checkpoint: `xpool` needs"),
        ({"parameters": {"hatvtr": {"alhpa": 1}}}, "evaluation.parameters.hatvtr.alhpa"),
        ({"parameters": {"none": {"lr": 1}}}, "evaluation.parameters.none.lr"),
        ({"protocol": "hat_vtr_table_one"}, "evaluation.protocol: .* is unknown; did you mean hat_vtr_table_"),
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parsed(**wrong)


def ids(rows: Sequence[retrieval_of_scenario.ScenarioRow]) -> list[str]:
    return [retrieval_of_scenario.id_of(row) for row in rows]


def test_videos_ask_for_any_of_their_captions() -> None:
    sources = [source("b"), source("a"), bad_source("bad"), source("mute")]
    captions = [caption("b-1", "b"), caption("a-1", "a"), caption("b-0", "b"), caption("bad-0", "bad")]
    queries, gallery, relevant, missing = retrieval_of_scenario.retrieval(
        "v2t", sources, captions, retrieval_of_scenario.Clean(sources, captions)
    )
    assert ids(queries) == ["a", "b"]
    assert ids(gallery) == ["a-1", "b-0", "b-1"]
    assert (relevant, missing) == ([[0], [1, 2]], 2)


def test_captions_that_the_gate_refused_neither_ask_nor_answer() -> None:
    """And a query whose items all left the gallery is missing; captions that were never usable are missing too."""
    sources = [source("b"), source("a"), bad_source("bad")]
    captions = [
        perturbed_caption("1", "b"),
        perturbed_caption("0", "a", accepted=False),
        perturbed_caption("2", "bad"),
        caption("3", "a"),
    ]
    listed = [caption(row.caption_id, row.item_id) for row in captions]
    clean = retrieval_of_scenario.Clean(sources, listed, rejected=4)
    queries, gallery, *counts = retrieval_of_scenario.retrieval("t2v", sources, captions, clean)
    assert (ids(queries), ids(gallery), counts) == (["1", "3"], ["a", "b"], [[[1], [0]], 2 + 4])
    queries, gallery, _, missing = retrieval_of_scenario.retrieval("v2t", sources, captions[:3], clean)
    assert (ids(queries), ids(gallery), missing) == (["b"], ["1"], 2)


def test_quarantined_clips_are_no_gallery_and_no_query_is_an_error() -> None:
    sources = [source("a"), source("b")]
    captions = [caption("1", "a"), caption("2", "b")]
    wanted = recipe.make(suite_registry.get("mlvp/gaussian_noise"), 3, seed=0, storage=tiers.UNSTORED)
    rows = [clips.video_row(wanted, item_id=row.item_id) for row in sources]
    perturbed = [replace(rows[0], status="quarantined", stage="video", error="no"), rows[1]]
    queries, gallery, *counts = retrieval_of_scenario.retrieval(
        "t2v", perturbed, captions, retrieval_of_scenario.Clean(sources, captions)
    )
    assert (ids(queries), ids(gallery), counts) == (["2"], ["b"], [[[0]], 1])
    sources = [source("a")]
    with pytest.raises(ManifestError, match="no query is left"):
        retrieval_of_scenario.retrieval(
            "v2t", [bad_source("a")], [caption("1", "a")], retrieval_of_scenario.Clean(sources, [])
        )
