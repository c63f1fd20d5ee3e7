"""The workflow as a module with a `prefix:`, so that several corpora lie in folders of their own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import clips
import needs
import preloaded
import pytest
import yaml

import perturbations
from perturbations import read_manifest
from perturbations.base.errors import ConfigError
from perturbations.config import file as config_file
from perturbations.evaluation import paths as evaluation_paths
from perturbations.plan import paths, workplace

pytestmark = needs.wings("demo")

RULES = Path(__file__).parents[1] / "workflow" / "rules"
SNAKEFILE = """
import perturbations

configfile: "settings.yaml"

module clips:
    snakefile:
        perturbations.snakefile()
    prefix:
        "results/real clips"
    config:
        config["clips"]

use rule * from clips as clips_*

module drawn:
    snakefile:
        perturbations.snakefile()
    prefix:
        Path("drawn").absolute()
    config:
        config["drawn"]

use rule * from drawn as drawn_*

rule mine:
    default_target: True
    input:
        "results/real clips/manifests/msr/mlvp/videos.parquet",
        "results/real clips/manifests/msr/mm_robustness/captions.parquet",
        Path("drawn").absolute() / "manifests/demo/mlvp/videos.parquet",
    output:
        "mine.txt",
    shell:
        "pwd > {output:q}; ls {input:q} >> {output:q}"

onstart:
    clips.onstart()
    drawn.onstart()

onsuccess:
    clips.onsuccess()
    drawn.onsuccess()
"""
SETTINGS = {
    "clips": {
        "datasets": {"msr": {"adapter": "msrvtt", "annotations": "data/test.csv", "videos": "data/videos"}},
        "suites": {
            "mlvp": {"perturbations": ["fog"], "severities": [1]},
            "mm_robustness": {"captions": {"perturbations": ["char_swap"], "severities": [1]}},
        },
        "storage": {"tier": "frames", "num_frames": 2},
    },
    "drawn": {
        "datasets": {"demo": {"adapter": "demo", "clips": 1}},
        "suites": {"mlvp": {"perturbations": ["snow"], "severities": [2]}},
        "storage": {"tier": "frames", "num_frames": 2},
    },
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workflow of one's own with two modules, after its one run, which printed what is in `.printed`."""
    folder = tmp_path_factory.mktemp("of mine") / "project"
    videos = folder / "data" / "videos"
    videos.mkdir(parents=True)
    for name in ("video1", "video2"):
        clips.make(videos / f"{name}.mp4")
    lines = ["key,vid_key,video_id,sentence", *(f"ret{n},msr{n},video{n},a picture moves {n}" for n in (1, 2))]
    (folder / "data" / "test.csv").write_text("\n".join(lines))
    (folder / "Snakefile").write_text(SNAKEFILE)
    (folder / "settings.yaml").write_text(yaml.safe_dump(SETTINGS))
    (folder / ".printed").write_text(preloaded.snakemake(folder))
    return folder


def test_every_module_makes_its_corpus_below_its_prefix(corpora: Path) -> None:
    names = {path.name for path in corpora.iterdir() if not path.name.startswith(".")}
    assert names == {"Snakefile", "settings.yaml", "data", "mine.txt", "results", "drawn"}
    rows = read_manifest(corpora / "results/real clips/manifests/msr/mlvp/videos.parquet")
    assert list(rows["status"]) == ["complete"] * 2
    assert all(Path(path).is_relative_to(corpora / "results/real clips/corpora") for path in rows["path"])
    assert [Path(path).resolve() for path in rows["source_path"]] == sorted((corpora / "data/videos").iterdir())
    drawn = read_manifest(corpora / "drawn/manifests/demo/mlvp/videos.parquet")
    assert all(Path(path).is_relative_to(corpora / "drawn/corpora") for path in drawn["path"])
    assert all(Path(path).is_file() for path in (*rows["path"], *drawn["path"], *drawn["source_path"]))
    # Other rules work where Snakemake was started.
    assert (corpora / "mine.txt").read_text().splitlines()[0] == str(corpora)


@needs.wings("preflight")
def test_both_checks_before_the_run_are_printed_and_no_failures_after_it(corpora: Path) -> None:
    printed = (corpora / ".printed").read_text()
    assert "preflight: clips of msr: 2 present" in printed
    assert "preflight: clips of demo: 1 to draw" in printed
    assert "quarantined or missing" not in printed
    assert "failed job" not in printed


@needs.wings("status")
@pytest.mark.parametrize("place", ["results/real clips", "drawn"])
def test_commands_about_a_run_work_in_the_folder(place: str, corpora: Path) -> None:
    def perturb(*arguments: str) -> str:
        command = [*preloaded.command("perturb"), *arguments]
        return subprocess.run(command, cwd=corpora / place, capture_output=True, text=True, check=True).stdout

    assert "The last run has ended" in perturb("status")
    checked = re.findall(r"(\d+) rows, (\d+) of them quarantined or missing; (\d+) problems", perturb("verify"))
    assert checked
    assert {counts[1:] for counts in checked} == {("0", "0")}


def test_nothing_is_made_again_also_where_the_folder_was_moved(corpora: Path, tmp_path: Path) -> None:
    assert "Nothing to be done" in preloaded.snakemake(corpora, "--dry-run")
    moved = tmp_path / "moved"
    corpora.rename(moved)
    try:
        again = preloaded.snakemake(moved, "--dry-run", "results/real clips/manifests/msr/sources.parquet")
        assert "Nothing to be done" in again
        rows = read_manifest(moved / "results/real clips/manifests/msr/mlvp/videos.parquet")
        assert all(Path(path).is_file() for path in (*rows["path"], *rows["source_path"]))
    finally:
        moved.rename(corpora)


# --- the parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "folder"),
    [("", ""), ("results/", "results"), ("a b/c/", "a b/c"), ("/scratch/x/", "/scratch/x"), ("映画/", "映画")],
)
def test_the_folder_of_a_prefix(prefix: str, folder: str) -> None:
    assert workplace.of_module(prefix.__add__) == Path(folder)


@pytest.mark.parametrize(
    ("modified", "reason"),
    [
        ("perturbed_".__add__, "a folder's name and nothing else"),
        (lambda path: path.replace("manifests/", "results/"), "must stay in one folder"),
        (lambda path: path.replace("manifests/", "results/manifests/"), "must stay in one folder"),
        ("work/".__add__, "its own folder of that name"),
        ("../results/".__add__, "absolute path"),
        ("{dataset}/".__add__, "wildcards"),
    ],
)
def test_what_puts_paths_elsewhere_is_refused(modified: Callable[[str], str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        workplace.of_module(modified)


def test_a_file_in_the_way_is_named_and_links_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("results").touch()
    with pytest.raises(ConfigError, match="results: File exists"):
        workplace.prepare_module(Path("results"))
    Path("other/other").mkdir(parents=True)
    with pytest.raises(ConfigError, match="other/other"):
        workplace.prepare_module(Path("other"))
    monkeypatch.chdir(tmp_path)
    Path("a/b/.snakemake").mkdir(parents=True)
    for _ in range(2):
        workplace.prepare_module(Path("a/b"))
    assert os.path.samefile("a/b/a/b", "a/b")
    assert not Path("a/b/.snakemake").is_symlink()


def test_relative_paths_of_a_configuration_hold_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    settings = SETTINGS["clips"] | {"evaluation": {"pretrained": "model", "checkpoint": "best.pth"}}
    (tmp_path / "best.pth").touch()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "clip"}')
    config = config_file.parse(settings, place=Path("results"))
    assert config.datasets["msr"].videos == tmp_path / "data/videos"
    assert evaluation_paths.model_options(config) == [
        f"--pretrained={tmp_path / 'model'}",
        f"--checkpoint={tmp_path / 'best.pth'}",
    ]
    assert config.at("work/x") == Path("results/work/x")
    assert workplace.from_there(str(tmp_path / "data/videos/a.mp4"), config.at("")) == "../data/videos/a.mp4"
    assert workplace.from_there("/elsewhere/a.mp4", config.at("")) == "/elsewhere/a.mp4"
    assert config_file.parse(settings).datasets["msr"].videos == Path("data/videos")


def test_behind_a_link_no_path_leads_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch" / "far").mkdir(parents=True)
    (tmp_path / "results").symlink_to(tmp_path / "scratch" / "far")
    video = str(tmp_path / "data/a.mp4")
    assert workplace.from_there(video, Path("results")) == video
    assert workplace.from_there(video, Path("plain")) == "../data/a.mp4"
    assert workplace.from_there(video, tmp_path / "plain") == video


def test_planning_writes_where_jobs_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = config_file.parse(SETTINGS["drawn"], place=Path("results"))
    plan = paths.plan(config, "demo")
    assert paths.video_recipes(config, "demo", "mlvp") == "work/demo/mlvp/recipes.jsonl"
    lists = sorted(str(path) for path in Path("results/work/demo/shards").iterdir())
    assert lists == [f"results/work/demo/shards/{shard}.jsonl" for shard in plan.shards]
    assert '"path":"work/demo/videos/' in Path(lists[0]).read_text()
    assert Path("results/work/demo/mlvp/recipes.jsonl").is_file()
    assert not Path("work").exists()


def test_every_command_enters_the_folder() -> None:
    for path in RULES.glob("*.smk"):
        if path.name != "store.smk":
            commands = re.findall(r"\n    shell:\n(?: +#.*\n)*\s+(\w+\()", path.read_text())
            assert len(commands) == path.read_text().count("    shell:"), path.name
            assert set(commands) <= {"command("}, path.name


def test_mistakes_are_those_of_the_module(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    settings = "clips:\n  datasets: {demo: {adapter: demo, clips: no}}\n  suites:\n    mlvp: {severities: [9]}\n"
    (tmp_path / "settings.yaml").write_text(settings)
    printed = preloaded.snakemake(tmp_path, "--dry-run", status=1)
    _, _, message = printed.partition("the configuration of the module `clips` is not valid:\n")
    assert [line.strip() for line in message.splitlines()[:2]] == [
        "datasets.demo.clips: Input should be a valid integer, not False",
        "suites.mlvp.severities.0: Input should be less than or equal to 5, not 9",
    ]


NAMES = {"two words": "names .* of scenarios"} | {
    name: f"scenarios.yaml: {name} means something else"
    for name in ("workflow", "SCENARIOS", "SETTINGS", "__builtins__", "class")
}


@needs.wings("preflight", "report")
def test_scenarios_lie_side_by_side_and_have_one_report(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(SETTINGS["drawn"]))
    (tmp_path / "scenarios.yaml").write_text("seed_0: {}\nother: {seed: 1, suites: {mlvp: {severities: [2, 3]}}}\n")
    scenarios = ("--snakefile", str(perturbations.snakefile("scenarios.smk")))
    assert "preflight: clips of demo: 1 to draw" in preloaded.snakemake(tmp_path, *scenarios)
    rows = [
        read_manifest(tmp_path / f"results/{name}/manifests/demo/mlvp/videos.parquet") for name in ("seed_0", "other")
    ]
    assert [(set(table["seed"]), list(table["severity"])) for table in rows] == [({0}, [2]), ({1}, [2, 3])]
    assert "Nothing to be done" in preloaded.snakemake(
        tmp_path, *scenarios, "--dry-run", "mlvp_demo", "other_mlvp_demo"
    )
    preloaded.snakemake(tmp_path, *scenarios, "--report", "report.html")
    report = (tmp_path / "report.html").read_text()
    assert all(report.count(f'"folder": "results/{name}"') >= 2 for name in ("seed_0", "other"))
    for name, problem in NAMES.items():
        (tmp_path / "scenarios.yaml").write_text(f"{name}: {{}}\n")
        message = preloaded.snakemake(tmp_path, *scenarios, "--dry-run", status=1)
        assert re.search(problem, message), message
        assert "Traceback" not in message
