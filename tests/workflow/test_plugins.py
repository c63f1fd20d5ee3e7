"""Suites and adapters of the user's own: the key `plugins` of `config.yaml`."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import copies
import preloaded
import pytest
import tiny_models
from workflow_project import tiny_clip

import perturbations
from perturbations.base import plugins
from perturbations.base.errors import ConfigError, ManifestError
from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.corpus.plan import recipe, tiers
from perturbations.suites import suite_registry
from perturbations.tta.methods import method_registry as methods

LAMPS = copies.example("extend")
CONFIG = {
    "plugins": ["my suite.py"],
    "datasets": {"own": {"adapter": "notes", "annotations": "notes.txt", "videos": "clips"}},
    "suites": {"lamps": {"severities": [2]}},
}


@pytest.fixture(autouse=True)
def _no_plugins(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(plugins, "_plugins", {})
    yield
    plugins._plugins.clear()
    plugins.use([])


def project(folder: Path) -> Path:
    (folder / "my suite.py").write_text(LAMPS)
    (folder / "notes.txt").write_text("first: a lamp is lit\nsecond: a lamp goes out\n")
    for seed, name in enumerate(("first", "second")):
        tiny_clip(folder / f"clips/{name}.mp4", seed)
    (folder / "config.yaml").write_text(json.dumps(CONFIG))
    return folder


def test_a_file_of_the_users_own_has_targets_recipes_and_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snakefile = ("--snakefile", str(plugins.Path(perturbations.snakefile())))
    folder = project(tmp_path)
    preloaded.snakemake(folder, *snakefile, "lamps_own")
    monkeypatch.chdir(folder)
    corpus = perturbations.Corpus("manifests/own/lamps")
    assert [(clip.item_id, clip.severity, clip.captions[0]) for clip in corpus] == [
        ("first", 2, "a lamp is lit"),
        ("second", 2, "a lamp goes out"),
    ]
    plugins.use([folder / "my suite.py"])
    recipes = {recipe.parse(clip.row.recipe).code for clip in corpus}
    assert recipes == {suite_registry.code("lamps")} != {None}
    for page in ("corpus.html", "preview.png"):
        assert (folder / "manifests/own/lamps" / page).stat().st_size > 1000
    (folder / "my suite.py").write_text(LAMPS.replace("frame >> steps", "frame >> 1"))
    planned = preloaded.snakemake(folder, *snakefile, "lamps_own", "-n")
    jobs = dict(re.findall(r"(\w+) (\d+)", re.search(r"\d+ jobs: (.*)", planned)[1]))
    assert jobs["videos"] == "1"
    assert not jobs.keys() & {"sources", "sources_manifest", "captions"}


def test_a_changed_method_is_evaluated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path)
    method = tmp_path / "my method.py"
    begin, end = LAMPS.index("def centred"), LAMPS.index("PAPER =")
    imported = "from perturbations.tta.methods.method_registry import Method\n"
    method.write_text(imported + LAMPS[begin:end] + LAMPS[LAMPS.index("METHOD =") :])
    (folder / "my suite.py").write_text(LAMPS.partition("METHOD =")[0])
    evaluation = {"model": str(tiny_models.save_clip(tmp_path / "clip")), "methods": ["centred"], "num_frames": 2}
    config = {**CONFIG, "plugins": ["my suite.py", method.name], "evaluation": {**evaluation, "directions": ["t2v"]}}
    (folder / "config.yaml").write_text(json.dumps(config))
    snakefile = ("--snakefile", str(plugins.Path(perturbations.snakefile())))
    preloaded.snakemake(folder, *snakefile, "tta_own")
    assert "Nothing to be done" in preloaded.snakemake(folder, *snakefile, "tta_own", "-n")
    monkeypatch.chdir(folder)
    (results,) = folder.glob("manifests/own/adaptation/*/results.parquet")
    codes = set(perturbations.read_manifest(results).fillna({"code": ""})[["method", "code"]].itertuples(index=False))
    assert codes == {("centred", hashlib.sha256(method.read_bytes()).hexdigest()), ("none", "")}
    method.write_text(method.read_text().replace("mean(0)", "amax(0)"))
    planned = preloaded.snakemake(folder, *snakefile, "tta_own", "-n")
    jobs = dict(re.findall(r"(\w+) (\d+)", re.search(r"\d+ jobs: (.*)", planned)[1]))
    assert jobs.keys() == {"evaluate", "results", "tta_own"}


def test_a_method_is_listed_beside_ours(tmp_path: Path) -> None:
    own = {**CONFIG, "plugins": [str(project(tmp_path) / "my suite.py")]}
    config_file.parse({**own, "evaluation": {"methods": ["tent", "centred"]}})
    assert methods.method("centred").title == "Centred"
    with pytest.raises(ConfigError, match="did you mean 'centred'|did you mean centred"):
        config_file.parse({**own, "evaluation": {"methods": ["centre"]}})


def test_commands_run_no_file_that_a_folder_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder may be a stranger's; the file that the user names is loaded."""
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "ran"
    Path("evil.py").write_text(f"open({str(mark)!r}, 'w')\n{LAMPS}")
    plugins.record([Path("evil.py")])
    assert main(["list", "lamps"]) == 1
    assert main(["verify"]) == 1
    assert not mark.exists()
    assert "no perturbation 'lamps'" in (printed := capsys.readouterr().err)
    assert "Name your own suite's file: perturb --plugins FILE" in printed
    assert main(["--plugins", "evil.py", "list", "lamps"]) == 0
    assert "lamps/dimmed" in capsys.readouterr().out
    assert mark.exists()


def test_a_preview_shows_the_severities_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project(tmp_path))
    assert main(["--plugins", "my suite.py", "preview", "clips/first.mp4", "-p", "lamps", "-o", "lamps.png"]) == 0
    assert main(["preview", "clips/first.mp4", "-p", "lamps", "-s", "1", "2", "-o", "both.png"]) == 0
    assert Path("lamps.png").read_bytes() == Path("both.png").read_bytes()


def test_a_recipe_of_another_file_is_refused(tmp_path: Path) -> None:
    plugins.use([project(tmp_path) / "my suite.py"])
    own = recipe.make(suite_registry.get("lamps/dimmed"), 1, seed=0, storage=tiers.stored_frames(2))
    assert recipe.parse(own.text) == own
    other = replace(own, code="0" * 64).text
    with pytest.raises(ManifestError, match="made by another file that declares lamps"):
        recipe.parse(other)
    assert recipe.make(suite_registry.get("mlvp/fog"), 1, seed=0, storage=own.storage).code is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "plugins.0: .*my suite.py: no such file"),
        ("def broken(", "plugins.0: .* line 1: SyntaxError"),
        ("import nothing_of_that_name", "plugins.0: .* line 1: ModuleNotFoundError"),
        ("1 / 0", "plugins.0: .* line 1: ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "my suite.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        config_file.parse({**CONFIG, "plugins": [str(path)]})


def test_a_name_that_is_taken_and_what_is_no_suite_are_refused(tmp_path: Path) -> None:
    (tmp_path / "taken.py").write_text(LAMPS.replace('"lamps"', '"mlvp"'))
    plugins.use([tmp_path / "taken.py"])
    with pytest.raises(plugins.RegistryError, match="declares 'mlvp', which there is already"):
        suite_registry.suites()
    plugins._plugins.clear()
    (tmp_path / "none.py").write_text("SUITE = 3\n")
    plugins.use([tmp_path / "none.py"])
    with pytest.raises(plugins.RegistryError, match="SUITE of .*none.py must be a Suite, not 3"):
        suite_registry.suites()


def test_nothing_is_written_where_no_plugin_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder may be a disk that is only read."""
    monkeypatch.setattr(Path, "unlink", None)
    monkeypatch.setattr(Path, "write_text", None)
    plugins.record([], tmp_path)
    assert not list(tmp_path.iterdir())
