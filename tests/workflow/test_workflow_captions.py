"""Captions through the workflow: every row, no video needed, one number reruns its own jobs."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Never

import catalogue_pages
import numpy as np
import pandas as pd
import pytest
from text_support import PACKAGES, role
from workflow_project import Project, copy_of, folders, tiny_clip

from perturbations import perturb_text, read_captions, read_manifest
from perturbations.base import shown
from perturbations.base.errors import BackendError, ManifestError
from perturbations.config import file as config_file
from perturbations.corpus.captions import distances, pipeline
from perturbations.corpus.jobs import caption_jobs
from perturbations.corpus.plan import caption_recipes, clip_lists, sharding
from perturbations.corpus.plan.recipe import TextRecipe
from perturbations.evaluation.page import evaluation_page, page_sections
from perturbations.manifest import skipped
from perturbations.manifest.columns import columns_of
from perturbations.manifest.rows import CaptionRow, TextStatisticsRow
from perturbations.models import role_registry as models
from perturbations.suites import suite_registry

TEXTS = {
    "one": "a little girl does gymnastics",
    "two": "a man plays a song on a guitar",
    "three": "",
    "four": "two people talk\nin a kitchen",
    "five": "<b>news</b> | about *sports* 🎾",
    "six": "رجل يعزف على الجيتار",
}
USABLE = {name: text for name, text in TEXTS.items() if text}
OFFLINE = ["gender_swap", "keyboard", "drop_first", "no_nouns", "append_irr"]
MANIFESTS = {suite: f"manifests/tiny/{suite}/captions.parquet" for suite in ("msrvtt_p", "mm_robustness")}


def new_project(root: Path, **changes: Any) -> Project:
    rows = [{"item_id": name, "caption": text} for name, text in TEXTS.items()]
    root.mkdir(parents=True, exist_ok=True)
    (root / "captions.json").write_text(json.dumps(rows))
    return Project(
        root,
        {
            "datasets": {"tiny": {"adapter": "folder", "annotations": "captions.json", "videos": "no such folder"}},
            "max_failed_items": 1,
            "suites": {
                "msrvtt_p": {"captions": {"perturbations": OFFLINE}},
                "mm_robustness": {"captions": {"perturbations": ["char_swap", "word_swap"], "severities": [1, 7]}},
            },
            **changes,
        },
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose run has ended well. Not to be changed: use `project`."""
    project = new_project(tmp_path_factory.mktemp("finished"))
    project.snakemake("text_msrvtt_p_tiny", "text_mm_robustness_tiny")
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    return copy_of(finished, tmp_path / "project")


def test_files_of_clips_and_of_captions_are_targets_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snakemake takes targets in the order of a set, which the seed of Python's hashes decides."""
    tiny_clip(tmp_path / "videos/one.mp4", 0)
    project = new_project(tmp_path)
    project.config["datasets"]["tiny"]["videos"] = "videos"
    project.config["suites"] = {"msrvtt_p": {"perturbations": ["jpeg"], "captions": {"perturbations": OFFLINE}}}
    files = [f"manifests/tiny/msrvtt_p/{name}.parquet" for name in ("captions", "videos")]
    in_order: dict[bytes, str] = {}
    for seed in "0123456789":
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        in_order[subprocess.check_output([sys.executable, "-S", "-c", f"print({{*{files}}})"])] = seed
    assert len(in_order) == 2
    for seed in in_order.values():
        shutil.rmtree(tmp_path / "work", ignore_errors=True)
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        words = ("--dry-run", "--max-inventory-time", "20")  # Snakemake's default: it looks into folders, once
        assert "sources_manifest" in project.snakemake(*words, *files, started=True).stdout


def texts(project: Project, suite: str = "msrvtt_p") -> pd.DataFrame:
    return read_manifest(project.root / MANIFESTS[suite])


def test_every_caption_has_a_row_a_perturbation_and_severity(finished: Project) -> None:
    assert len(texts(finished)) == len(USABLE) * len(OFFLINE)
    assert len(texts(finished, "mm_robustness")) == len(USABLE) * 4
    assert not (finished.root / "manifests/tiny/sources.parquet").exists()
    for suite in ("msrvtt_p", "mm_robustness"):
        for _, row in texts(finished, suite).iterrows():
            key = f"{suite}/{row['perturbation']}"
            ours = perturb_text(
                TEXTS[row["item_id"]].strip(),
                key,
                row["severity"],
                seed=0,
                item_id=row["caption_id"],
                dataset="tiny",
            )
            assert (row["text"], row["changed"], row["accepted"]) == (ours.text, ours.changed, ours.accepted), key
            assert row["source_text"] == TEXTS[row["item_id"]].strip()
            assert (row["attempts"], row["backend"]) == (ours.attempts, ours.backend)
            assert json.loads(row["params"]) == suite_registry.get(key).parameters(row["severity"])


def test_the_gate_leaves_rows_out_of_the_view_only(finished: Project) -> None:
    path = finished.root / "manifests/tiny/mm_robustness/captions.parquet"
    every, accepted = read_captions(path, accepted_only=False), read_captions(path)
    assert len(every) == len(USABLE) * 4
    assert len(accepted) == every["accepted"].sum() < len(every)
    gated = every[every["perturbation"] == "word_swap"]
    assert gated["similarity"].notna().all()
    assert every[every["perturbation"] == "char_swap"]["similarity"].isna().all()
    with pytest.raises(ManifestError, match="is a manifest of text_statistics, not of texts"):
        read_captions(path.with_name("caption_statistics.parquet"))


def test_statistics_count_what_the_rows_say(finished: Project) -> None:
    for suite in ("msrvtt_p", "mm_robustness"):
        counted = read_manifest(finished.root / f"manifests/tiny/{suite}/caption_statistics.parquet")
        rows = texts(finished, suite)
        for _, counts in counted.iterrows():
            members = rows[(rows["perturbation"] == counts["perturbation"]) & (rows["severity"] == counts["severity"])]
            assert counts["captions"] == len(members) == len(USABLE)
            assert (counts["changed"], counts["accepted"]) == (members["changed"].sum(), members["accepted"].sum())
            assert counts["attempts_mean"] == pytest.approx(members["attempts"].mean())
            assert 0 <= counts["bleu4"] <= 1


def test_results_do_not_depend_on_order_cores_or_shards(
    finished: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = new_project(tmp_path / "other")
    rows = json.loads((project.root / "captions.json").read_text())
    (project.root / "captions.json").write_text(json.dumps(rows[::-1]))
    project.snakemake(MANIFESTS["msrvtt_p"], cores=1)
    pd.testing.assert_frame_equal(texts(project), texts(finished))
    # One caption per shard, as the jobs would do it.
    parsed = config_file.parse(finished.config)
    monkeypatch.setattr(sharding, "CAPTIONS_PER_JOB", 1)
    shards = sharding.plan_captions(
        config_file.parse({**finished.config, "datasets": absolute(finished)}, place=tmp_path / "alone"), "tiny"
    )
    assert len(shards) == len(USABLE)
    recipe = caption_recipes.from_config(parsed, "tiny", "msrvtt_p", "keyboard", 1)
    by_shard = clip_lists.read_folder(tmp_path / "alone/work/tiny/captions", CaptionRow)
    assert sorted(by_shard) == sorted(shards)
    alone = [row for lines in by_shard.values() for row in pipeline.rows_of(recipe, "tiny", lines)]
    together = texts(finished).query("perturbation == 'keyboard'").set_index("caption_id")
    assert {row.caption_id: row.text for row in alone} == together["text"].to_dict()


def absolute(project: Project) -> dict[str, Any]:
    return {"tiny": {**project.config["datasets"]["tiny"], "annotations": str(project.root / "captions.json")}}


def test_one_changed_value_reruns_its_own_jobs(project: Project) -> None:
    project.config["suites"]["mm_robustness"]["captions"]["parameters"] = {"char_swap": {7: {"ratio": 0.5}}}
    assert folders(project.rerun(MANIFESTS["mm_robustness"])) == {"tiny/mm_robustness/captions/char_swap/7"}
    changed = texts(project, "mm_robustness").query("perturbation == 'char_swap' and severity == 7")
    assert {json.loads(params)["ratio"] for params in changed["params"]} == {0.5}
    assert folders(project.rerun(MANIFESTS["mm_robustness"])) == set()


def test_one_job_makes_all_parts_and_only_lost_ones_again(project: Project) -> None:
    folder = project.root / "work/tiny/msrvtt_p/captions"
    (log,) = (project.root / "work/logs/tiny/msrvtt_p/captions").glob("s*.log")
    (marker,) = folder.glob("s*.json")
    assert len(json.loads(marker.read_text())) == len(OFFLINE)
    lost, damaged = (folder / name / "1" / f"{marker.stem}.parquet" for name in OFFLINE[:2])
    before = texts(project)
    lost.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (project.root / MANIFESTS["msrvtt_p"]).unlink()
    assert "Run snakemake again: it regenerates them" in project.refusal(MANIFESTS["msrvtt_p"])
    again = folders(project.rerun(MANIFESTS["msrvtt_p"]))
    assert again == {f"tiny/msrvtt_p/captions/{name}/1" for name in OFFLINE[:2]}
    assert f"{len(OFFLINE) - 2} of {len(OFFLINE)} were finished before and are kept" in log.read_text()
    pd.testing.assert_frame_equal(texts(project), before)


def wanted_of(*names: str) -> dict[str, TextRecipe]:
    """Recipes by their scenarios."""
    return {f"{name}/1": caption_recipes.make(suite_registry.get(f"msrvtt_p/{name}"), 1, seed=0) for name in names}


LISTED = [CaptionRow(dataset="d", caption_id=name, item_id=name, text=text) for name, text in USABLE.items()]


def job(folder: Path, wanted: dict[str, TextRecipe], captions: list[CaptionRow] = LISTED) -> list[Path]:
    """The parts of a job on captions, which it makes or keeps."""
    clip_lists.write_texts(folder / "recipes.jsonl", {name: recipe.text for name, recipe in wanted.items()})
    clip_lists.write(folder / "listed.jsonl", captions)
    paths = {"recipes": folder / "recipes.jsonl", "captions": folder / "listed.jsonl", "marker": folder / "s0.json"}
    caption_jobs.texts(dataset="tiny", **paths)
    return parts_of(folder, wanted)


def parts_of(folder: Path, wanted: dict[str, TextRecipe]) -> list[Path]:
    return [folder / name / "s0.parquet" for name in wanted]


def test_a_killed_job_goes_on_after_its_last_finished_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = wanted_of("keyboard", "drop_first", "append_irr")
    first, *_ = parts = parts_of(tmp_path, wanted)
    run = pipeline.rows_of
    with monkeypatch.context() as context:
        context.setattr(pipeline, "rows_of", lambda recipe, *given: killed() if first.exists() else run(recipe, *given))
        with pytest.raises(KeyboardInterrupt):
            job(tmp_path, wanted)
    assert [path for path in parts if path.exists()] == [first]
    assert not (tmp_path / "s0.json").exists()
    finished = first.stat().st_mtime_ns
    assert job(tmp_path, wanted) == parts
    assert first.stat().st_mtime_ns == finished
    # Other captions, and another number, are other rows.
    written = {path: path.stat().st_mtime_ns for path in parts}
    wanted["drop_first/1"] = caption_recipes.make(suite_registry.get("msrvtt_p/drop_first"), 1, seed=1)
    job(tmp_path, wanted)
    assert [path for path in parts if path.stat().st_mtime_ns != written[path]] == [parts[1]]
    job(tmp_path, wanted, LISTED[:-1])
    assert all(len(read_manifest(path)) == len(LISTED) - 1 for path in parts)


def killed() -> Never:
    raise KeyboardInterrupt


def test_what_cannot_be_made_stops_a_job_after_everything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = wanted_of("gender_swap", "keyboard")
    load = models.load

    def without_tagger(name: str, backend: str) -> Any:
        if name == "tagger":
            raise BackendError("no tagger")
        return load(name, backend)

    monkeypatch.setattr(models, "load", without_tagger)
    with pytest.raises(BackendError, match="no tagger"):
        job(tmp_path, wanted)
    assert [path.exists() for path in parts_of(tmp_path, wanted)] == [False, True]


def test_a_new_caption_and_a_new_perturbation(project: Project) -> None:
    project.config["suites"]["msrvtt_p"]["captions"]["perturbations"] = [*OFFLINE, "drop_last"]
    assert folders(project.rerun(MANIFESTS["msrvtt_p"])) == {"tiny/msrvtt_p/captions/drop_last/1"}
    before = texts(project).set_index(["caption_id", "perturbation"])["text"]
    rows = json.loads((project.root / "captions.json").read_text())
    (project.root / "captions.json").write_text(json.dumps([*rows, {"item_id": "new", "caption": "a dog runs"}]))
    project.snakemake(MANIFESTS["msrvtt_p"])
    after = texts(project).set_index(["caption_id", "perturbation"])["text"]
    assert len(after) == len(before) + len(OFFLINE) + 1
    pd.testing.assert_series_equal(after[before.index], before)


def test_captions_that_cannot_be_used_are_listed_counted_and_stop_the_run(finished: Project, tmp_path: Path) -> None:
    reason = "the caption 'three#0' is empty, null or NaN (captions.json, entry 2)"
    rejected = read_manifest(finished.root / "manifests/tiny/captions_quarantine.parquet")
    assert rejected[["item_id", "status", "stage", "error"]].values.tolist() == [
        ["three", "quarantined", "annotation", reason]
    ]
    for about in (rejected.attrs["set"], texts(finished).attrs["set"]):
        assert (about["listed"], about["complete"], about["quarantined"], about["missing"]) == (6, 5, 1, 0)
    page = (finished.root / "manifests/tiny/msrvtt_p/captions.html").read_text()
    assert "5 of 6 listed captions complete; 1 quarantined" in page
    place = finished.root / "manifests/tiny/captions_quarantine.parquet"
    assert page_sections.corpus_sentence(place) == "captions of tiny: 5 of 6 listed captions complete; 1 quarantined."
    verified = finished.perturb("verify")
    assert verified.returncode == 0, verified.stdout
    assert "captions_quarantine.parquet: 1 row, 1 of them quarantined or missing; 0 problems" in verified.stdout
    paths = ("--quarantine", str(place), "--output", str(tmp_path / "x"))
    check = finished.perturb("rule", "check_captions", '{"allowed": 0}', *paths)
    assert check.returncode != 0
    assert "1 listed caption cannot be used, and max_failed_items is 0" in check.stderr
    assert f"'three': {reason}" in check.stderr


def test_what_is_named_and_cannot_be_made_stops_the_run_before_any_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERTURB_WORDNET", str(tmp_path / "none"))
    project = new_project(tmp_path)
    project.config["suites"] = {"msrvtt_p": {"captions": {"perturbations": ["swap_syn_wordnet", "keyboard"]}}}
    failed = project.snakemake("text_msrvtt_p_tiny", check=False)
    assert failed.returncode != 0
    output = failed.stdout + failed.stderr
    assert "names perturbations that cannot be made of the captions of `tiny`:\n" in output
    assert f"swap_syn_wordnet: wordnet-3.0: no WordNet in {tmp_path / 'none'}: `apt-get install" in output
    assert not (tmp_path / "work/logs").exists()


def test_what_all_asks_for_and_cannot_be_made_is_skipped_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERTURB_WORDNET", str(tmp_path / "none"))
    project = new_project(tmp_path, suites={"msrvtt_p": {}})
    run = project.snakemake("text_msrvtt_p_tiny", "--dry-run", "-p", "--quiet", "host")
    planned = run.stdout + run.stderr
    names = "multi_pos_swap_JJ, multi_pos_swap_NN, swap_syn_wordnet"
    assert f"captions of msrvtt_p on tiny: skipped: 3 perturbations, {names} (wordnet-3.0" in planned
    scenarios = clip_lists.read_texts(tmp_path / "work/tiny/msrvtt_p/captions/recipes.jsonl")
    assert "keyboard/1" in scenarios
    assert not {f"{name}/1" for name in names.split(", ")} & set(scenarios)


def test_what_is_skipped_is_in_the_manifest_and_on_the_page_and_no_problem(project: Project) -> None:
    folder = "manifests/tiny/msrvtt_p"
    why = {"severities": [1], "reason": "no `apertium`"}
    left_out = [{"perturbation": name, **why} for name in ("back_trans", "tense")]
    settings = {"dataset": "tiny", "adapter": "folder", "suite": "msrvtt_p", "skipped": left_out}
    merged = project.perturb(
        *("rule", "texts_manifest", json.dumps(settings), "--work", "work/tiny"),
        *("--recipes", "work/tiny/msrvtt_p/captions/recipes.jsonl"),
        *("--rejected", "work/tiny/rejected_captions.jsonl", "--texts", f"{folder}/captions.parquet"),
        *("--statistics", f"{folder}/caption_statistics.parquet"),
    )
    assert merged.returncode == 0, merged.stderr
    assert skipped.of_manifest(texts(project).attrs) == left_out
    line = "skipped: 2 perturbations, back_trans, tense (no `apertium`)"
    verified = project.perturb("verify", folder)
    assert verified.returncode == 0, verified.stdout
    assert f"{folder}/captions.parquet: {line}" in verified.stdout
    statistics = project.root / f"{folder}/caption_statistics.parquet"
    assert f"msrvtt_p on tiny: {line}." in page_sections.corpora(evaluation_page._read([]), [statistics], [], []).parts


def test_combined_views_join_both(tmp_path: Path) -> None:
    project = new_project(tmp_path)
    tiny_clip(tmp_path / "videos/one.mp4", seed=0, frames=4)
    tiny_clip(tmp_path / "videos/two.mp4", seed=1, frames=4)
    project.config["datasets"]["tiny"].update(videos="videos", max_failed_items=9)
    project.config["suites"] = {
        "msrvtt_p": {
            "perturbations": ["jpeg", "jumble", "freeze"],
            "severities": [1, 3],
            "captions": {"perturbations": ["no_verbs", "append_irr", "keyboard"]},
        }
    }
    project.snakemake("multimodal_msrvtt_p_tiny")
    table = read_manifest(tmp_path / "manifests/tiny/msrvtt_p/multimodal.parquet")
    pairs = table.groupby(["perturbation", "text_perturbation"])["caption_id"].apply(set).to_dict()
    names = {"one", "two"}
    assert {key: {caption_id.partition("#")[0] for caption_id in ids} for key, ids in pairs.items()} == {
        (video, text): names for video in ("jpeg", "jumble") for text in ("no_verbs", "append_irr")
    }
    assert set(table["severity"]) == {3}
    rows = texts(project).set_index(["caption_id", "perturbation"])
    for _, row in table.iterrows():
        assert row["text"] == rows.loc[(row["caption_id"], row["text_perturbation"]), "text"]
        assert Path(row["path"]).is_file()


def test_the_real_captions_count_as_published(reference: Path, tmp_path: Path) -> None:
    """35 x 1,000; YouCook2 without gender: 31 x 3,350."""
    for name in PACKAGES:
        role(name)
    folder = reference / "data"
    project = Project(
        tmp_path,
        {
            "datasets": {
                "msrvtt": {
                    "adapter": "msrvtt",
                    "annotations": str(folder / "msrvtt/MSRVTT_JSFUSION_test.csv"),
                    "videos": "nowhere",
                },
                "youcook2": {
                    "adapter": "youcook2",
                    "annotations": str(folder / "youcook2/validation_youcook.csv"),
                    "videos": "nowhere",
                },
            },
            "suites": {"msrvtt_p": {}, "mm_robustness": {}},
        },
    )
    output = project.snakemake("text_msrvtt_p_msrvtt", "text_msrvtt_p_youcook2", "--dry-run").stderr
    assert "captions of msrvtt_p on msrvtt: 1,000 x 35 = 35,000" in output
    assert "captions of msrvtt_p on youcook2: 3,350 x 31 = 103,850" in output
    with (folder / "youcook2/validation_youcook.csv").open() as file:
        assert sum(1 for _ in csv.DictReader(file)) == 3350


def remembering(embed: Callable[[Sequence[str]], np.ndarray]) -> Callable[[Sequence[str]], np.ndarray]:
    """The same vectors; those of a text are computed once, not for each perturbation and severity."""
    known: dict[str, np.ndarray] = {}

    def embedded(texts: Sequence[str]) -> np.ndarray:
        if new := [text for text in dict.fromkeys(texts) if text not in known]:
            known.update(zip(new, embed(new), strict=True))
        return np.stack([known[text] for text in texts])

    return embedded


def test_the_catalogue_is_what_the_code_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change: `python docs/generate.py --captions`."""
    for name in ("tagger", "inflector", "wordnet", "neighbours", "masked_lm", "translator", "styler"):
        role(name)
    encoder, load = role("similarity"), models.load
    quick = replace(encoder, embed=remembering(encoder.embed))
    monkeypatch.setattr(models, "load", lambda name, backend: quick if name == "similarity" else load(name, backend))
    with catalogue_pages.EXAMPLES.open(encoding="utf-8", newline="") as file:
        assert catalogue_pages.examples() == list(csv.reader(file))


SAME = [("a man plays a song", "a man plays a song")]
WORSE = [("a man plays a song", "a dog [UNK] the garden")]


def test_distances_and_without_wordnet_no_meteor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert distances.bleu4(SAME) == 1
    assert distances.bleu4([*SAME, *WORSE]) < 1
    assert distances.bleu4([]) is None
    assert distances.rouge1(SAME) == 1
    assert distances.rouge1([("A man, a dog.", "a dog ran")]) == pytest.approx(4 / 7)
    assert distances.rouge1([("", "")]) == 1
    assert distances.rouge1([]) is None
    assert {column.name: column.optional for column in columns_of(TextStatisticsRow)}["bleu4"]

    def missing(name: str, backend: str) -> None:
        raise BackendError("no WordNet")

    monkeypatch.setattr(models, "load", missing)
    assert distances.meteor(SAME) is None
    assert {column.name: column.optional for column in columns_of(TextStatisticsRow)}["meteor"]
    assert shown.markdown("a|b <i>*c*</i>\n[d](e) `f`") == r"a\|b \<i\>\*c\*\</i\> \[d\](e) \`f\`"
    assert shown.markdown("") == "(nothing)"


def test_distances_by_synonyms() -> None:
    role("wordnet")
    assert distances.meteor(SAME) == pytest.approx(1, abs=0.01)
    assert distances.meteor(WORSE) < 0.5
    # Added words cost more than left out ones, as in the paper.
    longer = distances.meteor([("a man plays", "well once upon a time a man plays")])
    shorter = distances.meteor([("well once upon a time a man plays", "a man plays")])
    assert longer < shorter
    assert distances.meteor([]) is None
