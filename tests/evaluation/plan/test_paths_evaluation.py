"""What jobs of evaluations read and write, from the configuration alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from workflow_project import KEY, configured, planned

from perturbations.base.errors import ConfigError
from perturbations.config.sections import Config
from perturbations.corpus.plan import folders
from perturbations.corpus.plan.sharding import DatasetPlan
from perturbations.evaluation.plan import evaluation_files as evaluation_paths
from perturbations.evaluation.plan import planned_runs as evaluation
from perturbations.evaluation.plan.evaluation_rules import loaded_model
from perturbations.evaluation.result_rows import Run

_Place = tuple[str, str, str, str]
CLEAN: tuple[_Place, _Place] = (("v2t", "none", "clean", "clean"), ("t2v", "none", "clean", "clean"))


def evaluated(**settings: Any) -> Config:
    return configured(evaluation={"severities": [2], "methods": ["tent", "qbnorm"], "querybank": "train", **settings})


def jobs(settings: Config, kind: str = "adaptation") -> dict[str, list[Run]]:
    return evaluation_paths.jobs(settings, "tiny", kind)


def inputs_of(settings: Config, place: Sequence[str], kind: str = "evaluation") -> folders.Inputs:
    return of_runs(settings, jobs(settings, kind)["/".join((*place, kind))])


def of_runs(settings: Config, runs: Sequence[Run]) -> folders.Inputs:
    plans = planned(tiny={"s1": {"a"}, "s2": {"b"}})
    return evaluation_paths.job_inputs(settings, runs, plans, lambda dataset: (f"{dataset}_c1", "c2"))


ENCODED = f"work/tiny/evaluation/{KEY}"


def test_clean_queries_need_no_parts_and_mixed_ones_the_mixed_manifests() -> None:
    common = {
        "captions": "manifests/tiny/captions.parquet",
        "clips": [],
        "texts": [],
        "mixes": [],
        "model": "work/demo_encoder",
    }
    assert inputs_of(evaluated(), CLEAN[0]) == {**common, "encoded": [f"{ENCODED}/captions.safetensors"]}
    assert inputs_of(evaluated(), CLEAN[1]) == {**common, "encoded": [f"{ENCODED}/clips.safetensors"]}
    settings = evaluated(suites=["mlvp"], mixes=["mixed_types", "mixed_severity"])
    inputs = inputs_of(settings, ("v2t", "query", "mlvp", "mixed"))
    assert inputs["clips"] == []
    folder = "manifests/tiny/mlvp"
    # Of `released`, a job draws each batch's share from the videos.
    assert inputs["mixes"] == [f"{folder}/mixed_severity.parquet", f"{folder}/videos.parquet"]
    settings = evaluated(suites=["mlvp"], mixes=["mixed_types", "mixed_severity"], seeds=[7])
    of_seed = inputs_of(settings, ("v2t", "query", "mlvp", "mixed"))
    assert of_seed["mixes"] == [f"{folder}/videos.parquet"]


@pytest.mark.parametrize("direction", ["v2t", "t2v"])
@pytest.mark.parametrize("side", ["query", "gallery", "both"])
def test_what_is_perturbed_is_read_from_its_parts(side: str, direction: str) -> None:
    settings = configured(
        suites={"msrvtt_p": {"severities": [2, 3]}},
        evaluation={"severities": [2], "suites": ["msrvtt_p"], "sides": [side]},
    )
    every = jobs(settings, "evaluation")
    wanted = {job: runs for job, runs in every.items() if job.startswith(f"{direction}/{side}/")}
    assert len(wanted) > 1
    modality = {("v2t", "query"): "clips", ("t2v", "gallery"): "clips"}.get((direction, side), "captions")
    for scenarios in wanted.values():
        inputs = of_runs(settings, scenarios)
        clips = dict.fromkeys(f"{scenario.perturbation}/{scenario.severity}" for scenario in scenarios)
        shards = [(part, shard) for part in clips for shard in ("s1", "s2")]
        parts = {
            "clips": [f"work/tiny/msrvtt_p/{part}/{shard}.parquet" for part, shard in shards]
            + [f"corpora/tiny/msrvtt_p/{part}/.{shard}.json" for part, shard in shards],
            "texts": [f"work/tiny/msrvtt_p/captions/{shard}.json" for shard in ("tiny_c1", "c2")],
        }
        assert inputs["clips"] == (parts["clips"] if side == "both" or modality == "clips" else [])
        assert inputs["texts"] == (parts["texts"] if side == "both" or modality == "captions" else [])
        clean = [] if side == "both" else [name for name in ("clips", "captions") if name != modality]
        assert inputs["encoded"] == [f"{ENCODED}/{name}.safetensors" for name in clean]


@pytest.mark.parametrize(("job", "modality"), [(CLEAN[0], "clips"), (CLEAN[1], "captions")])
def test_jobs_of_methods_that_need_a_bank_get_it(job: _Place, modality: str) -> None:
    without = inputs_of(evaluated(), job)
    assert inputs_of(evaluated(methods=["tent"]), job, "adaptation") == without
    bank = f"work/train/evaluation/{KEY}/{modality}.safetensors"
    (other,) = {"clips", "captions"} - {modality}
    gallery = f"{ENCODED}/{other}.safetensors"
    for settings, banks in (
        (evaluated(), [bank]),
        (evaluated(methods=["tcr", "csls", "invgc"], gallerybank="tiny"), [bank, gallery]),
    ):
        encoded = [*without["encoded"], *banks]
        assert inputs_of(settings, job, "adaptation") == {**without, "encoded": encoded}


@pytest.mark.parametrize("name", ["fine tuned.pt", "quo'te\"s.pt", "$(touch pwned).pt"])
def test_a_model_is_the_demo_s_encoder_or_a_named_one(tmp_path: Path, name: str) -> None:
    assert evaluation_paths.model_inputs(configured()) == {"model": "work/demo_encoder"}
    assert loaded_model(configured(), None)["pretrained"] == "work/demo_encoder"
    checkpoint = tmp_path / name
    checkpoint.touch()
    settings = configured(evaluation={"model": "some/model", "checkpoint": str(checkpoint)})
    assert evaluation_paths.model_inputs(settings) == {"checkpoint": str(checkpoint)}
    given = loaded_model(settings, None)
    assert (given["pretrained"], given["checkpoint"]) == ("some/model", str(checkpoint))
    braces = checkpoint.rename(tmp_path / "{dataset}.pt")
    with pytest.raises(ConfigError, match=r"evaluation\.checkpoint: rename"):
        evaluation_paths.model_inputs(configured(evaluation={"model": "m", "checkpoint": str(braces)}))


def test_results_have_one_part_per_job() -> None:
    settings = evaluated(suites=["mlvp"], methods=["tent", "sar"], seeds=[42, 7])
    places = dict.fromkeys(job.rpartition("/")[0] for job in jobs(settings))
    assert len(places) > 2
    for kind in ("evaluation", "adaptation"):
        assert evaluation_paths.result_parts(settings, "tiny", jobs(settings, kind)) == [
            f"work/tiny/evaluation/{KEY}/{name}/{kind}.parquet" for name in places
        ]


INVGC = {"methods": ["invgc"], "querybank": "cooking", "gallerybank": "train"}


@pytest.mark.parametrize(
    ("keys", "kind", "without", "refused"),
    [
        ({}, "evaluation", "tiny", True),
        ({}, "evaluation", "train", False),
        ({"methods": ["qbnorm"], "querybank": "train"}, "adaptation", "train", True),
        ({"methods": ["qbnorm"], "querybank": "train"}, "evaluation", "train", False),
        ({"methods": ["qbnorm"], "querybank": "train", "directions": ["v2t"]}, "adaptation", "train", False),
        ({"methods": ["tcr"], "querybank": "train"}, "adaptation", "train", False),
        ({**INVGC, "directions": ["v2t"]}, "adaptation", "train", True),
    ],
)
def test_a_retrieval_without_captions_is_refused_before_the_first_job(
    keys: dict[str, Any], kind: str, without: str, refused: bool
) -> None:
    settings = configured(evaluation=keys)
    plans = {name: DatasetPlan((), {}, listed=5, captions=5 * (name != without)) for name in settings.datasets}
    if refused:
        with pytest.raises(ConfigError, match=rf"needs captions, and datasets\.{without} has none"):
            evaluation_paths.results(settings, "tiny", kind, plans.__getitem__, lambda name: ())
    else:
        assert evaluation_paths.results(settings, "tiny", kind, plans.__getitem__, lambda name: ()).files


OTHER = "xpool-vitb16-qs-0badcafe"


@pytest.mark.parametrize(
    ("requested", "exist", "shown"),
    [
        ([], [], [("tiny", "adaptation", "")]),
        (["tta_train", "report"], [], [("train", "adaptation", "")]),
        (["evaluate_train"], [], [("train", "evaluation", "")]),
        (["evaluate_tiny", "tta_tiny"], [], [("tiny", "adaptation", "")]),
        (["composed_tiny"], ["tiny/evaluation/"], [("tiny", "evaluation", ""), ("tiny", "composed", "")]),
        ([], ["tiny/composed/"], [("tiny", "composed", "")]),
        ([], ["train/evaluation/"], [("train", "evaluation", "")]),
        ([], ["tiny/evaluation/", "tiny/adaptation/"], [("tiny", "adaptation", "")]),
        (
            ["tta_cooking"],
            ["tiny/evaluation/", f"tiny/adaptation/{OTHER}", f"tiny/evaluation/{OTHER}"],
            [("tiny", "evaluation", ""), ("tiny", "adaptation", OTHER), ("cooking", "adaptation", "")],
        ),
    ],
)
def test_a_report_shows_the_results_that_there_are_and_those_that_are_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    requested: list[str],
    exist: list[str],
    shown: list[tuple[str, str, str]],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in exist:
        dataset, kind, key = name.split("/")
        path = tmp_path / "manifests" / dataset / kind / (key or KEY) / "results.parquet"
        path.parent.mkdir(parents=True)
        path.touch()
    wanted = [f"manifests/{dataset}/{kind}/{key or KEY}/results.parquet" for dataset, kind, key in shown]
    assert evaluation_paths.reported(configured(), requested) == wanted


def test_a_report_takes_ranks_that_are_there_or_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of an older run without ranks are shown without them: they are not evaluated again."""
    monkeypatch.chdir(tmp_path)
    whole, old, planned = (f"manifests/{name}/adaptation/{KEY}/results.parquet" for name in ("whole", "old", "planned"))
    for path in (whole, whole.replace("results.", "ranks."), old):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert evaluation_paths.report_ranks(evaluated(), [whole, old, planned]) == [
        f"manifests/{name}/adaptation/{KEY}/ranks.parquet" for name in ("whole", "planned")
    ]


def test_every_model_has_its_own_key(tmp_path: Path) -> None:
    for folder in ("msrvtt", "lsmdc"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model_best.pth").touch()
    models: list[dict[str, object]] = [
        {},
        {"model": "openai/clip-vit-base-patch32"},
        {"model": "openai/clip-vit-base-patch16"},
        {"model": "/models/a b{c}/$(x)"},
        {"model": "p", "setting": "qgs_zero_shot"},
        {"model": "p", "num_frames": 8},
        *({"model": "p", "checkpoint": str(tmp_path / name / "model_best.pth")} for name in ("msrvtt", "lsmdc")),
        {"model": "p", "pooling": "xpool", "checkpoint": str(tmp_path / "msrvtt/model_best.pth")},
        {"model": "p", "pooling": "xpool", "checkpoint": str(tmp_path / "msrvtt/model_best.pth"), "setting": "qs"},
    ]
    keys = [evaluation.model_key(configured(evaluation=model)) for model in models]
    assert len(set(keys)) == len(models) - 1  # the last only writes the default out
    assert all(re.fullmatch(r"[a-z0-9_-]{1,100}", key) for key in keys)
    assert keys[1].startswith("clip4clip-clip-vit-base-patch32-qs-")
    assert keys[6].startswith("clip4clip-p-msrvtt-model_best-qs-")
    assert evaluation.model_key(evaluated()) == KEY, "methods and severities do not belong to the model"
