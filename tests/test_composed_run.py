"""Composed retrieval as users run it: plans, manifests, the runner, the workflow."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_workflow import Project

from perturbations import read_manifest
from perturbations.base.errors import ConfigError, ManifestError
from perturbations.cli.main import main
from perturbations.composed import manifests, sources
from perturbations.composed import paths as composed_paths
from perturbations.composed import planning as composed
from perturbations.composed.gallery_sets import NAMES, gallery
from perturbations.composed.modifications import ComposedQuery, PoolClip, Split
from perturbations.config import file as config_file
from perturbations.config import sections as configuration
from perturbations.manifest import files
from perturbations.plan import items, targets
from perturbations.plan.sharding import DatasetPlan

EGOCVR_POOL = [("u_0_9", "#C C cuts", "u"), ("u_9_18", "#C C peels", "u"), ("u_20_29", "#C C walks", "u")]


def write_egocvr(folder: Path, pool: Sequence[tuple[str, ...]] = EGOCVR_POOL) -> dict[str, str]:
    """The official files, of one query, and the settings of the dataset."""
    folder.mkdir(exist_ok=True)
    lines = ["clip_name,narration_text,video_uid", *(",".join(row) for row in pool)]
    (folder / "egocvr_data.csv").write_text("\n".join(lines) + "\n")
    header = "video_clip_id,target_clip_ids,video_clip_narration,target_clip_narration,instruction,modified_captions"
    row = "u_0_9,['u_9_18'],#C C cuts,#C C peels,Peel it., #C C peels"
    (folder / "egocvr_annotations.csv").write_text(f"{header}\n{row}\n")
    return {"adapter": "egocvr", "annotations": str(folder / "egocvr_annotations.csv"), "videos": str(folder)}


def parse(dataset: dict[str, Any], **more: Any) -> configuration.Config:
    return config_file.parse({"datasets": {"mine": dataset}, "suites": {"mlvp": {}}, **more})


def split_of(dataset: dict[str, Any]) -> Split:
    config = parse(dataset)
    settings = config.datasets["mine"]
    source = sources.source_of(settings.adapter)
    assert source is not None
    listing = items.read("mine", settings, videos=False)
    return source.split(settings, listing, 0, "mine")


# --- plans -----------------------------------------------------------------------------------------------------------

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


def test_halves_of_the_queries_are_perturbed_alone_and_together() -> None:
    config = planned(both=["mm_robustness/ocr"])
    scenarios = composed.scenarios(config, "mine")
    shown = [
        (
            scenario.perturbed,
            scenario.clips and scenario.clips.part,
            scenario.instructions and scenario.instructions.part,
        )
        for scenario in scenarios
    ]
    assert shown == [
        ("nothing", None, None),
        ("clips", "fog/3", None),
        ("clips", "pixelate/5", None),
        ("instructions", None, "keyboard/2"),
        ("instructions", None, "ocr/2"),
        ("both", "fog/3", "ocr/2"),
        ("both", "pixelate/5", "ocr/2"),
    ]
    jobs = composed.jobs(config, "mine")
    assert list(jobs) == [("clean", "clean"), ("mlvp", "low"), ("mm_robustness", "digital")]
    assert sorted(map(str, scenarios)) == sorted(str(scenario) for members in jobs.values() for scenario in members)
    assert composed.text_suites(config, "mine") == ["mm_robustness"]
    assert composed.of_instructions(config, "mine", "mm_robustness") == [("keyboard", 2), ("ocr", 2)]
    with pytest.raises(ConfigError, match="no composed retrieval mlvp/high"):
        composed.settings(config, "mine", ("mlvp", "high"))


def test_only_clean_queries_are_asked_when_no_suite_is_named() -> None:
    config = planned(suites=[], text_suites=[])
    assert [scenario.perturbed for scenario in composed.scenarios(config, "mine")] == ["nothing"]


def test_what_a_job_reads() -> None:
    config = planned(both=["mm_robustness/ocr"])
    clean = composed_paths.inputs(config, "mine", ("clean", "clean"))
    assert "queries" not in clean
    assert clean["texts"] == ["work/mine/composed/mm_robustness/captions/s0.json"]
    fog = composed_paths.inputs(config, "mine", ("mlvp", "low"))
    assert fog["queries"] == "work/mine/composed/features/mlvp/low.safetensors"
    plan = DatasetPlan(("s1", "s2"), {}, 2, 0)
    encoded = composed_paths.feature_inputs(config, "mine", "mlvp", "low", lambda name: plan)
    assert encoded["parts"] == [
        *(f"work/mine/mlvp/fog/3/{shard}.parquet" for shard in plan.shards),
        *(f"corpora/mine/mlvp/fog/3/.{shard}.json" for shard in plan.shards),
    ]
    assert composed_paths.job_options({name: path for name, path in fog.items() if name != "pretrained"}) == [
        "--clips",
        "work/mine/composed/features/clean/clean.safetensors",
        "--queries",
        "work/mine/composed/features/mlvp/low.safetensors",
    ]


def test_the_time_of_a_job_follows_from_clips_queries_and_scenarios() -> None:
    few, many = (DatasetPlan(("s1",), {}, count, 0, captions=count) for count in (1000, 100_000))
    once, twice = (planned(suites=["mlvp"], severities=chosen) for chosen in ([3], [1, 3]))

    def features(config: configuration.Config, plan: DatasetPlan) -> int:
        return composed_paths.feature_minutes(config, "mine", "mlvp", "low", lambda name: plan)

    def scenarios(config: configuration.Config, plan: DatasetPlan) -> int:
        return composed_paths.job_minutes(config, "mine", composed.CLEAN, lambda name: plan)

    assert features(once, few) < features(once, many) < features(twice, many)
    assert scenarios(once, few) < scenarios(once, many)
    fewer_words = planned(words=["instruction"])
    assert scenarios(fewer_words, many) < scenarios(planned(), many)


def test_targets_of_composed_retrieval(tmp_path: Path) -> None:
    ego = write_egocvr(tmp_path / "ego")
    datasets = {"drawn": DEMO, "plain": {"adapter": "demo"}, "ego": ego}
    config = config_file.parse({"datasets": datasets, "suites": SUITES, "composed": {"suites": []}})
    menu = {
        target.name: target
        for target in targets.menu(config, lambda name: DatasetPlan((), {}, 0, 0), lambda name: ())
        if target.name.startswith(("composed", "egocvr"))
    }
    assert list(menu) == ["egocvr", "composed_drawn", "composed_plain", "composed_ego"]
    assert menu["egocvr"].request().files == menu["composed_ego"].request().files
    assert "manifests/drawn/composed/mm_robustness/captions.parquet" in menu["composed_drawn"].request().files
    with pytest.raises(ConfigError, match="`families: true`"):
        menu["composed_plain"].request()
    with pytest.raises(ConfigError, match="no dataset of the adapter 'youcook2'"):
        composed_paths.composed_of_adapter(config, "youcook2", lambda name: DatasetPlan((), {}, 0, 0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"galleries": ["local"]}, "composed.galleries.0: no gallery 'local'; known: global_rows"),
        ({"galleries": []}, "composed.galleries: "),
        ({"suites": ["msrvtt_p"]}, "composed.suites: 'msrvtt_p' is not among `suites`"),
        ({"text_suites": ["x"]}, "composed.text_suites: 'x' is not among `suites`"),
        ({"both": ["keyboard"]}, "composed.both: 'keyboard' is no perturbation of captions"),
        ({"both": ["mm_robustness/pixelate"]}, "composed.both: 'mm_robustness/pixelate' is no perturbation"),
        ({"words": ["gt", "gt"]}, "composed.words: lists a value twice"),
        ({"shortlist": 0}, "composed.shortlist: "),
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        planned(**wrong)
    assert message in str(error.value)


# --- manifests -------------------------------------------------------------------------------------------------------


def clip(name: str, start_s: float, narration: str = "", video: str = "v") -> PoolClip:
    return PoolClip(clip_id=name, video_id=video, narration=narration or name, start_s=start_s, end_s=start_s + 5)


SPLIT = Split(
    (
        clip("a", 0),
        clip("b", 10),
        clip("c", 20),
        clip("d", 30),
        clip("d", 30, "d again"),
        clip("e", 11),
        clip("f", 0, video="w"),
    ),
    (
        ComposedQuery(
            query_id="0", clip="a", targets=("b",), instruction="Use a spoon.", instruction_source="official"
        ),
        ComposedQuery(query_id="1", clip="c", targets=("d", "b", "d"), instruction="Peel it.", modified_caption="x"),
        ComposedQuery(query_id="2", clip="b", targets=("b",), instruction="No change."),
    ),
    {"b": (3, 5), "d": (4,)},
    frozenset({"b"}),
    {"local_official": ((1, 3), (1, 4), (0,)), "global_official": ((1, 2, 3, 5, 6), (0, 1, 3, 4, 5), (0, 2))},
)


def written(folder: Path, split: Split = SPLIT, **wanted: Any) -> Split:
    manifests.write(split, folder, "data", NAMES, {"root": "."}, **wanted)
    again, dataset = manifests.read(folder)
    assert dataset == "data"
    return again


@pytest.mark.parametrize("deduplicate", [False, True])
def test_a_split_comes_back_and_its_galleries_are_ranges(deduplicate: bool, tmp_path: Path) -> None:
    again = written(tmp_path, deduplicate=deduplicate)
    labelled = manifests.labelled(SPLIT)
    assert again == replace(labelled, galleries=again.galleries)
    assert [query.kind for query in again.queries] == ["object", "temporal", "temporal"]
    rows = files.read_rows(tmp_path / "galleries.parquet", files.kind_of(tmp_path / "galleries.parquet"))
    for name in (*NAMES, *SPLIT.galleries):
        for number, members in enumerate(gallery(SPLIT, name, deduplicate=deduplicate)):
            held: set[int] = set()
            for row in sorted((row for row in rows if row.gallery == name), key=lambda row: not row.included):
                if row.query_id in (None, str(number)):
                    own = {*range(row.first_row, row.end_row)}
                    held = held | own if row.included else held - own
            assert held == {*members}, (name, number)
    if not deduplicate:
        assert {name: list(map(tuple, rows)) for name, rows in again.galleries.items()} == {
            name: list(rows) for name, rows in SPLIT.galleries.items()
        }
    about = files.read_metadata(tmp_path / "queries.parquet")
    assert about["odd"]["only_own_target"] == 1
    assert about["sources"]["instruction"] == {"official": 1, "": 2}
    assert {comparison["given"] for comparison in about["official"]} == {*SPLIT.galleries}


def test_galleries_of_egocvr_take_a_few_megabytes(reference: Path, tmp_path: Path) -> None:
    annotations = reference / "data" / "egocvr" / "egocvr_annotations.csv"
    split = split_of({"adapter": "egocvr", "annotations": str(annotations), "videos": str(tmp_path)})
    manifests.write(split, tmp_path, "data", NAMES, {"root": "."})
    assert sum(path.stat().st_size for path in tmp_path.glob("*.parquet")) < 3_000_000


def test_what_is_missing_is_in_no_gallery_and_asks_nothing() -> None:
    every = frozenset(query.query_id for query in SPLIT.queries)
    part = manifests.restricted(SPLIT, frozenset("abcef"), every)
    assert [row.clip_id for row in part.pool] == ["a", "b", "c", "e", "f"]
    assert [query.targets for query in part.queries] == [("b",), ("b",), ("b",)]
    assert part.blocks == {"b": (3,)}
    assert part.galleries["local_official"] == [(1,), (1,), (0,)]
    assert [query.query_id for query in manifests.restricted(SPLIT, frozenset("abcde"), frozenset("1")).queries] == [
        "1"
    ]
    assert [query.query_id for query in manifests.restricted(SPLIT, frozenset("cd"), every).queries] == ["1"]
    assert manifests.restricted(SPLIT, frozenset("abcdefg"), every) is SPLIT


@pytest.mark.parametrize("text", ["{", "[[0, 8]]", "[[2, 1]]", "[[0, 1, 2]]", "7", '[["0", 1]]'])
def test_a_strangers_ranges_stay_in_the_pool(text: str, tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / "pool.parquet"
    rows = files.read_rows(path, files.kind_of(path))
    files.write(path, files.kind_of(path), [replace(row, distractors=text) for row in rows], {"root": "."})
    with pytest.raises(ManifestError, match="ranges of the pool's 7 rows"):
        manifests.read(tmp_path)


# --- the runner ------------------------------------------------------------------------------------------------------


@pytest.fixture
def runner() -> Any:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from perturbations.composed import runner as composed_runner

    return composed_runner


def clip_features(*names: str) -> Any:
    """One direction per clip."""
    from perturbations.evaluation.stored_features import StoredFeatures

    return StoredFeatures(Path(), names, np.eye(8, dtype=np.float32)[["abcdefgh".index(name) for name in names]])


def run(runner: Any, queries: Any = None, names: str = "abcdef", split: Split = SPLIT, **changed: Any) -> list[Any]:
    """The results where a query's words are the direction of the clip that they name last."""
    shift = {"suite": "mlvp", "perturbation": "fog", "severity": 5, "variant": "paper"}
    words = {"suite": "mm_robustness", "perturbation": "ocr", "severity": 2, "variant": "paper"}
    scenario = {
        "clips": None if queries is None or queries.clips is None else shift,
        "instructions": None if queries is None or queries.instructions is None else words,
    }
    settings = composed.ComposedSettings.model_validate(
        {
            "adapter": "egocvr",
            "model": "clip4clip",
            "num_frames": 3,
            "frames": "mean",
            "galleries": ("local_full", "global_distinct"),
            "deduplicate": False,
            "strategies": ("text", "visual", "average", "two_stage"),
            "words": ("instruction", "tfcvr"),
            "average": ("unit",),
            "shortlist": 15,
            "first_stage": ("visual",),
            "scenarios": (scenario,),
            "model_key": "tiny",
            "setting": "qs",
            **changed,
        }
    )

    def texts(lines: Sequence[str]) -> Any:
        return np.eye(8, dtype=np.float32)[["abcdefgh".index(line[-1]) for line in lines]]

    encoded = runner.Encoded(clip_features(*names), texts, "sum")
    rows, ranks = runner.evaluate(settings, split, "data", encoded, lambda scenario: queries or runner.Queries())
    counts = Counter((rank.model_key, rank.method) for rank in ranks)
    assert counts == {(row.model_key, row.method): row.queries for row in rows if row.method != "random"}
    return list(rows)


PLAIN = replace(
    SPLIT,
    queries=tuple(
        replace(query, instruction=words) for query, words in zip(SPLIT.queries, ("to b", "to e", "to b"), strict=True)
    ),
    galleries={},
)


def test_every_way_in_every_gallery_beside_chance(runner: Any) -> None:
    rows = {(row.model_key, row.method): row for row in run(runner, split=PLAIN)}
    # No words for tfcvr, which one query lacks.
    assert {method for _, method in rows} == {
        "random",
        "text, instruction",
        "visual",
        "average unit, instruction",
        "two_stage visual, instruction",
    }
    local, everywhere = rows["tiny@local_full", "text, instruction"], rows["tiny@global_distinct", "text, instruction"]
    assert len(rows) == 10
    assert (local.queries, local.missing_queries) == (2, 1)  # one has no target in its gallery
    assert (everywhere.queries, everywhere.missing_queries) == (3, 0)  # as the released code counts
    assert (local.recall_at_1, local.recall_at_2) == (50.0, 100.0)
    assert everywhere.recall_at_1 == pytest.approx(100 / 3)
    assert everywhere.recall_at_100 == pytest.approx(200 / 3)
    assert rows["tiny@local_full", "random"].recall_at_1 == pytest.approx(100 * (1 / 3 + 2 / 3) / 2)
    assert (local.gallery, local.gallery_mean) == (3, 3.0)
    assert (local.direction, local.side, local.suite, local.severity) == ("composed", "none", "clean", 0)
    assert json.loads(local.settings)["shortlist"] == 15


def test_missing_clips_are_counted(runner: Any) -> None:
    rows = run(runner, names="bcdef", split=PLAIN)
    assert {row.model_key: row.missing_queries for row in rows} == {"tiny@local_full": 2, "tiny@global_distinct": 1}
    with pytest.raises(ManifestError, match="no query is left"):
        run(runner, names="f", split=PLAIN)


def test_only_what_a_perturbation_changes_is_evaluated(runner: Any) -> None:
    clips = run(runner, runner.Queries(clips=clip_features("a", "c")), split=PLAIN)
    assert {row.method.split()[0] for row in clips} == {"visual", "average", "two_stage"}
    assert {row.missing_queries for row in clips} == {1}
    shown = {(row.side, row.suite, row.perturbation, row.severity, row.category) for row in clips}
    assert shown == {("query", "mlvp", "fog", 5, "low")}
    words = run(runner, runner.Queries(instructions={"0": "to f", "1": "to d"}), split=PLAIN)
    assert {row.method.split()[0] for row in words} == {"text,", "average", "two_stage"}
    text = next(row for row in words if (row.model_key, row.method) == ("tiny@local_full", "text, instruction"))
    assert (text.recall_at_1, text.suite, text.perturbation) == (50.0, "mm_robustness", "ocr")
    both = run(runner, runner.Queries(clips=clip_features("a"), instructions={"0": "to b", "1": "to d"}), split=PLAIN)
    assert {row.method.split()[0] for row in both} == {"average", "two_stage"}
    assert {row.missing_queries for row in both} == {2}
    assert {(row.perturbation, row.text_perturbation, row.text_severity) for row in both} == {
        ("fog", "mm_robustness/ocr", 2)
    }


def test_galleries_that_the_dataset_brings_are_evaluated_first(runner: Any) -> None:
    split = replace(PLAIN, galleries=SPLIT.galleries)
    keys = dict.fromkeys(row.model_key.partition("@")[2] for row in run(runner, split=split))
    assert list(keys) == ["local_official", "global_official", "local_full", "global_distinct"]


def test_features_come_back_from_their_file(tmp_path: Path, runner: Any) -> None:
    from perturbations.evaluation import features as composed_features

    class Backbone:
        sha256 = "sum"

    path = tmp_path / "a.safetensors"
    composed_features.write(path, {"fog/5": clip_features("a", "b"), "fog/1": clip_features()}, Backbone())  # type: ignore[arg-type]
    again = composed_features.read(path, "sum")
    assert again["fog/5"].ids == ("a", "b")
    assert (again["fog/5"].rows == clip_features("a", "b").rows).all()
    assert again["fog/1"].ids == ()
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ManifestError, match="holds no features"):
        composed_features.read(path, "sum")


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
            "evaluation": {"pretrained": "model", "num_frames": 2},
            "composed": {"suites": [], "words": ["instruction"]},
        },
    )
    project.snakemake("composed_drawn")
    results = read_manifest(tmp_path / "manifests/drawn/composed/results.parquet")
    assert set(results["suite"]) == {"clean", "mm_robustness"}
    assert set(results["queries"]) == {8 * 4}
    galleries = results["model_key"].str.partition("@")[2]
    assert set(results.loc[galleries == "local_full", "gallery"]) == {7}
    assert set(galleries) == {"local_full", "global_distinct"}
    perturbed = results[results["side"] == "query"]
    assert perturbed["clean_recall_at_1"].notna().all()
    ranks = read_manifest(tmp_path / "manifests/drawn/composed/ranks.parquet")
    assert len(ranks) == results.loc[results["method"] != "random", "queries"].sum()
    texts = read_manifest(tmp_path / "manifests/drawn/composed/mm_robustness/captions.parquet")
    assert set(texts["dataset"]) == {"drawn"}
    assert texts["changed"].any()
    verified = project.perturb("verify", "--fast", "manifests")
    assert verified.returncode == 0, verified.stdout
    # Encoded and scored apart from the workflow, the same clips have the same ranks.
    manifests_of = [str(tmp_path / "manifests/drawn" / name) for name in ("sources", "composed/mm_robustness/captions")]
    model = ["--pretrained", str(tmp_path / "model"), "--num-frames", "2", "-o", str(tmp_path / "features")]
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
    shown = project.snakemake("--dry-run", "--printshellcmds", "composed_drawn").stdout
    assert "suite=mm_robustness, perturbation=pixelate, severity=5" in shown
    assert "rule composed_queries:" in shown
    assert "suite=mm_robustness, level=digital" in shown
    assert "rule composed_split:" not in shown
    # Of another model, features and results are regenerated, and the split and what was perturbed is not.
    project.config["composed"] |= {"suites": [], "both": []}
    tiny_models.save_clip(tmp_path / "model", seed=1)
    shown = project.snakemake("--dry-run", "--printshellcmds", "composed_drawn").stdout
    assert "rule composed_clips:" in shown
    assert "corpus=clean, level=clean" in shown
    assert "rule composed_split:" not in shown
    assert "mm_robustness/keyboard" not in shown
