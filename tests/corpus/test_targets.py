"""Targets: what they ask for, and what they say of it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import preloaded
import pytest
from copies import ROOT
from workflow_project import KEY, configured, not_planned

from perturbations.base import shown
from perturbations.base.errors import AnnotationError, ConfigError
from perturbations.config import sections as config
from perturbations.config.sections import Config
from perturbations.corpus.plan import recipe, sharding, targets
from perturbations.corpus.plan.sharding import DatasetPlan
from perturbations.evaluation.plan import evaluation_settings
from perturbations.evaluation.plan import planned_runs as evaluation

ODD = ["with space", "quo'te\"s", "$(touch pwned);`x`", "日本語 🎥", "-rf", "{braces}"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Datasets with odd names, in the working directory. No video is read when work is planned."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "videos").mkdir()
    for name in ODD:
        (tmp_path / "videos" / f"{name}.mp4").write_bytes(name.encode())
    rows = [{"item_id": name, "caption": f"a man and {name}"} for name in [*ODD, "gone"]]
    (tmp_path / "captions.json").write_text(json.dumps(rows))
    with (tmp_path / "captions.csv").open("w", newline="") as file:
        spans = [[start, start + 1, 1, "stir", name] for name in ODD for start in range(3)]
        csv.writer(file).writerows([["start", "end", "task", "text", "video_id"], *spans])
    return configured(shard_size=2)


def request(settings: Config, name: str) -> targets.TargetWork:
    """The work of a target, planned as Snakemake plans it."""

    def plans(collection: str) -> DatasetPlan:
        return sharding.plan_clips(settings, collection)

    menu = targets.menu(settings, plans, lambda dataset: sharding.plan_captions(settings, dataset))
    return {target: work for target, _, work in menu}[name]()


def test_a_corpus_of_clips_has_its_whole_videos_where_full_length_files_are_kept(project: Config) -> None:
    work = request(project, "msrvtt_p_cooking")
    assert {file for file in work.files if "/whole/" in file} == {
        "manifests/cooking/whole/msrvtt_p/videos.parquet",
        "manifests/cooking/whole/msrvtt_p/quarantine.parquet",
        "work/cooking/whole/msrvtt_p/checked.txt",
    }
    assert work.sizes[0].startswith("msrvtt_p on cooking: 18 clips x ")
    assert ", cut from 6 videos x " in work.sizes[0]
    frames = project.model_copy(update={"storage": config.StorageSettings(tier="frames", num_frames=4)})
    assert not [file for file in request(frames, "msrvtt_p_cooking").files if "/whole/" in file]


def test_targets_say_what_cannot_be_used_and_what_they_need(project: Config) -> None:
    scenarios = len(recipe.scenarios(project, "mlvp"))
    size = f"mlvp on tiny: 7 videos x {scenarios} = {7 * scenarios} videos"
    sizes = request(project, "mlvp_tiny").sizes
    assert sizes[:2] == (size, "tiny: 1 listed item cannot be used:")
    assert sizes[2].startswith("  'gone': missing: no gone.mp4 or gone.mkv")
    assert request(project, "youcook2_p") == request(project, "msrvtt_p_cooking")
    with pytest.raises(ConfigError, match="is made of datasets of the adapter 'msrvtt'"):
        request(project, "msrvtt_p")
    assert request(project, "all") == request(project, "mlvp_tiny")
    other = configured(datasets={"demo": {"adapter": "demo"}}, suites={"tampering": {}})
    assert request(other, "all") == request(other, "tampering_demo")
    demo = configured(datasets={"demo": {"adapter": "demo", "clips": 2}})
    assert request(demo, "all") == request(demo, "mlvp_demo")


def test_main_objects_are_listed_where_a_suite_looks_for_them(project: Config) -> None:
    assert "manifests/tiny/main_object.parquet" in request(project, "mlvp_tiny").files
    assert "manifests/tiny/main_object.parquet" not in request(project, "msrvtt_p_tiny").files


def changed(settings: Config, suite: str, **changes: Any) -> Config:
    suites = {**settings.suites, suite: settings.suites[suite].model_copy(update=changes)}
    return settings.model_copy(update={"suites": suites})


def test_a_target_of_videos_and_captions_has_both(project: Config) -> None:
    project = changed(project, "msrvtt_p", severities=(3,))
    videos, texts = (request(project, f"{name}_tiny") for name in ("msrvtt_p", "text_msrvtt_p"))
    both = request(project, "multimodal_msrvtt_p_tiny")
    assert both.files == [*videos.files, *texts.files, "manifests/tiny/msrvtt_p/multimodal.parquet"]
    assert both.sizes[:-1] == (*videos.sizes, *texts.sizes)
    assert texts.sizes[0].startswith("captions of msrvtt_p on tiny: 7 x ")


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 18),
        ({"perturbations": ("jpeg", "jumble", "freeze")}, 6),
        ({"severities": (1, 2)}, 0),
        ({"perturbations": ("freeze",)}, 0),
        ({"captions": config.Captions(perturbations=("keyboard",))}, 0),
        ({"captions": config.Captions(perturbations=("keyboard", "no_verbs"))}, 6),
    ],
)
def test_a_target_of_both_counts_what_is_combined(changes: dict[str, Any], count: int, project: Config) -> None:
    named = config.Captions(perturbations=("append_irr", "no_verbs", "shuffle_order"))  # these need no package
    common = {"perturbations": "all", "severities": (1, 3), "captions": named}
    settings = changed(project, "msrvtt_p", **{**common, **changes})
    if count:
        sizes = request(settings, "multimodal_msrvtt_p_tiny").sizes
        assert sizes[-1] == f"combinations of msrvtt_p on tiny: {count} of 66"
    else:
        with pytest.raises(ConfigError, match="0 of 66: .* of severity 3 of box_jumble, "):
            request(settings, "multimodal_msrvtt_p_tiny")


@pytest.mark.parametrize("words", [("mlvp_dmo",), ("-n", "tta_demo", "mvlp_demo"), ("demo_mlvp",)])
def test_a_mistyped_target_is_told_the_near_one(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("datasets: {demo: {adapter: demo, clips: 1}}\nsuites: {mlvp: {}}\n")
    (tmp_path / "Snakefile").write_text(f'include: "{ROOT}/Snakefile"\n')
    printed = preloaded.snakemake(tmp_path, *words, status=1)
    assert re.search(rf"no target '{words[-1]}'; did you mean mlvp_demo\b", printed)
    assert "check:" not in printed


def test_an_adaptation_counts_its_runs(project: Config) -> None:
    wanted = evaluation_settings.Evaluation(
        methods=("tent", "sar"), seeds=(1, 2), directions=("v2t",), suites=("mlvp",)
    )  # no captions: none is skipped; and every severity is made
    settings = project.model_copy(update={"evaluation": wanted})
    scenarios = len(evaluation.scenarios(settings, "tiny"))
    for name, kind, methods in (("evaluate", "evaluation", 1), ("tta", "adaptation", 3)):
        sides = f"{scenarios} scenarios (1 clean, {scenarios - 1} query)"
        runs = f"{sides} x {shown.plural(methods, 'method')} = {scenarios * methods * 2:,} runs"
        work = request(settings, f"{name}_tiny")
        made, parts = work.files[:2], work.files[2:]
        assert made == [f"manifests/tiny/{kind}/{KEY}/{file}.parquet" for file in ("results", "ranks")]
        assert {f"work/tiny/evaluation/{KEY}/v2t/none/clean/clean/{kind}.parquet", f"work/models/{KEY}.json"} < {*parts}
        assert any(path.startswith("corpora/tiny/mlvp/") for path in parts), "what is missing of it is made again"
        assert work.sizes[:-1] == (f"{kind} on tiny: {runs}",), "the last names the model"
        assert {suite for _, suite, _, _ in work.clips} == {"mlvp"}


def test_a_broken_dataset_is_an_error_of_its_own_targets_only(project: Config) -> None:
    Path("captions.json").write_text("[")
    for name in ("mlvp_tiny", "evaluate_tiny"):
        with pytest.raises((AnnotationError, ConfigError), match=r"captions\.json"):
            request(project, name)
    assert request(project, "mlvp_cooking").files


def test_the_menu_has_each_name_once_and_a_line_for_it() -> None:
    def menu(settings: Config) -> dict[str, str]:
        entries = list(targets.menu(settings, not_planned, lambda dataset: pytest.fail(f"{dataset} is planned")))
        assert len({name for name, _, _ in entries}) == len(entries)
        return {name: text for name, text, _ in entries}

    names = menu(configured())
    assert {"msrvtt_p", "youcook2_p", "evaluate_train", "tta_cooking", "mlvp_tiny"} <= set(names)
    assert {"text_msrvtt_p_cooking", "multimodal_msrvtt_p_train"} <= set(names)
    assert not {"text_mlvp_tiny", "multimodal_mlvp_tiny"} & set(names)
    assert names["mlvp_tiny"].endswith("perturbations of mlvp x severities 2, 5 on the dataset `tiny` (folder)")
    assert all(names.values())


TWO: dict[str, Any] = {
    "datasets": {"mine": {"adapter": "demo"}, "msrvtt": {"adapter": "demo"}},
    "suites": {"mlvp": {}, "msrvtt_p": {}},
}
LISTED = "`snakemake --list-target-rules` lists them"
WRONG_TARGETS = {
    "msrvtt_mlvp": f"; did you mean mlvp_msrvtt? {LISTED}",
    "mlvp_msrvt": f"; did you mean mlvp_msrvtt or msrvtt_p_msrvtt or mlvp_mine? {LISTED}",
    "mine": f"; did you mean mlvp_mine? {LISTED}",
    "mlvp": f"; did you mean mlvp_mine? {LISTED}",
    "style_transfer": ": suites: {mlvp: {perturbations: [style_transfer]}}. " + LISTED,
    "tampering_mine": ": add it to config.yaml: suites: {tampering: {}}; did you mean mlvp_mine? " + LISTED,
    "text_mlvp_mine": f": mlvp perturbs no captions; did you mean text_msrvtt_p_mine? {LISTED}",
    "text_mm_robustness_mine": (
        f": add it to config.yaml: suites: {{mm_robustness: {{}}}}; did you mean text_msrvtt_p_mine? {LISTED}"
    ),
}


@pytest.mark.parametrize("word", WRONG_TARGETS)
def test_a_target_that_there_is_not_leads_to_those_that_there_are(word: str) -> None:
    settings = Config.model_validate(TWO)
    known = [f"{kind}{suite}_{name}" for kind in ("", "text_") for suite in TWO["suites"] for name in TWO["datasets"]]
    known = [name for name in known if not name.startswith("text_mlvp")]
    message = targets.no_target(settings, word, known)
    assert message.startswith(f"no target '{word}'")
    assert message.endswith(WRONG_TARGETS[word]), message


def test_what_needs_captions_says_so_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus of clips needs none."""
    monkeypatch.chdir(tmp_path)
    Path("clips").mkdir()
    Path("clips/a.mp4").write_bytes(b"a")
    Path("a.csv").write_text("video,label\na.mp4,run\n")
    own = {"adapter": "folder", "annotations": "a.csv", "videos": "clips"}
    suites: dict[str, Any] = {"mlvp": {}, "mm_robustness": {}}
    settings = Config.model_validate({"datasets": {"own": own}, "suites": suites})
    sizes = request(settings, "mlvp_own").sizes
    assert sizes == ("mlvp on own: 1 video x 60 = 60 videos",)
    for target in ("text_mm_robustness_own", "evaluate_own"):
        with pytest.raises(ConfigError) as caught:
            request(settings, target)
        (line,) = str(caught.value).splitlines()
        assert "datasets.own has none: add a column `caption` to a.csv, or name the one that has them" in line
