"""This workflow as a module of another: with a `prefix:`, under other names, with rules and resources overridden."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import clips
import preloaded
import pytest
import yaml
from copies import ROOT

import perturbations
from perturbations import read_manifest
from perturbations.cli import rule as rules
from perturbations.config import file as config_file
from perturbations.corpus.plan import sharding
from perturbations.corpus.plan.corpus_rules import CorpusRules

RULES = sorted(ROOT.glob("workflow/rules/*.smk"))
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
DRAWN = {
    "datasets": {"demo": {"adapter": "demo", "clips": 1}},
    "suites": {"mlvp": {"perturbations": ["fog"], "severities": [1]}},
    "storage": {"tier": "frames", "num_frames": 2},
}
CLIPS = {
    **DRAWN,
    "datasets": {"msr": {"adapter": "msrvtt", "annotations": "data/test.csv", "videos": "data/videos"}},
    "suites": {**DRAWN["suites"], "mm_robustness": {"captions": {"perturbations": ["char_swap"], "severities": [1]}}},
}


def project(folder: Path, snakefile: str, settings: dict[str, Any]) -> Path:
    """A workflow of one's own."""
    folder.mkdir(exist_ok=True)
    (folder / "Snakefile").write_text(snakefile)
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    return folder


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One with two modules, after its one run, which printed what is in `.printed`."""
    folder = project(tmp_path_factory.mktemp("of mine") / "project", SNAKEFILE, {"clips": CLIPS, "drawn": DRAWN})
    (folder / "data/videos").mkdir(parents=True)
    for name in ("video1", "video2"):
        clips.make(folder / f"data/videos/{name}.mp4")
    lines = ["key,vid_key,video_id,sentence", *(f"ret{n},msr{n},video{n},a picture moves {n}" for n in (1, 2))]
    (folder / "data/test.csv").write_text("\n".join(lines))
    (folder / ".printed").write_text(preloaded.snakemake(folder))
    return folder


def test_every_module_makes_its_corpus_below_its_prefix_once(corpora: Path) -> None:
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
    assert "Nothing to be done" in preloaded.snakemake(corpora, "--dry-run")


def test_both_checks_before_the_run_are_printed_and_no_failures_after_it(corpora: Path) -> None:
    printed = (corpora / ".printed").read_text()
    assert "check: msr: 2 of 2 clips found" in printed
    assert "check: demo: 1 clip to generate" in printed
    assert "quarantined or missing" not in printed
    assert "failed job" not in printed


def test_planning_writes_where_jobs_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = config_file.parse(DRAWN, place=Path("results"))
    plan = sharding.plan_clips(config, "demo")
    recipes = CorpusRules(config).video_recipes(SimpleNamespace(dataset="demo", suite="mlvp"))
    assert recipes == "work/demo/mlvp/recipes/videos.jsonl"
    lists = sorted(str(path) for path in Path("results/work/demo/shards").iterdir())
    assert lists == [f"results/work/demo/shards/{shard}.jsonl" for shard in plan.shards]
    assert '"path":"work/demo/videos/' in Path(lists[0]).read_text()
    assert Path("results/work/demo/mlvp/recipes/videos.jsonl").is_file()
    assert not Path("work").exists()


def test_mistakes_are_those_of_the_module(tmp_path: Path) -> None:
    mistaken = {"datasets": {"demo": {"adapter": "demo", "clips": False}}, "suites": {"mlvp": {"severities": [9]}}}
    printed = preloaded.snakemake(project(tmp_path, SNAKEFILE, {"clips": mistaken}), "--dry-run", status=1)
    _, _, message = printed.partition("the configuration is not valid:\n")
    first, second = (re.sub(r"^  settings\.yaml, line \d+: ", "", line) for line in message.splitlines()[:2])
    assert first == "datasets.demo.clips: must be a whole number from 1 to 10000, not false"
    assert second == "suites.mlvp.severities.0: must be a whole number from 1 to 5, not 9"


# --- without a prefix ------------------------------------------------------------------------------------------------

RENAMED = """
configfile: "settings.yaml"

module corpora:
    snakefile:
        {snakefile!r}
    config:
        config["corpora"]

use rule * from corpora as perturbed_*

use rule videos from corpora as perturbed_videos with:
    resources:
        mem_mb=900,

rule count:
    default_target: True
    input:
        "manifests/demo/sources.parquet",
    output:
        "count.txt",
    shell:
        "wc -c < {{input:q}} > {{output:q}}"
"""


@pytest.fixture
def renamed(tmp_path: Path) -> Path:
    """A workflow of one's own that uses this one under other names, with its configuration among others."""
    return project(tmp_path, RENAMED.format(snakefile=perturbations.snakefile()), {"mine": 1, "corpora": DRAWN})


def test_a_module_s_rules_may_have_other_names_beside_one_s_own(renamed: Path) -> None:
    """Its report knows the results that are made with it."""
    listed = preloaded.snakemake(renamed, "--list-target-rules")
    assert re.search(r"^perturbed_mlvp_demo \(1 perturbation of mlvp x severities 1 on", listed, re.MULTILINE)
    assert re.search(r"^count$", listed, re.MULTILINE)
    shown = ("--dry-run", "-p", "--quiet", "host", "--")
    planned = preloaded.snakemake(renamed, *shown, "perturbed_evaluate_demo", "perturbed_report")
    assert re.search(r"^perturbed_report +1$", planned, re.MULTILINE)
    assert "localrules directive specifies" not in planned, "Snakemake does not rename such a list"
    assert "/evaluation/" in planned
    assert "/adaptation/" not in planned, "that is what the report takes where no results are requested"
    preloaded.snakemake(renamed)
    assert (renamed / "count.txt").read_text().strip().isdigit()
    assert not (renamed / "corpora").exists(), "only what the own rule needs is made"


def test_a_rule_s_resources_are_overridden(renamed: Path) -> None:
    """All of them by `use rule ... with: resources:`; one of them by `set-resources`, of a profile too."""
    shown = ("--dry-run", "--quiet", "host", "--set-resources", "perturbed_sources:mem_mb=800")
    planned = preloaded.snakemake(renamed, *shown, "--", "perturbed_mlvp_demo")
    (job,) = re.findall(r"(?m)^(?:local)?rule perturbed_videos:\n(?:    .*\n)+", planned)
    assert "mem_mb=900" in job
    assert "runtime" not in job
    assert "wildcards: dataset=demo, suite=mlvp, perturbation=fog, severity=1" in job
    for named in ("input: ", "output: ", "log: "):
        assert f"    {named}" in job
    (resources,) = re.findall(r"(?m)^rule perturbed_sources:\n(?:    .*\n)*?    resources: (.*)$", planned)
    assert "mem_mb=800" in resources
    assert "runtime=60" in resources


def test_a_module_may_leave_rules_out(renamed: Path) -> None:
    text = (renamed / "Snakefile").read_text()
    few = text.replace("use rule *", "use rule sources, sources_manifest")
    (renamed / "Snakefile").write_text(re.sub("use rule videos .*\n.*\n.*\n", "", few))
    planned = preloaded.snakemake(renamed, "--dry-run", "-p", "--quiet", "host")
    assert re.search(r"^perturbed_sources +1$", planned, re.MULTILINE)


# --- rules that are read, found and tested in Snakemake's own ways ---------------------------------------------------


def test_generated_unit_tests_pass(tmp_path: Path) -> None:
    """They copy what a rule declares as its input, and compare what it makes byte for byte."""
    (tmp_path / "videos").mkdir()
    clips.make(tmp_path / "videos/a.mp4")
    (tmp_path / "captions.csv").write_text("item_id,caption\na,a picture moves\n")
    (tmp_path / "Snakefile").write_text(f'include: "{ROOT}/Snakefile"\n')
    mine = {"adapter": "folder", "annotations": str(tmp_path / "captions.csv"), "videos": str(tmp_path / "videos")}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**DRAWN, "datasets": {"demo": mine}}))
    manifest = "manifests/demo/mlvp/videos.parquet"
    preloaded.snakemake(tmp_path, manifest)
    start = [sys.executable, "-m", "snakemake", "--generate-unit-tests", "--", manifest]  # it asks where it was started
    subprocess.run(start, cwd=tmp_path, check=True, capture_output=True)
    # They start `python -m snakemake`, and know none of this run's options.
    program = tmp_path / "bin/python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nshift 2\nexec {preloaded.command("snakemake")[0]} "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *(f".tests/unit/test_{name}.py" for name in ("videos", "videos_manifest")),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTEST_ADDOPTS": ""},
    )
    assert done.returncode == 0, done.stdout


def test_a_job_takes_what_its_rule_gives(tmp_path: Path) -> None:
    demo = {"adapter": "demo", "clips": 2, "families": True}
    settings = {**DRAWN, "datasets": {"demo": demo}, "evaluation": {"methods": ["tent"]}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    start = ("--snakefile", str(ROOT / "Snakefile"), "--quiet", "host", "--dry-run", "--printshellcmds")
    planned = preloaded.snakemake(tmp_path, *start, "mlvp_demo", "tta_demo", "composed_demo", "report")
    named = set()
    for line in re.findall("Shell command: perturb rule (.*) 2> ", planned):
        rule, *words = shlex.split(line)
        inspect.signature(rules.job(rule)).bind(**rules.arguments(words))
        named.add(rule)
    assert {"videos", "videos_manifest", "evaluate", "composed_split"} <= named


# What no documented way gives: a target's line in the menu, which files a configuration was read from, and for Slurm
# the jobs that will run, the number of places for them, and the way to end a run.
INNER = re.compile(
    r"\bworkflow\.\w+[\w.]*|rules, [\w.]+\)\.rule\b|\brules\._|from snakemake\.(?!exceptions|utils|logging)[\w.]+"
)


def test_few_places_name_what_is_inside_of_snakemake() -> None:
    snakefiles = [ROOT / "Snakefile", *ROOT.glob("workflow/**/Snakefile"), *RULES]
    files = [*snakefiles, *ROOT.glob("perturbations/**/*.py")]
    lines = [line.partition("#")[0] for path in files for line in path.read_text("utf-8").splitlines()]
    named = [name for line in lines if not line.strip().startswith('"') for name in INNER.findall(line)]
    assert sorted({*named}) == [
        "rules, target).rule",
        "workflow.configfiles",
        "workflow.dag.needrun_jobs",
        "workflow.executor_plugin.name",
        "workflow.nodes",
        "workflow.overwrite_configfiles",
        "workflow.resource_settings.cores",
        "workflow.scheduler.executor_error_callback",
    ]
