"""What a Snakemake user expects of a workflow: rules that are read, found and overridden in Snakemake's own ways."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import clips
import preloaded
import pytest

from perturbations.cli import rules

PROJECT = Path(__file__).parents[1]
RULES = sorted(PROJECT.glob("workflow/rules/*.smk"))
SETTINGS = """
datasets: {demo: {adapter: demo, clips: 1}}
suites: {mlvp: {perturbations: [fog], severities: [1]}}
storage: {tier: frames, num_frames: 2}
"""
SNAKEFILE = """
import perturbations

configfile: "settings.yaml"

module corpora:
    snakefile:
        perturbations.snakefile()
    config:
        config
    prefix:
        "out/mine"

use rule * from corpora

use rule videos from corpora with:
    resources:
        mem_mb=900,
"""


@pytest.fixture(scope="module")
def overridden(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a workflow that uses this one, and what its run printed."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "Snakefile").write_text(SNAKEFILE)
    (folder / "settings.yaml").write_text(SETTINGS)
    return folder, preloaded.snakemake(folder, "--printshellcmds", "--quiet", "host", "--", "mlvp_demo")


def test_a_rule_s_resources_are_overridden(overridden: tuple[Path, str]) -> None:
    job = re.search(r"(?m)^(?:local)?rule videos:\n(?:    .*\n)+", overridden[1])
    assert job is not None
    assert "mem_mb=900" in job[0]
    assert "wildcards: dataset=demo, suite=mlvp, perturbation=fog, severity=1" in job[0]
    for named in ("input: ", "output: ", "log: ", "benchmark: "):
        assert f"    {named}" in job[0]


def test_one_resource_is_overridden_and_the_others_stay(tmp_path: Path) -> None:
    """By `set-resources`, of a profile too: `use rule ... with: resources:` replaces all that the rule gives."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE.partition("use rule videos")[0])
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    words = ("--dry-run", "--quiet", "host", "--set-resources", "videos:mem_mb=900", "--", "mlvp_demo")
    planned = preloaded.snakemake(tmp_path, *words)
    (resources,) = re.findall(r"(?m)^rule videos:\n(?:    .*\n)*?    resources: (.*)$", planned)
    assert "mem_mb=900" in resources
    assert "runtime=60" in resources


def test_generated_unit_tests_pass(tmp_path: Path) -> None:
    """They copy what a rule declares as its input, and compare what it makes byte for byte."""
    (tmp_path / "videos").mkdir()
    clips.make(tmp_path / "videos/a.mp4")
    (tmp_path / "captions.csv").write_text("item_id,caption\na,a picture moves\n")
    (tmp_path / "Snakefile").write_text(f'include: "{PROJECT}/Snakefile"\n')
    demo, mine = "{adapter: demo, clips: 1}", "{{adapter: folder, annotations: {0}/captions.csv, videos: {0}/videos}}"
    (tmp_path / "config.yaml").write_text(SETTINGS.replace(demo, mine.format(tmp_path)))
    preloaded.snakemake(tmp_path, "mlvp_demo")
    start = [sys.executable, "-m", "snakemake", "--generate-unit-tests", "--", "mlvp_demo"]
    subprocess.run(start, cwd=tmp_path, check=True, capture_output=True)
    # They start `python -m snakemake`, and know none of this run's options.
    program = tmp_path / "bin/python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nshift 2\nexec {preloaded.command("snakemake")[0]} "$@"\n')
    program.chmod(0o755)
    # Not those of pictures and pages: they show clips, which are no inputs of theirs.
    names = ["videos", "videos_manifest"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *(f".tests/unit/test_{name}.py" for name in names)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTEST_ADDOPTS": ""},
    )
    assert done.returncode == 0, done.stdout


def test_a_job_takes_what_its_rule_gives(tmp_path: Path) -> None:
    settings = SETTINGS.replace("clips: 1", "clips: 2, families: true")
    (tmp_path / "config.yaml").write_text(f"{settings}evaluation: {{methods: [tent]}}\n")
    start = ("--snakefile", str(PROJECT / "Snakefile"), "--quiet", "host", "--dry-run", "--printshellcmds")
    planned = preloaded.snakemake(tmp_path, *start, "mlvp_demo", "tta_demo", "composed_demo", "report")
    named = set()
    for line in re.findall("Shell command: perturb rule (.*) 2> ", planned):
        rule, *words = shlex.split(line)
        inspect.signature(rules.job(rule)).bind(**rules.arguments(words))
        named.add(rule)
    assert {"videos", "videos_manifest", "evaluate", "composed_split"} <= named


# --- paths of rules, and the layout ----------------------------------------------------------------------------------


# What no documented way gives: a target's line in the menu, the targets of the command line, and where jobs run.
INNER = re.compile(
    r"\bworkflow\.\w+[\w.]*|rules, [\w.]+\)\.rule\b|\brules\._|from snakemake\.(?!exceptions|utils|logging)[\w.]+"
)


def test_three_places_name_what_is_inside_of_snakemake() -> None:
    snakefiles = [PROJECT / "Snakefile", *PROJECT.glob("workflow/**/Snakefile"), *RULES]
    files = [*snakefiles, *PROJECT.glob("perturbations/**/*.py")]
    lines = [line.partition("#")[0] for path in files for line in path.read_text("utf-8").splitlines()]
    named = [name for line in lines if not line.strip().startswith('"') for name in INNER.findall(line)]
    assert sorted(named) == ["rules, target.name).rule", "workflow.dag_settings.targets", "workflow.local_exec"]
