"""The workflow as a module with a `prefix:`, so that several corpora lie in folders of their own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import clips
import preloaded
import pytest
import yaml

from perturbations import read_manifest
from perturbations.config import file as config_file
from perturbations.plan import sharding
from perturbations.plan.rules import CorpusRules

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
        "drawn"
    config:
        config["drawn"]

use rule * from drawn as drawn_*

rule mine:
    default_target: True
    input:
        "results/real clips/manifests/msr/mlvp/videos.parquet",
        "results/real clips/manifests/msr/mm_robustness/captions.parquet",
        "drawn/manifests/demo/mlvp/videos.parquet",
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


def test_both_checks_before_the_run_are_printed_and_no_failures_after_it(corpora: Path) -> None:
    printed = (corpora / ".printed").read_text()
    assert "preflight: clips of msr: 2 present" in printed
    assert "preflight: clips of demo: 1 to draw" in printed
    assert "quarantined or missing" not in printed
    assert "failed job" not in printed


def test_nothing_is_made_again(corpora: Path) -> None:
    assert "Nothing to be done" in preloaded.snakemake(corpora, "--dry-run")


def test_planning_writes_where_jobs_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = config_file.parse(SETTINGS["drawn"], place=Path("results"))
    plan = sharding.plan_clips(config, "demo")
    assert (
        CorpusRules(config).video_recipes(SimpleNamespace(dataset="demo", suite="mlvp"))
        == "work/demo/mlvp/recipes.jsonl"
    )
    lists = sorted(str(path) for path in Path("results/work/demo/shards").iterdir())
    assert lists == [f"results/work/demo/shards/{shard}.jsonl" for shard in plan.shards]
    assert '"path":"work/demo/videos/' in Path(lists[0]).read_text()
    assert Path("results/work/demo/mlvp/recipes.jsonl").is_file()
    assert not Path("work").exists()


def test_mistakes_are_those_of_the_module(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    settings = "clips:\n  datasets: {demo: {adapter: demo, clips: no}}\n  suites:\n    mlvp: {severities: [9]}\n"
    (tmp_path / "settings.yaml").write_text(settings)
    printed = preloaded.snakemake(tmp_path, "--dry-run", status=1)
    _, _, message = printed.partition("the configuration of this module is not valid:\n")
    first, second = message.splitlines()[:2]
    assert first.strip().startswith("datasets.demo.clips: Input should be a valid integer, not False")
    assert second.strip() == "suites.mlvp.severities.0: Input should be less than or equal to 5, not 9"
