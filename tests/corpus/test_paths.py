"""What the workflow's rules compute, as plain functions: inputs, options and sizes."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import preloaded
import pytest
import yaml
from clips import make
from copies import ROOT
from workflow_project import configured

from perturbations.base.errors import ConfigError
from perturbations.corpus.plan import corpus_rules, folders

# --- clips -----------------------------------------------------------------------------------------------------------


def test_pretrained_donors_are_asked_for_with_captions_about_main_objects() -> None:
    pretrained = {"backend": "pretrained"}
    jobs = corpus_rules.CorpusRules(configured(backends={"embedding": pretrained, "main_object": pretrained}))
    analysis = jobs.video_analysis(
        SimpleNamespace(dataset="tiny", suite="mlvp", perturbation="event_insertion", severity="2", shard="s1")
    )
    assert analysis == "work/tiny/analyses/caption_embedding/s1.parquet"
    before = {
        name: jobs.analysis_before(SimpleNamespace(dataset="tiny", analysis=name, shard="s1"))
        for name in ("caption_embedding", "motion", "main_object", "embedding")
    }
    assert before.pop("caption_embedding") == "work/tiny/analyses/main_object/s1.parquet"
    assert list(before.values()) == [[]] * 3


@pytest.mark.parametrize(
    ("device", "gpus", "threads"), [("cpu", 0, 1), ("cuda", 1, 8), ("cuda:1", 1, 8), ("mps", 0, 1)]
)
def test_a_gpu_is_a_resource(device: str, gpus: int, threads: int) -> None:
    section = configured(evaluation={"device": device}).evaluation
    assert (section.gpus, section.threads) == (gpus, threads)


# --- text that Snakemake or a shell takes as it is -------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["/usr/bin", "/a b", "/quo'te\"s", "/$(touch pwned)`x`;&", "/{braces}", "/日本語"])
def test_a_shell_finds_the_command_in_any_folder(folder: str) -> None:
    prefix = folders.shell_prefix(Path(folder) / "python").format()  # as Snakemake formats a command
    done = subprocess.run(
        ["/bin/sh", "-c", prefix + 'echo "$PATH"'], env={"PATH": "/bin"}, capture_output=True, text=True
    )
    assert done.stdout == f"{folder}:/bin\n"


@pytest.mark.parametrize("name", ["a{b", "a}b", "{dataset}"])
def test_braces_in_a_path_are_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match="rename .*Snakemake takes the braces for wildcards"):
        folders.without_braces("a folder", Path("/data") / name)


# --- the shell -------------------------------------------------------------------------------------------------------


HOSTILE = 'it\'s "a" $(touch pwned) `touch pwned`; touch pwned\n{input}{wildcards.x} | & > x \\'


def commands() -> list[tuple[str, str]]:
    """Every rule's command, with the name of its file."""
    blocks = []
    for path in sorted((ROOT / "workflow/rules").glob("*.smk")):
        for block in re.findall(r"^    shell:\n((?:        .*\n)+)", path.read_text(), re.MULTILINE):
            blocks.append((path.name, block))
    return blocks


def test_every_value_in_a_command_is_quoted_and_no_param_plain_text() -> None:
    assert len(commands()) > 10
    fields = [(name, field) for name, block in commands() for field in re.findall(r"\{([^}]*)\}", block)]
    assert len(fields) > 40
    assert [(name, field) for name, field in fields if not field.endswith(":q")] == []
    # Snakemake takes braces in those for wildcards.
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        for block in re.findall(r"^    params:\n((?:        .*\n)+)", path.read_text(), re.MULTILINE):
            plain = re.findall(r"^        \w+=(?!lambda|[a-z_]+,$)(.*)", block, re.MULTILINE)
            assert [text for text in plain if "CONFIG" in text and "CONFIG.seed" not in text] == []


def dry_run(root: Path, settings: dict[str, Any]) -> str:
    """What is printed, with the commands of jobs."""
    (root / "videos").mkdir(exist_ok=True)
    make(root / "videos" / "a.mp4", frames=2)
    (root / "captions.json").write_text(json.dumps([{"item_id": "a", "caption": "a cat"}]))
    dataset = {"adapter": "folder", "annotations": "captions.json", "videos": "videos"}
    suites = {"mlvp": {"perturbations": ["style_transfer"], "severities": [1]}}
    (root / "config.yaml").write_text(yaml.safe_dump({"datasets": {"tiny": dataset}, "suites": suites, **settings}))
    shown = ("--dry-run", "--printshellcmds", "--quiet", "host")
    snakefile = str(ROOT / "Snakefile")
    return preloaded.snakemake(root, "--snakefile", snakefile, *shown, "--", "mlvp_tiny", "evaluate_tiny")


def test_hostile_settings_reach_a_program_as_one_word_each(tmp_path: Path) -> None:
    style = tmp_path / "style $(touch pwned) {dataset}"
    style.mkdir()
    hostile = {
        "evaluation": {"model": HOSTILE, "revision": "{wildcards.x}`touch pwned`", "methods": ["tent"]},
        "backends": {"style": {"backend": "offline", "images": str(style)}},
    }
    output = dry_run(tmp_path, hostile)
    assert not list(tmp_path.rglob("pwned"))
    commands = re.findall(r"^Shell command: (perturb rule gallery .*?)\n\n", output, re.MULTILINE | re.DOTALL)
    assert len(commands) == 2  # of clips and of captions
    for command in commands:
        words = shlex.split(command)
        assert json.loads(words[3])["model"]["pretrained"] == HOSTILE
    (video,) = re.findall(r"^Shell command: (perturb rule videos .*?)\n\n", output, re.MULTILINE | re.DOTALL)
    words = shlex.split(video)
    assert json.loads(words[3])["recipe"]["guide"]["files"]["images"] == str(style)
    # As a shell sees them: nothing but the command's words.
    command = commands[0].rpartition(" 2> ")[0]
    seen = subprocess.run(["sh", "-c", f"printf '%s\\0' {command}"], cwd=tmp_path, capture_output=True, check=True)
    assert seen.stdout.decode().split("\0")[:-1] == shlex.split(command)
    assert not list(tmp_path.rglob("pwned"))
