"""Composed retrieval of the demo's families: plans, settings, the workflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from annotation_files import parse, write_egocvr
from workflow_project import Project

from perturbations import read_manifest
from perturbations.base.errors import ConfigError
from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.config import sections as configuration
from perturbations.corpus.plan import targets
from perturbations.corpus.plan.sharding import DatasetPlan
from perturbations.evaluation.plan import composed_runs, planned_runs
from perturbations.evaluation.plan import evaluation_files as evaluation_paths
from perturbations.evaluation.result_rows import Run, as_settings, from_settings

DEMO = {"adapter": "demo", "clips": 8, "families": True}
SUITES = {
    "mlvp": {"perturbations": ["fog"], "severities": [1, 3]},
    "mm_robustness": {
        "perturbations": ["pixelate"],
        "captions": {"perturbations": ["keyboard", "ocr"], "severities": [1, 2]},
    },
}


def planned(**wanted: Any) -> configuration.Config:
    return parse(DEMO, suites=SUITES, composed=wanted)


def jobs_of(config: configuration.Config) -> dict[str, list[Run]]:
    """The runs of jobs, by the category of the clips' perturbations."""
    return {job.split("/")[3]: runs for job, runs in evaluation_paths.jobs(config, "mine", "composed").items()}


def test_halves_of_the_queries_are_perturbed_alone_and_together() -> None:
    config = planned(both=["mm_robustness/ocr"])
    runs = composed_runs.scenarios(config, "mine")
    fog, pixelate = ("mlvp", "fog", 3), ("mm_robustness", "pixelate", 5)
    keyboard, ocr = (("mm_robustness", name, 2) for name in ("keyboard", "ocr"))
    assert [(composed_runs.perturbed(run), *planned_runs.halves(run)) for run in runs] == [
        ("nothing", None, None),
        ("clips", fog, None),
        ("clips", pixelate, None),
        ("instructions", None, keyboard),
        ("instructions", None, ocr),
        ("both", fog, ocr),
        ("both", pixelate, ocr),
    ]
    jobs = evaluation_paths.jobs(config, "mine", "composed")
    places = "none/clean/clean", "query/mlvp/low", "query/mm_robustness/digital"
    assert [*jobs] == [f"composed/{place}/composed" for place in places]
    assert sorted(map(str, runs)) == sorted(str(run) for members in jobs.values() for run in members)
    assert all(from_settings(as_settings(members)) == members for members in jobs.values())
    assert composed_runs.text_suites(runs) == ["mm_robustness"]
    assert composed_runs.instructions(config, "mine", "mm_robustness") == [("keyboard", 2), ("ocr", 2)]


def test_only_clean_queries_are_asked_when_no_suite_is_named() -> None:
    (run,) = composed_runs.scenarios(planned(suites=[], text_suites=[]), "mine")
    assert composed_runs.perturbed(run) == "nothing"


def test_what_a_job_reads() -> None:
    config = planned(both=["mm_robustness/ocr"], frames="middle")
    plan = DatasetPlan(("s1", "s2"), {}, 2)
    jobs = jobs_of(config)
    clean, fog = (
        evaluation_paths.job_inputs(config, jobs[level], lambda name: plan, lambda name: ("s0",))
        for level in ("clean", "low")
    )
    assert clean["clips"] == []
    assert clean["texts"] == fog["texts"] == ["work/mine/composed/mm_robustness/captions/s0.json"]
    assert fog["clips"] == [
        *(f"work/mine/mlvp/fog/3/{shard}.parquet" for shard in plan.shards),
        *(f"corpora/mine/mlvp/fog/3/.{shard}.json" for shard in plan.shards),
    ]
    assert fog["encoded"] == [f"work/mine/evaluation/{planned_runs.model_key(config)}/middle.safetensors"]


def plans(name: str) -> DatasetPlan:
    return DatasetPlan((), {}, 0)


def test_targets_of_composed_retrieval(tmp_path: Path) -> None:
    ego = write_egocvr(tmp_path / "ego")
    datasets = {"drawn": DEMO, "plain": {"adapter": "demo"}, "ego": ego}
    config = config_file.parse({"datasets": datasets, "suites": SUITES, "composed": {"suites": []}})
    menu = {
        name: request
        for name, _, request in targets.menu(config, plans, lambda name: ())
        if name.startswith(("composed", "egocvr"))
    }
    assert list(menu) == ["egocvr", "composed_drawn", "composed_plain", "composed_ego"]
    assert menu["egocvr"]().files == menu["composed_ego"]().files
    assert "manifests/drawn/composed/mm_robustness/captions.parquet" in menu["composed_drawn"]().files
    with pytest.raises(ConfigError, match="`families: true`"):
        menu["composed_plain"]()
    (of_none,) = (
        request for name, _, request in evaluation_paths.menu(planned(), plans, lambda name: ()) if name == "egocvr"
    )
    with pytest.raises(ConfigError, match="no dataset of the adapter 'egocvr'"):
        of_none()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"galleries": ["local"]}, "composed.galleries.0: "),
        ({"galleries": []}, "composed.galleries: "),
        ({"suites": ["msrvtt_p"]}, "composed.suites.0: no configured suite is called 'msrvtt_p'"),
        ({"text_suites": ["x"]}, "composed.text_suites.0: no configured suite is called 'x'"),
        ({"both": ["keyboard"]}, "composed.both.0: 'keyboard' is no perturbation of captions"),
        ({"both": ["mm_robustness/pixelate"]}, "composed.both.0: 'mm_robustness/pixelate' is no perturbation"),
        ({"words": ["gt", "gt"]}, "composed.words: lists a value twice"),
        ({"shortlist": 0}, "composed.shortlist: "),
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        planned(**wrong)
    assert message in str(error.value)


# --- through the workflow --------------------------------------------------------------------------------------------


def test_the_demo_is_evaluated_and_instructions_are_perturbed(tmp_path: Path) -> None:
    tiny_models = pytest.importorskip("tiny_models")
    tiny_models.save_clip(tmp_path / "model")
    captions = {"perturbations": ["keyboard"], "severities": [5]}
    project = Project(
        tmp_path,
        {
            "datasets": {"drawn": DEMO},
            "suites": {"mm_robustness": {"perturbations": ["pixelate"], "severities": [5], "captions": captions}},
            "evaluation": {"model": "model", "num_frames": 2},
            "composed": {"suites": [], "words": ["instruction"]},
        },
    )
    project.snakemake("composed_drawn")
    (folder,) = (path.parent for path in (tmp_path / "manifests/drawn/composed").glob("*/results.parquet"))
    results = read_manifest(folder / "results.parquet")
    assert set(results["suite"]) == {"clean", "mm_robustness"}
    assert set(results["queries"]) == {8 * 4}
    galleries = results["model_key"].str.partition("@")[2]
    assert set(results.loc[galleries == "local_full", "gallery"]) == {7}
    assert set(galleries) == {"local_full", "global_distinct"}
    perturbed = results[results["side"] == "query"]
    assert perturbed["clean_recall_at_1"].notna().all()
    ranks = read_manifest(folder / "ranks.parquet")
    assert len(ranks) == results.loc[results["method"] != "random", "queries"].sum()
    texts = read_manifest(tmp_path / "manifests/drawn/composed/mm_robustness/captions.parquet")
    assert set(texts["dataset"]) == {"drawn"}
    assert texts["changed"].any()
    verified = project.perturb("verify", "manifests")
    assert verified.returncode == 0, verified.stdout
    # Encoded and scored apart from the workflow, the same clips have the same ranks.
    manifests_of = [str(tmp_path / "manifests/drawn" / name) for name in ("sources", "composed/mm_robustness/captions")]
    model = ["--model", str(tmp_path / "model"), "--num-frames", "2", "-o", str(tmp_path / "features")]
    assert main(["encode", *(f"{path}.parquet" for path in manifests_of), *model]) == 0
    assert len(np.load(tmp_path / "features/captions/mm_robustness/keyboard/5.npz")["ids"]) > 0
    clips = str(tmp_path / "features/clips/clean.npz")
    visual = [
        "--split",
        str(tmp_path / "manifests/drawn/composed"),
        "--strategies",
        "visual",
        "--galleries",
        "local_full",
    ]
    assert main(["score", clips, clips, "--direction", "composed", *visual, "-o", str(tmp_path / "scored")]) == 0
    own = read_manifest(tmp_path / "scored/ranks.parquet").set_index("query_id")["rank"]
    theirs = ranks[(ranks["method"] == "visual") & ranks["model_key"].str.endswith("@local_full")]
    assert own.to_dict() == theirs.set_index("query_id")["rank"].to_dict()
    # With a suite of clips, their corpora and features are planned, and nothing that exists is made again.
    project.config["composed"] |= {"suites": ["mm_robustness"], "both": ["mm_robustness/keyboard"]}
    shown = project.snakemake("--dry-run", "--printshellcmds", "--quiet", "host", "--", "composed_drawn").stdout
    assert "suite=mm_robustness, perturbation=pixelate, severity=5" in shown
    assert "job=composed/query/mm_robustness/digital/composed" in shown
    assert "rule composed_split:" not in shown
    # Of another model, features and results are regenerated, and the split and what was perturbed is not.
    project.config["composed"] |= {"suites": [], "both": []}
    tiny_models.save_clip(tmp_path / "model", seed=1)
    shown = project.snakemake("--dry-run", "--printshellcmds", "--quiet", "host", "--", "composed_drawn").stdout
    assert "rule gallery:" in shown
    assert "job=composed/none/clean/clean/composed" in shown
    assert "rule composed_split:" not in shown
    assert "mm_robustness/keyboard" not in shown
