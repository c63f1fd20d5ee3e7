"""A kernel whose results change must raise its version, or finished corpora stay as they were, and nobody notices.

`kernel_versions.json` holds the version of all that makes pixels or words, with a hash of what it makes of a small clip
or of a few captions.
`PYTHONPATH=tests/helpers python tests/video/test_kernel_versions.py --update` records them; it
refuses where one changed and the version did not.
Where another version of a library changes results, raise their versions, too.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import clips
import cv2
import numpy as np
import pytest
from copies import ROOT
from kernel_scenes import GUIDES, digest_clip, drawn, perturbed

from perturbations.api import array_clips as api
from perturbations.base import rng
from perturbations.base.errors import BackendError, MediaError, ToolError
from perturbations.base.kernel import name_of
from perturbations.config import file as config_file
from perturbations.corpus.captions import pipeline
from perturbations.corpus.plan import caption_recipes, recipe, tiers
from perturbations.corpus.plan.recipe import make
from perturbations.corpus.plan.tiers import UNSTORED
from perturbations.corpus.render import clean_clips, rendering
from perturbations.datasets.listing import Item, Listing
from perturbations.manifest import provenance
from perturbations.manifest.rows import CaptionRow
from perturbations.models import role_registry as models
from perturbations.models.guides import frost_photographs as frost
from perturbations.models.guides import guide_registry as guides
from perturbations.models.guides.backend_settings import Backends
from perturbations.models.guides.guide_registry import AnalysisRecipe, GuideSettings, Known
from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import Perturbation
from perturbations.video import procedural_styles

pytestmark = pytest.mark.usefixtures("in_this_process")

TABLE = ROOT / "tests/golden/kernel_versions.json"
UPDATE = "PYTHONPATH=tests/helpers python tests/video/test_kernel_versions.py --update"
SEVERITY = 4
SIZES = ((2, 37, 53), (1, 2, 9), (1, 1, 1))
LENGTHS = tuple((length, 4, 4) for length in (1, 2, 7, 12, 13, 40, 300))
CAPTIONS = (
    "A man in a red shirt is slowly walking two small dogs along the beach.",
    "someone is cooking 3 eggs and they don't add any salt to the pan",
    "The children were told a funny story by their grandmother yesterday evening.",
    "a woman explains how her new phone can be connected to the television",
)
SENTENCES = (ROOT / "docs/example_captions.txt").read_text(encoding="utf-8").splitlines()
NARRATIONS = (
    "the man is peeling the red onion with a knife",
    "the man cuts the red onion into rings",
    "he adds some oil to the pan",
    "he adds two eggs to the pan",
    "she is stirring the eggs in the pan slowly",
    "she puts the eggs on a plate",
    "she puts the onion rings on a plate",
    "the woman washes the knives, the pan and a plate",
    "the woman dries the knives",
    "he puts the knives into a drawer",
    "they are eating the eggs at the table",
    "they wash the table with a wet cloth",
)
"""Of spans of one long video: queries of both kinds, and more distractors than a target has."""
INSTRUCTIONS = (
    *("Cut it into rings instead.", "Switch to a screwdriver.", "Switch to squats.", "Drop the knife instead."),
    *("Use the other hand.", "Hold it with both hands.", "Replace it with nylon.", "Stir instead of cutting them."),
)
LIBRARIES = ("numpy", "opencv-python-headless", "av", "pyarrow", "lemminflect", "textblob", "onnxruntime", "tokenizers")
"""What results depend on beside the package: names in `envs/constraints.txt`."""
CONFIG = config_file.parse({"datasets": {"d": clips.DATASET}, "suites": {"mlvp": {}}})


@dataclass(frozen=True)
class Versioned:
    """What makes pixels or words, and has a version.

    Attributes:
        version: of recipes or rows.
        where: the file that declares it.
        result: makes something small with it; None where that takes weights, or another entry does.
    """

    version: int | str
    where: str
    result: Callable[[], bytes] | None = None


def versioned() -> dict[str, Versioned]:
    """Name -> perturbations in each form, analyses, guides that have a version of their own, and composed queries."""
    entries = {
        f"{form.key} {form.variant}": of_form(form)
        for kind in ("video", "text")
        for entry in suite_registry.perturbations(kind=kind)
        for form in entry.forms()
    }
    for name in guides.ANALYSES:
        analysis = guides.analysis(name)
        version = recipe.analysis(name, CONFIG.backends, tiers.storage_of(CONFIG.storage)).version
        result = None if analysis.after else partial(result_of_analysis, name)
        entries[name] = Versioned(version, file_of(analysis.run), result)
    for name in guides.GUIDES:
        guide = guides.get(name)
        if (own := getattr(guide, "version", None)) is not None:
            entries[f"{name} guide"] = Versioned(own, file_of(guide), OF_GUIDES[name])
    return {**entries, **of_composed()}


def file_of(declared: Any) -> str:
    return f"{declared.__module__.replace('.', '/')}.py"


def of_form(form: Perturbation) -> Versioned:
    where = f"perturbations/suites/{form.suite}.py"
    if form.kind == "video":
        where = f"{name_of(form.kernel).partition(':')[0].replace('.', '/')}.py or {where}"
    version: int | str = form.version
    if analysis := analysis_of(form):
        version = f"{version} with {analysis.analysis} {analysis.version}"
    return Versioned(version, where, partial(result_of, form))


def analysis_of(form: Perturbation) -> AnalysisRecipe | None:
    """The analysis that a form needs: its version is part of the form's recipe, and raises none of its own."""
    return None if form.guide is None else make(form, min(form.severities), seed=0, storage=UNSTORED).analysis


def of_composed() -> dict[str, Versioned]:
    """The rules by which queries are written, and the split, which they and a language model write."""
    names = ("split_builder", "sources", "language", "split_rules")
    modules = (importlib.import_module(f"perturbations.composed.{name}") for name in names)
    builder, sources, language, rules = modules
    room = "perturbations/composed"
    version = json.loads(rules.split_settings(CONFIG, "d"))["version"]

    def split() -> Any:
        spans = [
            Item(f"c{n}", "v", ("v.mp4",), (text,), start_s=2.0 * n, end_s=2.0 * n + 1)
            for n, text in enumerate(NARRATIONS)
        ]
        return sources.read_split(CONFIG.datasets["d"], Listing(tuple(spans), ()), 3, "d")

    def written() -> bytes:
        prompts = [prompt(*NARRATIONS[:2]) for prompt in (language.instruction_prompt, language.caption_prompt)]
        prompts.append(language.temporal_prompt(INSTRUCTIONS[0]))
        return f"{prompts} {[astuple(query) for query in split().queries]} {split().blocks}".encode()

    def instructed() -> bytes:
        return "\n".join(f"{query.query_id} {query.instruction}" for query in split().queries).encode()

    return {
        "composed instructions": Versioned(builder.INSTRUCTION_SOURCE, f"{room}/split_builder.py", instructed),
        "composed split": Versioned(version, f"{room}/split_rules.py", written),
    }


def result_of(form: Perturbation) -> bytes:
    """What a perturbation makes of the clip, or of the captions."""
    if form.kind == "text":
        listed = [
            CaptionRow(dataset="d", caption_id=f"c{n}", item_id="i", text=text) for n, text in enumerate(CAPTIONS)
        ]
        severity = max(form.severities)
        texts = pipeline.perturb_captions(caption_recipes.make(form, severity, seed=3), "d", listed)
        return "\n".join([*(result.text for result in texts), *texts_of_kernel(form)]).encode()
    frames = digest_clip()
    severity = min(SEVERITY, max(form.severities))
    recipe = make(form, severity, seed=3, storage=UNSTORED)
    if form.takes_file(recipe.params):
        with tempfile.TemporaryDirectory() as folder:
            source = clean_clips.source_of(clips.source_row(clips.write_scene(Path(folder) / "clip.mp4", frames)))
            frames = np.stack([frame.image for frame in rendering.planned_clip(recipe, source).frames()])
            return bytes(str(frames.shape).encode()) + frames.tobytes()
    donors = [frames[::-1].copy()]
    frames = api.perturb(
        frames, form.key, severity, seed=3, item_id="clip", fps=25.0, variant=form.variant, donors=donors
    )
    return b"".join([str(frames.shape).encode(), frames.tobytes(), *results_of_kernel(form)])


def texts_of_kernel(form: Perturbation) -> Iterator[str]:
    """At every severity: what the kernel alone makes of many captions."""
    roles = {name: models.load(name, "offline") for name in form.roles}
    if "translator" in roles:  # a program, which takes seconds
        return
    for severity, (number, text) in itertools.product(form.severities, enumerate(SENTENCES)):
        yield form.kernel(text, np.random.default_rng(number), **form.parameters(severity), **roles)


def results_of_kernel(form: Perturbation) -> Iterator[bytes]:
    """At every severity: plans for clips of any length, or the frames of clips of any size."""
    sizes = {"temporal": LENGTHS, "pixel": SIZES}.get(form.method, ())
    for severity, size in itertools.product(form.severities, sizes):
        if form.method == "pixel":
            yield perturbed(form, severity, digest_clip()[tuple(map(slice, size))]).tobytes()
            continue
        guide = () if form.guide is None else (GUIDES[form.guide](*size),)
        for kernel in filter(None, (form.kernel, form.sampled)):
            try:
                yield kernel(drawn(form, *size), *guide, size[0], **form.parameters(severity)).tobytes()
            except MediaError as error:
                yield str(error).encode()


def result_of_analysis(analysis: str) -> bytes:
    """What an analysis finds in the clip."""
    with tempfile.TemporaryDirectory() as folder:
        source = clips.source_row(clips.write_scene(Path(folder) / "clip.mp4", digest_clip()))
        (row,) = clips.analysed(
            recipe.analysis(analysis, CONFIG.backends, tiers.storage_of(CONFIG.storage)), [source], Path(folder)
        )
    assert row.status == "complete", row.error
    return f"{row.result} {row.vector} {row.sha256}".encode()


def style_pictures() -> bytes:
    """The pictures in whose style clips are painted where the user has none."""
    return b"".join(name.encode() + procedural_styles.image(name).tobytes() for name in procedural_styles.names())


def frost_photographs() -> bytes:
    """Which of a folder's photographs clips get in each variant, and their pixels."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(6):
            cv2.imwrite(f"{folder}/{number}.png", np.full((4, 5, 3), (number, 40, 80), np.uint8))
        for variant in ("released", "paper"):
            settings = GuideSettings(backends=Backends(frost=frost.Frost(images=Path(folder))), variant=variant)
            recipe = frost.FrostGuide.settle(settings)
            for item in ("a", "b", "c", "d"):
                draw = rng.generator(3, "d", item, "mm_robustness/frost").random()
                facts = recipe.find(item, Known(), seed=3, draw=draw, parameters={})
                photograph = frost.photograph(facts.frost, facts.files["image"])
                assert photograph is not None
                results.append(f"{Path(facts.files['image']).name} {facts.size} {photograph.tolist()}")
    return "\n".join(results).encode()


OF_GUIDES = {"style": style_pictures, "frost": frost_photographs}
"""What guides with a version of their own give to kernels."""

ENTRIES = versioned()


def hash_of(result: bytes) -> dict[str, str]:
    return {"sha256": hashlib.sha256(result).hexdigest()}


def tools() -> dict[str, str]:
    """The libraries that results depend on."""
    return {name: metadata.version(name) for name in LIBRARIES} | {
        "libavcodec": provenance.tool_versions()["libavcodec"]
    }


@cache
def table() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return document


def problem_of(name: str, version: int | str, hashed: Mapping[str, str]) -> str:
    """What is wrong with an entry of the table, and what to do; empty where it is right."""
    recorded = table()["versions"].get(name)
    if recorded is None:
        return f"{name} is not in {TABLE.name}: {UPDATE}"
    if version != recorded["version"]:
        return f"{name} has version {version}, {TABLE.name} has {recorded['version']}: {UPDATE}"
    if hashed.items() <= recorded.items():
        return ""
    following = re.sub(r"\d+", lambda number: str(int(number[0]) + 1), str(version), count=1)
    return (
        f"{name} gives other results than its version {version} gave. Corpora that it made would stay as they were. If "
        f"the change is meant, raise the version to {following} in {ENTRIES[name].where}, say so in CHANGELOG.md, and "
        f"run: {UPDATE}"
    )


def need_the_same_libraries() -> None:
    recorded = table()
    if recorded["tools"] != tools():
        pytest.skip(f"the table was made with {recorded['tools']}; envs/install.sh installs them")
    if note := provenance.note(recorded["cpu_features"]):
        pytest.skip(note)


OF_IPPS_CODE = {"transmission/resolution paper"}
"""IPP's code for AVX-512 enlarges pictures otherwise than that for AVX2, by a grey level."""


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.result])
def test_a_perturbation_gives_what_its_version_gave(name: str) -> None:
    need_the_same_libraries()
    codes = {features.rpartition("ipp ")[2] for features in (table()["cpu_features"], provenance.cpu_features())}
    if name in OF_IPPS_CODE and len(codes) > 1:
        pytest.skip(f"the table was made with another code of IPP: {codes}")
    entry = ENTRIES[name]
    assert entry.result is not None
    try:
        result = entry.result()
    except (BackendError, ToolError) as error:
        pytest.skip(f"needs what is not installed: {error}")
    problem = problem_of(name, entry.version, hash_of(result))
    assert not problem, problem


def test_the_table_is_whole_and_of_the_pinned_libraries() -> None:
    here = ENTRIES.keys() | {"composed instructions", "composed split"}  # with that feature
    assert table()["versions"].keys() == here, UPDATE
    # Otherwise the comparison of results would be skipped from the next pin on.
    lines = (ROOT / "envs/constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    assert {name: pins[name] for name in LIBRARIES}.items() <= table()["tools"].items(), UPDATE


def test_messages_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = {"mlvp/fog released": {"version": 1, **hash_of(b"a")}, "composed split": {"version": "rule 1"}}
    monkeypatch.setitem(table(), "versions", recorded)
    assert problem_of("mlvp/fog released", 1, hash_of(b"a")) == ""
    assert "raise the version to 2" in problem_of("mlvp/fog released", 1, hash_of(b"b"))
    assert "raise the version to rule 2" in problem_of("composed split", "rule 1", hash_of(b"b"))
    assert "--update" in problem_of("mlvp/fog released", 2, hash_of(b"b"))
    assert "is not in kernel_versions.json" in problem_of("mlvp/rain released", 1, hash_of(b"a"))


def update() -> int:
    """Write the table; refuse entries of which something changed, but not their version."""
    known = table()["versions"] if TABLE.exists() else {}
    versions, problems = {}, []
    for name, entry in ENTRIES.items():
        hashed = {}
        try:
            hashed = hash_of(entry.result()) if entry.result else {}
        except (BackendError, ToolError) as error:
            if entry.version != known.get(name, {}).get("version"):
                problems.append(f"{name} cannot be made here: {error}")
            hashed = known.get(name, {})
        if known.get(name, {}).get("version") == entry.version:
            problems.append(problem_of(name, entry.version, hashed))
        versions[name] = {"version": entry.version, **hashed}
    if any(problems):
        print("\n".join(filter(None, problems)), file=sys.stderr)
        return 1
    document = {"tools": tools(), "cpu_features": provenance.cpu_features()}
    document["versions"] = dict(sorted(versions.items()))
    TABLE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit(f"usage: {UPDATE}")
    sys.exit(update())
