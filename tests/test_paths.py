"""What the workflow's rules compute, as plain functions: inputs, options, sizes, and the files of targets."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import needs
import pytest

from perturbations.base.errors import AnnotationError, ConfigError
from perturbations.cli import main
from perturbations.config import file as config_file
from perturbations.config import sections as config
from perturbations.config.sections import Config
from perturbations.evaluation import paths as evaluation_paths
from perturbations.evaluation import planning as evaluation
from perturbations.evaluation import section
from perturbations.plan import listed, paths, recipe, targets
from perturbations.plan.costs import Workload
from perturbations.plan.sharding import DatasetPlan

FOLDER = {"adapter": "folder", "annotations": "captions.json", "videos": "videos"}
SPANS = {"adapter": "youcook2", "annotations": "captions.csv", "videos": "videos"}


def configured(**settings: Any) -> Config:
    datasets = {"tiny": {**FOLDER, "donors": "train"}, "train": FOLDER, "cooking": SPANS}
    suites: dict[str, Any] = {"mlvp": {"severities": [2, 5]}, "msrvtt_p": {"severities": [2]}}
    return config_file.parse({"datasets": datasets, "suites": suites, **settings})


def video(name: str, dataset: str = "tiny", suite: str = "mlvp", **settings: Any) -> recipe.VideoRecipe:
    return recipe.from_config(configured(**settings), dataset, suite, name, 2)


def not_planned(collection: str) -> DatasetPlan:
    raise AssertionError(f"{collection} is planned, and nothing needs it")


def planned(**videos: Mapping[str, set[str]]) -> paths.Plans:
    """Plans of collections by name (`cooking_whole` for `cooking/whole`): of each shard, the ids of its videos."""

    def plan_of(collection: str) -> DatasetPlan:
        shards = {name: frozenset(ids) for name, ids in videos[collection.replace("/", "_")].items()}
        return DatasetPlan(tuple(shards), shards, listed=7, rejected=0)

    return plan_of


# --- clips -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dataset", "suite", "name", "others"),
    [
        ("tiny", "mlvp", "fog", {}),
        ("cooking", "mlvp", "fog", {}),
        ("cooking/whole", "msrvtt_p", "rotate", {}),
        ("tiny", "mlvp", "motion_blur", {"analysis": "motion"}),
        ("tiny", "mlvp", "main_object_occlusion", {"analysis": "main_object"}),
        ("tiny", "mlvp", "event_insertion", {"analysis": "embedding", "donors": "manifests/train/embedding.parquet"}),
        ("train", "mlvp", "event_insertion", {"analysis": "embedding", "donors": "manifests/train/embedding.parquet"}),
    ],
)
def test_a_kernel_needs_clips_and_what_guides_it(dataset: str, suite: str, name: str, others: dict[str, str]) -> None:
    """Of the same shard; donors come from another dataset or the same."""
    expected = {"sources": f"work/{dataset}/sources/s1.parquet", **others}
    if "analysis" in others:
        expected["analysis"] = f"work/{dataset}/analyses/{others['analysis']}/s1.parquet"
    assert paths.video_inputs(video(name, dataset, suite), dataset, "s1", not_planned) == expected


def test_pretrained_donors_are_asked_for_with_captions_about_main_objects() -> None:
    pretrained = {"backend": "pretrained"}
    wanted = video("event_insertion", backends={"embedding": pretrained, "main_object": pretrained})
    inputs = paths.video_inputs(wanted, "tiny", "s1", not_planned)
    assert inputs["analysis"] == "work/tiny/analyses/caption_embedding/s1.parquet"
    captions = paths.analysis_captions("tiny", "caption_embedding", "s1")
    assert paths.options({"captions": captions}) == ["--captions", "work/tiny/analyses/main_object/s1.parquet"]
    for analysis in ("motion", "main_object", "embedding"):
        assert paths.options({"captions": paths.analysis_captions("tiny", analysis, "s1")}) == []


def test_clips_of_whole_videos_need_their_shards_which_are_options_of_the_command() -> None:
    plans = planned(cooking={"s1": {"a", "b"}, "s2": {"c"}}, cooking_whole={"s3": {"a", "x"}, "s4": {"b"}, "s5": {"c"}})
    wanted = video("rotate", "cooking", "msrvtt_p")
    parts = [paths.video_inputs(wanted, "cooking", shard, plans)["whole"] for shard in ("s1", "s2")]
    assert parts == [
        ["work/cooking/whole/sources/s3.parquet", "work/cooking/whole/sources/s4.parquet"],
        ["work/cooking/whole/sources/s5.parquet"],
    ]
    plans = planned(cooking={"s1": {"a", "b"}}, cooking_whole={"s3": {"a"}, "s4": {"b"}})
    guided = paths.video_inputs(video("event_insertion"), "tiny", "s1", plans)
    cut = paths.video_inputs(video("rotate", "cooking", "msrvtt_p"), "cooking", "s1", plans)
    for inputs in (guided, cut):
        command = ["rule", "videos", "--recipe", "{}", *paths.options(inputs)]
        options = main.parser().parse_args([*command, "--corpus", "corpora", "--output", "part"])
        for name, value in inputs.items():
            expected = Path(value) if isinstance(value, str) else [Path(path) for path in value]
            assert getattr(options, name) == expected


def test_the_parts_of_a_corpus_are_every_scenario_of_every_shard() -> None:
    settings = configured(suites={"mlvp": {"perturbations": ["snow", "fog"], "severities": [5, 1]}})
    parts = paths.video_parts(settings, "tiny", "mlvp", ["s1", "s2"])
    scenarios = recipe.scenarios(settings, "mlvp")
    assert len(scenarios) == 4
    assert parts == [
        f"work/tiny/mlvp/{name}/{severity}/{shard}.parquet" for name, severity in scenarios for shard in ("s1", "s2")
    ]


@needs.wings("demo")
@pytest.mark.parametrize(("adapter", "option"), [("demo", "--demo"), ("folder", "")])
def test_only_the_demo_draws_its_clips(adapter: str, option: str) -> None:
    settings = configured(datasets={"tiny": {**FOLDER, "adapter": adapter}})
    assert paths.demo_option(settings, "tiny") == paths.demo_option(settings, "tiny/whole") == option


def test_recipes_are_written_when_a_manifest_is_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = configured()
    path = paths.video_recipes(settings, "cooking/whole", "msrvtt_p")
    assert path == "work/cooking/whole/msrvtt_p/recipes.jsonl"
    assert listed.read_recipes(Path(path)) == {
        f"{name}/{severity}": recipe.from_config(settings, "cooking/whole", "msrvtt_p", name, severity).text
        for name, severity in recipe.scenarios(settings, "msrvtt_p")
    }
    path = paths.text_recipes(settings, "tiny", "msrvtt_p")
    assert path == "work/tiny/msrvtt_p/captions/recipes.jsonl"
    texts = listed.read_recipes(Path(path))
    assert list(texts)
    assert all(recipe.parse_text(text).text == text for text in texts.values())
    assert texts == paths.texts_of_recipes(settings, "tiny", "msrvtt_p")


# --- sizes -----------------------------------------------------------------------------------------------------------


SMALL = Workload(clips=1000, pixels=27_000_000_000, frame_pixels=320 * 240)
"""A thousand clips of MSR-VTT."""

STYLES = {
    "offline": {"backend": "offline"},
    "pretrained": {
        "backend": "pretrained",
        "encoder": "encoder.pth",
        "encoder_sha256": "0" * 64,
        "decoder": "decoder.pth",
        "decoder_sha256": "0" * 64,
    },
}


def with_pretrained(role: str) -> Config:
    return configured(suites={"msrvtt_p": {}}, backends={role: {"backend": "pretrained"}})


@pytest.mark.parametrize("analysis", paths.ANALYSES)
def test_only_a_pretrained_model_needs_much_memory(analysis: str) -> None:
    own, other = map(with_pretrained, ("main_object", "embedding"))
    if analysis != "main_object":
        own, other = other, own
    assert [paths.analysis_memory_mb(given, analysis, SMALL) for given in (configured(), other)] == [1000, 1000]
    assert (paths.analysis_memory_mb(own, analysis, SMALL) > 1000) == (analysis != "motion")
    assert paths.analysis_minutes(own, analysis, SMALL) >= paths.analysis_minutes(other, analysis, SMALL)


@pytest.mark.parametrize(("device", "gpus"), [("cpu", 0), ("cuda:1", 1)])
@pytest.mark.parametrize("backend", ["offline", "pretrained"])
def test_a_gpu_is_asked_for_where_weights_run_on_one(device: str, gpus: int, backend: str) -> None:
    settings = configured(
        suites={"mlvp": {}}, backends={"device": device, "main_object": {"backend": backend}, "style": STYLES[backend]}
    )
    wanted = gpus if backend == "pretrained" else 0
    assert paths.analysis_gpus(settings, "main_object") == wanted
    assert paths.analysis_gpus(settings, "motion") == 0
    style, fog = (recipe.from_config(settings, "tiny", "mlvp", name, 1) for name in ("style_transfer", "fog"))
    assert paths.video_gpus(settings, style) == wanted
    assert paths.video_gpus(settings, fog) == 0
    more = [size(style, SMALL) > size(fog, SMALL) for size in (paths.video_memory_mb, paths.video_minutes)]
    assert more == [backend == "pretrained"] * 2


def test_pretrained_captions_need_more_memory_and_time() -> None:
    own, other = with_pretrained("captions"), configured()
    assert paths.text_memory_mb(own) > paths.text_memory_mb(other)
    assert paths.text_minutes(own) > paths.text_minutes(other)


@pytest.mark.parametrize(
    ("device", "gpus", "threads"), [("cpu", 0, 1), ("cuda", 1, 8), ("cuda:1", 1, 8), ("mps", 0, 1)]
)
def test_a_gpu_is_a_resource(device: str, gpus: int, threads: int) -> None:
    settings = configured(evaluation={"device": device})
    assert (evaluation_paths.gpus(settings), evaluation_paths.readers(settings)) == (gpus, threads)


# --- text that Snakemake or a shell takes as it is -------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["/usr/bin", "/a b", "/quo'te\"s", "/$(touch pwned)`x`;&", "/{braces}", "/日本語"])
def test_a_shell_finds_the_command_in_any_folder(folder: str) -> None:
    prefix = paths.shell_prefix(Path(folder) / "python").format()  # as Snakemake formats a command
    done = subprocess.run(
        ["/bin/sh", "-c", prefix + 'echo "$PATH"'], env={"PATH": "/bin"}, capture_output=True, text=True
    )
    assert done.stdout == f"{folder}:/bin\n"


@pytest.mark.parametrize("name", ["a{b", "a}b", "{dataset}"])
def test_braces_in_a_path_are_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match="rename .*Snakemake takes the braces for wildcards"):
        paths.without_braces("a folder", Path("/data") / name)


@pytest.mark.parametrize("name", ["a b", "quo'te\"s", "$(touch pwned);`x`", "日本語", "-rf"])
def test_other_names_are_only_names(name: str) -> None:
    assert paths.without_braces("a folder", Path("/data") / name) == f"/data/{name}"
    assert paths.options({"bank_captions": name, "whole": [name, "b"], "none": []}) == [
        *("--bank-captions", name),
        *("--whole", name, "b"),
    ]


# --- evaluations -----------------------------------------------------------------------------------------------------

KEY = evaluation.model_key(configured())
CLEAN: tuple[evaluation.JobKey, evaluation.JobKey] = (
    ("v2t", "none", "clean", "clean"),
    ("t2v", "none", "clean", "clean"),
)


def evaluated(**settings: Any) -> Config:
    return configured(evaluation={"severities": [2], "methods": ["tent", "qbnorm"], "querybank": "train", **settings})


def inputs_of(settings: Config, job: evaluation.JobKey, group: str = "none") -> paths.Inputs:
    plans = planned(tiny={"s1": {"a"}, "s2": {"b"}})
    return evaluation_paths.inputs(settings, "tiny", job, group, plans, lambda dataset: (f"{dataset}_c1", "c2"))


ENCODED = f"work/tiny/evaluation/{KEY}"


@needs.wings("demo")
def test_clean_queries_need_no_parts_and_mixed_ones_the_mixed_manifests() -> None:
    common = {
        "sources": "manifests/tiny/sources.parquet",
        "captions": "manifests/tiny/captions.parquet",
        "pretrained": "work/demo_encoder",
        "checked": f"work/models/{KEY}.json",
        "clips": [],
        "texts": [],
        "mixes": [],
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
    of_seed = inputs_of(settings, ("v2t", "query", "mlvp", "mixed"), "none-seed7")
    assert of_seed["mixes"] == [f"{folder}/videos.parquet"]


@needs.wings("demo")
@pytest.mark.parametrize("direction", ["v2t", "t2v"])
@pytest.mark.parametrize("side", ["query", "gallery", "both"])
def test_what_is_perturbed_is_read_from_its_parts(side: evaluation.Side, direction: evaluation.DirectionName) -> None:
    settings = configured(
        suites={"msrvtt_p": {"severities": [2, 3]}},
        evaluation={"severities": [2], "suites": ["msrvtt_p"], "sides": [side]},
    )
    jobs = {
        job: scenarios for job, scenarios in evaluation.jobs(settings, "tiny").items() if job[:2] == (direction, side)
    }
    assert len(jobs) > 1
    modality = {("v2t", "query"): "clips", ("t2v", "gallery"): "clips"}.get((direction, side), "captions")
    for job, scenarios in jobs.items():
        inputs = inputs_of(settings, job)
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


@needs.wings("demo")
@pytest.mark.parametrize(("job", "modality"), [(CLEAN[0], "clips"), (CLEAN[1], "captions")])
def test_only_a_method_that_needs_a_bank_gets_it(job: evaluation.JobKey, modality: str) -> None:
    without = inputs_of(evaluated(), job, "none")
    assert "bank" not in without
    bank = f"work/train/evaluation/{KEY}/{modality}.safetensors"
    (other,) = {"clips", "captions"} - {modality}
    gallery = f"{ENCODED}/{other}.safetensors"
    for settings, banks in (
        (evaluated(), {"bank": bank}),
        (evaluated(methods=["tcr", "csls", "invgc"], gallerybank="tiny"), {"bank": bank, "gallery_bank": gallery}),
    ):
        assert inputs_of(settings, job, "adapted") == without
        (group,) = (name for name in evaluation.groups(settings) if name.startswith("banks-"))
        assert inputs_of(settings, job, group) == {**without, **banks}


def test_a_job_that_nobody_asks_for_is_an_error() -> None:
    with pytest.raises(ConfigError, match="asks for no evaluation v2t/query/mlvp/mixed of tiny"):
        job: evaluation.JobKey = ("v2t", "query", "mlvp", "mixed")
        evaluation_paths.inputs(evaluated(), "tiny", job, "none", not_planned, lambda name: ())


@needs.wings("demo")
def test_the_places_of_rows_are_options_of_the_command() -> None:
    settings = evaluated(suites=["mlvp", "msrvtt_p"], mixes=["mixed_severity"], sides=["query", "gallery"])
    for job in evaluation.jobs(settings, "tiny"):
        inputs = inputs_of(settings, job, "adapted")
        words = evaluation_paths.asking_options("tiny", job, inputs)
        paths_of = {name: inputs[name] for name in ("sources", "captions")}
        command = [
            "rule",
            "evaluate",
            "--settings={}",
            *evaluation_paths.model_options(settings),
            *paths.options(paths_of),
            *words,
        ]
        options = main.parser().parse_args([*command, "--output=a", "--ranks=b", "--pictures=c"])
        assert options.bank == (Path(str(inputs["bank"])) if "bank" in inputs else None)
        encoded = {Path(path).stem: Path(path) for path in inputs["encoded"]}
        assert (options.encoded_clips, options.encoded_captions) == (encoded.get("clips"), encoded.get("captions"))
        for name, folder, shards, lists in (
            ("clips", options.parts, options.shards, "shards"),
            ("texts", options.text_parts, options.text_shards, "captions"),
        ):
            parts = [part for part in inputs[name] if Path(part).name[0] != "."]  # besides markers of clips
            assert all(Path(part).is_relative_to(folder) for part in parts)
            assert shards == (Path(f"work/tiny/{lists}") if inputs[name] else None)
            assert (folder is None) == (not inputs[name])
        assert [str(options.mixes / Path(path).name) for path in inputs["mixes"]] == inputs["mixes"]


@needs.wings("demo")
@pytest.mark.parametrize("name", ["fine tuned.pt", "quo'te\"s.pt", "$(touch pwned).pt"])
def test_a_model_is_the_demo_s_encoder_or_a_named_one(tmp_path: Path, name: str) -> None:
    assert evaluation_paths.model_inputs(configured()) == {"pretrained": "work/demo_encoder"}
    assert evaluation_paths.model_options(configured()) == ["--pretrained=work/demo_encoder"]
    checkpoint = tmp_path / name
    checkpoint.touch()
    settings = configured(evaluation={"pretrained": "some/model", "checkpoint": str(checkpoint)})
    assert evaluation_paths.model_inputs(settings) == {"checkpoint": str(checkpoint)}
    assert evaluation_paths.model_options(settings) == ["--pretrained=some/model", f"--checkpoint={checkpoint}"]
    braces = checkpoint.rename(tmp_path / "{dataset}.pt")
    with pytest.raises(ConfigError, match=r"evaluation\.checkpoint: rename"):
        evaluation_paths.model_inputs(configured(evaluation={"pretrained": "m", "checkpoint": str(braces)}))


def test_results_have_one_part_per_job_and_group() -> None:
    settings = evaluated(suites=["mlvp"], methods=["tent", "sar"], seeds=[42, 7])
    folders = [f"work/tiny/evaluation/{KEY}/{'/'.join(job)}" for job in evaluation.jobs(settings, "tiny")]
    assert len(folders) > 2
    for kind, group in (("evaluation", "none"), ("adaptation", "adapted")):
        assert evaluation_paths.result_parts(settings, "tiny", kind, "evaluation_pictures") == [
            f"{name}/{group}{seed}.pictures.json" for seed in ("", "-seed7") for name in folders
        ]


OTHER = "xpool-vitb16-qs-0badcafe"


@pytest.mark.parametrize(
    ("requested", "exist", "shown"),
    [
        ([], [], [("tiny", "adaptation", "")]),
        (["tta_train", "report"], [], [("train", "adaptation", "")]),
        (["evaluate_train"], [], [("train", "evaluation", "")]),
        (["evaluate_tiny", "tta_tiny"], [], [("tiny", "adaptation", "")]),
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
        for group in ("none", "adapted"):
            picture = tmp_path / f"work/{dataset}/evaluation/{key or KEY}/v2t/none/clean/clean/{group}.pictures.json"
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture.touch()
    wanted = [evaluation_paths.Reported(dataset, kind, key or KEY) for dataset, kind, key in shown]
    assert evaluation_paths.reported(configured(), requested) == wanted
    for entry in wanted:
        assert entry.results == f"manifests/{entry.dataset}/{entry.kind}/{entry.model_key}/results.parquet"
    expected: list[str] = []
    for entry in wanted:
        if entry.model_key == KEY:
            expected += evaluation_paths.result_parts(evaluated(), entry.dataset, entry.kind, "evaluation_pictures")
        else:
            folder = f"work/{entry.dataset}/evaluation/{OTHER}/v2t/none/clean/clean"
            expected.append(f"{folder}/adapted.pictures.json")
    assert evaluation_paths.report_pictures(evaluated(), wanted) == expected


def test_a_report_takes_ranks_that_are_there_or_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of an older run without ranks are shown without them: they are not evaluated again."""
    monkeypatch.chdir(tmp_path)
    whole, old, planned = (evaluation_paths.Reported(name, "adaptation", KEY) for name in ("whole", "old", "planned"))
    for path in (whole.results, whole.ranks, old.results):
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
        {"pretrained": "openai/clip-vit-base-patch32"},
        {"pretrained": "openai/clip-vit-base-patch16"},
        {"pretrained": "/models/a b{c}/$(x)"},
        {"pretrained": "p", "setting": "qgs_zero_shot"},
        {"pretrained": "p", "num_frames": 8},
        *({"pretrained": "p", "checkpoint": str(tmp_path / name / "model_best.pth")} for name in ("msrvtt", "lsmdc")),
        {"pretrained": "p", "model": "xpool", "checkpoint": str(tmp_path / "msrvtt/model_best.pth")},
        {"pretrained": "p", "model": "xpool", "checkpoint": str(tmp_path / "msrvtt/model_best.pth"), "setting": "qs"},
    ]
    keys = [evaluation.model_key(configured(evaluation=model)) for model in models]
    assert len(set(keys)) == len(models) - 1  # the last only writes the default out
    assert all(re.fullmatch(r"[a-z0-9_-]{1,100}", key) for key in keys)
    assert keys[1].startswith("clip4clip-clip-vit-base-patch32-qs-")
    assert keys[6].startswith("clip4clip-p-msrvtt-model_best-qs-")
    assert evaluation.model_key(evaluated()) == KEY, "methods and severities do not belong to the model"


def test_what_is_calibrated_are_the_configured_perturbations_with_their_versions() -> None:
    suites = {"mlvp": {"perturbations": ["fog", "snow"]}, "msrvtt_p": {"perturbations": ["rotate"], "variant": "paper"}}
    settings = configured(suites=suites)
    assert set(paths.calibrated(settings)) == {"mlvp/fog", "mlvp/snow", "msrvtt_p/rotate"}
    assert all(version >= 1 for version in paths.calibrated(settings).values())
    assert paths.variants(settings) == ["mlvp=released", "msrvtt_p=paper"]


# --- targets ---------------------------------------------------------------------------------------------------------

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
        return paths.plan(settings, collection)

    menu = targets.menu(settings, plans, lambda dataset: paths.caption_shards(settings, dataset))
    entries = {target.name: target for target in (targets.demo(settings, plans), *menu)}
    return entries[name].request()


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


@needs.wings("demo")
def test_targets_say_what_cannot_be_used_and_what_they_need(project: Config) -> None:
    scenarios = len(recipe.scenarios(project, "mlvp"))
    size = f"mlvp on tiny: 7 videos x {scenarios} = {7 * scenarios} videos (1 listed items cannot be used)"
    assert request(project, "mlvp_tiny").sizes == (size,)
    assert request(project, "youcook2_p") == request(project, "msrvtt_p_cooking")
    with pytest.raises(ConfigError, match="no dataset of the adapter 'msrvtt'"):
        request(project, "msrvtt_p")
    with pytest.raises(ConfigError, match="`datasets` has no `demo`: name targets, such as mlvp_tiny"):
        request(project, "all")
    other = configured(datasets={"demo": {"adapter": "demo"}}, suites={"tampering": {}})
    with pytest.raises(ConfigError, match="`suites` has no `mlvp`: name targets, such as tampering_demo"):
        request(other, "all")
    demo = configured(datasets={"demo": {"adapter": "demo", "clips": 2}})
    assert request(demo, "all") == request(demo, "mlvp_demo")


@needs.wings("report")
def test_main_objects_are_listed_where_a_suite_looks_for_them(project: Config) -> None:
    assert "manifests/tiny/main_object.png" in request(project, "mlvp_tiny").files
    assert "manifests/tiny/main_object.png" not in request(project, "msrvtt_p_tiny").files


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


def test_an_adaptation_counts_its_runs(project: Config) -> None:
    wanted = section.Evaluation(
        methods=("tent", "sar"), seeds=(1, 2), directions=("v2t",)
    )  # no captions: none is skipped
    settings = project.model_copy(update={"evaluation": wanted})
    scenarios = len(evaluation.scenarios(settings, "tiny"))
    for name, kind, methods in (("evaluate", "evaluation", 1), ("tta", "adaptation", 3)):
        sides = f"{scenarios} scenarios (1 clean, {scenarios - 1} query)"
        runs = f"{sides} x {methods} methods = {scenarios * methods * 2:,} runs"
        work = request(settings, f"{name}_tiny")
        assert work == targets.TargetWork(
            [f"manifests/tiny/{kind}/{KEY}/results.parquet", f"manifests/tiny/{kind}/{KEY}/ranks.parquet"],
            (f"{kind} on tiny: {runs}",),
        )


@needs.wings("calibration")
def test_a_calibrated_corpus_without_its_table_is_an_error(project: Config) -> None:
    settings = configured(suites={"mlvp": {"severity": "calibrated", "severities": [2]}})
    with pytest.raises(ConfigError, match="`snakemake calibrate_tiny` solves the table"):
        request(settings, "mlvp_tiny")
    assert request(settings, "calibrate_tiny").files[0] == "manifests/tiny/calibration.json"


@needs.wings("calibration")
def test_a_broken_dataset_is_an_error_of_its_own_targets_only(project: Config) -> None:
    Path("captions.json").write_text("[")
    for name in ("mlvp_tiny", "calibrate_tiny", "evaluate_tiny"):
        with pytest.raises((AnnotationError, ConfigError), match=r"captions\.json"):
            request(project, name)
    assert request(project, "mlvp_cooking").files


@needs.wings("calibration")
def test_the_menu_has_each_name_once_and_a_line_for_it() -> None:
    def menu(settings: Config) -> dict[str, str]:
        entries = list(targets.menu(settings, not_planned, lambda dataset: pytest.fail(f"{dataset} is planned")))
        assert len({target.name for target in entries}) == len(entries)
        return {target.name: target.text for target in entries}

    names = menu(configured())
    assert {"msrvtt_p", "youcook2_p", "calibrate_tiny", "evaluate_train", "tta_cooking", "mlvp_tiny"} <= set(names)
    assert {"text_msrvtt_p_cooking", "multimodal_msrvtt_p_train"} <= set(names)
    assert not {"text_mlvp_tiny", "multimodal_mlvp_tiny"} & set(names)
    assert names["mlvp_tiny"].endswith("perturbations of mlvp x severities 2, 5 on the dataset `tiny` (folder)")
    assert all(names.values())
