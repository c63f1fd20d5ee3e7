"""What cards say of exports, and the commands and examples of the documentation."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import textwrap
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import needs
import pandas as pd
import pytest
import small_corpus
import yaml
from copies import ROOT
from export_readers import TERMS, loaded_tasks
from small_corpus import ITEMS

from perturbations.cli.main import main
from perturbations.exports import card, exported_corpus
from perturbations.exports.export_registry import Request
from perturbations.manifest import files
from perturbations.manifest.rows import CAPTIONS, VIDEOS
from perturbations.text import tables as text_tables

# --- cards ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "terms", "expected"),
    [
        ({}, TERMS, {"license": "cc-by-4.0"}),
        ({"adapter": "folder", "language": "de"}, {}, {"license": "unknown", "gated": True, "language": ["de"]}),
        (
            *({"adapter": "msrvtt", "language": "en"}, TERMS),
            {"license": "cc-by-4.0", "gated": True, "language": ["en"]},
        ),
        (
            *({"adapter": "demo", "language": "en"}, {"license": "Our own: v2"}),
            {"license": "other", "license_name": "our-own-v2", "language": ["en"]},
        ),
    ],
)
@pytest.mark.parametrize("dataset", ["msrvtt", "own"])
def test_a_card_states_its_terms_in_the_hub_s_words(
    small: Path, tmp_path: Path, dataset: str, about: dict[str, Any], terms: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Whatever the dataset is called: its adapter and its captions' language count."""
    exported = exported_corpus.read(Request(manifest=small / "manifests/data/mlvp/videos.parquet", output=tmp_path))
    request = Request(manifest=exported.request.manifest, output=tmp_path, **terms)
    for has_videos in (True, False):
        videos = {("clean", "a")} if has_videos else set()
        card.finish(
            replace(exported, about=about, request=request, dataset=dataset, count=5_000, videos=videos), [], [], []
        )
        text = (tmp_path / "README.md").read_text("utf-8")
        assert ("Xu et al." in text) == (about.get("adapter") == "msrvtt")
        front = yaml.safe_load(text.split("---\n")[1])
        assert (front["size_categories"], front["task_categories"]) == (["1K<n<10K"], ["text-retrieval"])
        gated = {"gated": True} if "extra_gated_prompt" in front else {}
        known = ("license", "license_name", "language")
        assert {name: front[name] for name in known if name in front} | gated == (
            expected if has_videos else {name: value for name, value in expected.items() if name != "gated"}
        )


@pytest.mark.parametrize(("language", "code"), [("de", "deu-Latn"), ("zh", "zho-Hans"), ("en", "eng-Latn")])
def test_tasks_of_mteb_have_the_language_of_the_dataset(small: Path, tmp_path: Path, language: str, code: str) -> None:
    """Its captions' manifest says it, beside whichever manifest is exported."""
    shutil.copytree(small / "manifests", tmp_path / "manifests")
    for name in ("corpora", "clean"):
        (tmp_path / name).symlink_to(small / name)
    captions = tmp_path / "manifests/data/captions.parquet"
    files.write(captions, CAPTIONS, small_corpus.clean_captions(), {"root": "../..", "language": language})
    for number, kind in enumerate(("mlvp/videos", "mlvp/multimodal", "mm_robustness/captions")):
        output = tmp_path / str(number)
        manifest = str(tmp_path / f"manifests/data/{kind}.parquet")
        assert main(["export", manifest, "--format", "mteb", "-o", str(output)]) == 0
        described = json.loads((output / "tasks.json").read_text())
        assert {task["language"] for task in described["tasks"]} == {code}


def test_every_language_of_captions_has_a_code_of_its_own() -> None:
    codes = text_tables.language_codes()
    assert codes.keys() == text_tables.scripts().keys()
    assert len(set(codes.values())) == len(codes)


# --- the documentation ------------------------------------------------------------------------------------------------

PAGE = ROOT / "docs/how-to/export-a-corpus.md"


def test_the_page_s_commands_and_examples_work(
    small: Path, datasets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("webdataset", "mlcroissant", "mteb"):
        needs.reader(library)
    (tmp_path / "manifests").mkdir()
    for name in ("corpora", "clean"):
        (tmp_path / name).symlink_to(small / name)
    shutil.copytree(small / "manifests/data", tmp_path / "manifests/msrvtt")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8").partition("## Publish")[0]
    commands = [line for line in text.splitlines() if line.startswith("perturb export ")]
    assert len(commands) == 5
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        names: dict[str, Any] = {}
        exec(example, names)
        if "row" in names:
            assert names["row"]["item"] in ITEMS
            assert len(names["video"]) > 100
        if "records" in names:
            assert len(names["records"]) == 3 * len(ITEMS)
    for output in ("tasks", "text_tasks"):
        assert all(task.metadata.name.startswith("Data") for task in loaded_tasks(tmp_path / output))


def test_the_page_s_table_for_vlmevalkit_has_untouched_clips_beside_each_kind_of_tampering(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kit compares each `tamper_type` of a task with its rows `original`, and knows the answers Yes and No only."""
    shutil.copytree(small / "manifests/data", tmp_path / "manifests/msrvtt")
    videos = [row for row in files.read_rows(small / "manifests/data/mlvp/videos.parquet", VIDEOS) if row.path]
    tampered = [replace(videos[0], suite="tampering", perturbation=name, severity=1) for name in ("mask", "drop")]
    target = tmp_path / "manifests/msrvtt/tampering/videos.parquet"
    files.write(target, VIDEOS, tampered, {"root": "../../.."})
    for name in ("corpora", "clean"):
        (tmp_path / name).symlink_to(small / name)
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"<!-- vlmevalkit -->\n\n    ```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(textwrap.dedent(example))
    table = pd.read_csv("MVTamperBench.tsv", sep="\t")
    assert set(table["tamper_type"]) == {"original", "masking", "dropping"}
    assert set(table.query("tamper_type == 'original'")["answer"]) == {"No"}
    assert set(table.query("tamper_type != 'original'")["answer"]) == {"Yes"}
    assert table["index"].tolist() == list(range(len(table)))
    assert all((Path(row.prefix) / row.video).is_file() for row in table.itertuples())
    assert set(table["task_tamper_type"]) == {f"data_{kind}" for kind in table["tamper_type"]}
