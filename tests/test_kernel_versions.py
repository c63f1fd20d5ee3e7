"""A kernel whose results change must raise its version, or finished corpora stay as they were, and nobody notices.

`kernel_versions.json` holds the version of every perturbation and analysis, with a hash of what it makes of a small
clip or of a few captions. `python tests/test_kernel_versions.py --update` brings it up to date; it refuses where
results changed and the version did not. Where another version of a library changes results, raise their versions, too.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pytest
from test_bit_exactness import clip

from perturbations.api import functions as api
from perturbations.base.errors import BackendError, ToolError
from perturbations.base.tools import tool_versions
from perturbations.captions import pipeline
from perturbations.config import sections as config
from perturbations.engine import rendering, shards
from perturbations.guides import registry as guides
from perturbations.manifest import machine
from perturbations.plan import paths
from perturbations.plan.listed import ListedCaption
from perturbations.plan.recipe import Unstored, make
from perturbations.suites import registry
from perturbations.suites.registry import Perturbation

TABLE = Path(__file__).with_name("kernel_versions.json")
UPDATE = "python tests/test_kernel_versions.py --update"
SEVERITY = 4
CAPTIONS = (
    "A man in a red shirt is slowly walking two small dogs along the beach.",
    "someone is cooking 3 eggs and they don't add any salt to the pan",
    "The children were told a funny story by their grandmother yesterday evening.",
    "a woman explains how her new phone can be connected to the television",
)
FORMS = {
    f"{form.key} {form.variant}": form
    for kind in ("video", "text")
    for entry in registry.perturbations(kind=kind)
    for form in entry.forms()
}
ANALYSES = [name for name in guides.analyses() if guides.analysis(name).after is None]


def result_of(form: Perturbation) -> bytes:
    """What a perturbation makes of the clip, or of the captions."""
    if form.kind == "text":
        listed = [ListedCaption(caption_id=f"c{n}", item_id="i", text=text) for n, text in enumerate(CAPTIONS)]
        severity = max(form.severities)
        texts = pipeline.perturb_captions(listed, form.key, severity, seed=3, dataset="d", variant=form.variant)
        return "\n".join(result.text for result in texts).encode()
    frames = clip()
    severity = min(SEVERITY, max(form.severities))
    recipe = make(form, severity, seed=3, storage=Unstored())
    if rendering.needs_file(recipe):
        with tempfile.TemporaryDirectory() as folder:
            source = shards.source_of(clips.source_row(clips.write_scene(Path(folder) / "clip.mp4", frames)))
            frames = np.stack([frame.image for frame in rendering.render(recipe, source)])
            return bytes(str(frames.shape).encode()) + frames.tobytes()
    donors = [frames[::-1].copy()]
    frames = api.perturb(
        frames, form.key, severity, seed=3, item_id="clip", fps=25.0, variant=form.variant, donors=donors
    )
    return bytes(str(frames.shape).encode()) + frames.tobytes()


def result_of_analysis(analysis: str, folder: Path) -> tuple[int, bytes]:
    """An analysis's version, and what it finds in the clip."""
    recipe = paths.analysis_recipe(config.parse({"datasets": {"d": clips.DATASET}, "suites": {"mlvp": {}}}), analysis)
    source = clips.source_row(clips.write_scene(folder / "clip.mp4", clip()))
    (row,) = clips.analysed(recipe, [source], folder)
    assert row.status == "complete", row.error
    return recipe.version, f"{row.result} {row.vector} {row.sha256}".encode()


def entry_of(version: int, result: bytes) -> dict[str, Any]:
    return {"version": version, "sha256": hashlib.sha256(result).hexdigest()}


def tools() -> dict[str, str]:
    """The libraries that results depend on."""
    return {**tool_versions(), "lemminflect": metadata.version("lemminflect")}


@cache
def table() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return document


def compare(name: str, current: dict[str, Any], recorded: dict[str, Any] | None) -> str:
    """What is wrong with an entry of the table, and what to do; empty where it is right."""
    if recorded is None:
        return f"{name} is not in {TABLE.name}: {UPDATE}"
    if current == recorded:
        return ""
    if current["version"] == recorded["version"]:
        return (
            f"{name} gives other results than its version {recorded['version']} gave. Corpora that it made would stay "
            f"as they were. If the change is meant, raise its `version` to {recorded['version'] + 1} where it is "
            f"declared, say so in CHANGELOG.md, and run: {UPDATE}"
        )
    return f"{name} has version {current['version']}, {TABLE.name} has {recorded['version']}: {UPDATE}"


def check(name: str, version: int, result: bytes) -> None:
    problem = compare(name, entry_of(version, result), table()["results"].get(name))
    assert not problem, problem


def need_the_same_libraries(name: str) -> None:
    recorded = table()
    if recorded["tools"] != tools():
        pytest.skip(f"the table was made with {recorded['tools']}; envs/install.sh installs them")
    key = name.partition(" ")[0]
    note = machine.note(recorded["cpu_features"])
    if "every perturbation" in note or key in note or (note and "no perturbation" not in note and "/" not in name):
        pytest.skip(note)


@pytest.mark.parametrize("name", FORMS)
def test_a_perturbation_gives_what_its_version_gave(name: str) -> None:
    need_the_same_libraries(name)
    try:
        result = result_of(FORMS[name])
    except (BackendError, ToolError) as error:
        pytest.skip(f"needs what is not installed: {error}")
    check(name, FORMS[name].version, result)


@pytest.mark.parametrize("analysis", ANALYSES)
def test_an_analysis_finds_what_its_version_found(analysis: str, tmp_path: Path) -> None:
    need_the_same_libraries(analysis)
    check(analysis, *result_of_analysis(analysis, tmp_path))


def test_the_table_has_no_others() -> None:
    assert set(table()["results"]) == {*FORMS, *ANALYSES}, UPDATE


def test_messages_say_what_to_do() -> None:
    old, changed, raised = entry_of(1, b"a"), entry_of(1, b"b"), entry_of(2, b"b")
    assert compare("mlvp/fog", old, old) == ""
    assert "raise its `version` to 2" in compare("mlvp/fog", changed, old)
    assert "--update" in compare("mlvp/fog", raised, old)
    assert "is not in kernel_versions.json" in compare("mlvp/fog", old, None)


def update() -> int:
    """Write the table; refuse entries whose results changed without their version."""
    recorded = json.loads(TABLE.read_text(encoding="utf-8"))["results"] if TABLE.exists() else {}
    current = {name: entry_of(form.version, result_of(form)) for name, form in FORMS.items()}
    for analysis in ANALYSES:
        with tempfile.TemporaryDirectory() as folder:
            current[analysis] = entry_of(*result_of_analysis(analysis, Path(folder)))
    refused = [
        problem
        for name, entry in current.items()
        if recorded.get(name, {}).get("version") == entry["version"]
        and (problem := compare(name, entry, recorded[name]))
    ]
    if refused:
        print("\n".join(refused), file=sys.stderr)
        return 1
    document = {"tools": tools(), "cpu_features": machine.cpu_features(), "results": dict(sorted(current.items()))}
    TABLE.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit(f"usage: {UPDATE}")
    sys.exit(update())
