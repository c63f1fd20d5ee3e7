"""Composed retrieval of models whose features are given: settings, galleries, chance, the command."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perturbations.base.errors import ConfigError
from perturbations.cli import common
from perturbations.cli.main import main
from perturbations.composed import official
from perturbations.composed.audit import compare_galleries, compared
from perturbations.composed.galleries import gallery
from perturbations.composed.records import ComposedQuery, PoolClip, Split
from perturbations.composed.scores import Model, Packed, Score, evaluate, settings
from perturbations.composed.table import as_csv, as_text

POOL = tuple(PoolClip(name=f"v_{n}_{n + 8}", video_id="v", narration=f"narration {n}") for n in range(0, 80, 10))
QUERIES = (
    ComposedQuery(query_id="0", clip="v_0_8", targets=("v_10_18",), instruction="One.", target_narration="n 1"),
    ComposedQuery(
        query_id="1", clip="v_10_18", targets=("v_0_8", "v_20_28"), instruction="Two.", target_narration="n 0"
    ),
    ComposedQuery(query_id="2", clip="v_20_28", targets=("v_20_28",), instruction="None.", target_narration="n 2"),
)
SPLIT = Split(POOL, QUERIES, {"v_10_18": (3, 4), "v_0_8": (5,), "v_20_28": (6, 7)})
EYE = np.eye(8, dtype=np.float32)
LOOKS = Model("looks", EYE + 0.1)
READS = Model("reads", EYE, {"instruction": EYE[[1, 2, 7]], "gt": EYE[[1, 0, 2]]})


def scored(
    *models: Model, galleries: tuple[str, ...] = ("local_full",), **options: bool
) -> dict[tuple[str, ...], Score]:
    scores = evaluate(SPLIT, models, list(settings(models)), galleries, **options)
    return {
        (s.setting.strategy, s.setting.words, s.setting.average, s.setting.shortlist_strategy, s.gallery): s
        for s in scores
    }


def test_settings_are_those_that_the_features_allow() -> None:
    names = {(s.model, s.strategy, s.words, s.average, s.shortlist_strategy) for s in settings([LOOKS, READS])}
    assert names == {
        ("looks", "visual", "", "", ""),
        ("reads", "visual", "", "", ""),
        *(("reads", "text", words, "", "") for words in ("instruction", "gt")),
        *(("reads", "average", words, how, "") for words in ("instruction", "gt") for how in ("released", "unit")),
        *(("reads", "two_stage", words, "", "visual") for words in ("instruction", "gt")),
    }
    assert [s.strategy for s in settings([LOOKS])] == ["visual"]
    alone = [s for s in settings([READS], words=["gt"]) if s.strategy == "two_stage"]
    assert {(s.shortlist_strategy, s.average) for s in alone} == {
        ("visual", ""),
        ("text", ""),
        ("average", "released"),
        ("average", "unit"),
    }


def test_recall_stands_beside_the_chance_of_the_same_queries() -> None:
    scores = scored(READS, galleries=("local_full", "global_rows"))
    score = scores["text", "instruction", "", "", "local_full"]
    # The third query has itself as its only target: its gallery holds none, and it is a miss.
    assert (score.queries, score.skipped, score.unanswerable) == (3, 0, 1)
    assert score.recalls[1][0] == pytest.approx(100 * 2 / 3)
    assert score.recalls[1][3] == pytest.approx(100 * (1 / 3 + 2 / 5 + 0) / 3)
    assert score.places.tolist() == [1, 1, 0]
    everywhere = scores["text", "gt", "", "", "global_rows"]
    assert (list(everywhere.recalls), everywhere.max_size) == ([1, 5, 10], 7)


def test_queries_without_an_answer_can_be_left_out() -> None:
    score = scored(READS, answerable_only=True)["text", "instruction", "", "", "local_full"]
    assert (score.queries, score.skipped, score.unanswerable) == (2, 1, 1)
    assert score.recalls[1][0] == 100
    assert score.places.tolist() == [1, 1, -1]


def test_other_query_clips_may_be_asked_than_those_of_the_gallery() -> None:
    strange = replace(LOOKS, queries=EYE[[1, 0, 3]])
    assert scored(strange)["visual", "", "", "", "local_full"].places.tolist() == [1, 1, 0]
    assert scored(LOOKS)["visual", "", "", "", "local_full"].places.tolist() == [3, 4, 0]


def test_features_of_another_size_are_refused() -> None:
    with pytest.raises(ConfigError, match="looks: the features of clips are 7 x 8; expected 8 x 8"):
        scored(Model("looks", EYE[:7]))
    with pytest.raises(ConfigError, match="reads: the features of texts 'gt' are 3 x 7; expected 3 x 8"):
        scored(Model("reads", EYE, {"gt": EYE[:3, :7]}))


def test_packed_galleries_are_the_same_sets() -> None:
    rows = [(1, 2, 9), (), tuple(range(10)), (9, 0)]
    packed = Packed(rows, 10)
    assert [members.tolist() for members in packed] == [[1, 2, 9], [], list(range(10)), [0, 9]]
    assert packed.sizes.tolist() == [3, 0, 10, 2]


def test_tables_hold_every_score() -> None:
    scores = list(scored(LOOKS, READS, galleries=("local_full", "global_rows")).values())
    text = as_text(scores)
    assert "local_full: 3 queries, 0 left out, 1 without a target; 3.33 clips on average, at most 5" in text
    assert "looks visual -> reads text, gt" in text
    rows = list(csv.DictReader(as_csv(scores, {"frames": "mean"}).splitlines()))
    assert len(rows) == len(scores)
    assert {row["frames"] for row in rows} == {"mean"}
    local = next(row for row in rows if row["gallery"] == "local_full" and row["words"] == "gt")
    assert float(local["r2"]) > 0
    assert (local["r5"], local["r10_chance"]) == ("", "")


def test_a_gallery_that_the_dataset_brings_is_compared_in_words() -> None:
    released = list(gallery(SPLIT, "local_released"))
    same = compare_galleries(replace(SPLIT, galleries={"local_official": released}))
    assert (same.equal, same.more, same.fewer, same.first) == (3, 0, 0, "")
    assert "local_official is local_released: all 3 galleries hold the same clips" in same.words()
    full = replace(SPLIT, galleries={"local_official": list(gallery(SPLIT, "local_full"))})
    other = compare_galleries(full)
    assert (other.equal, other.more, other.fewer, other.first) == (1, 3, 1, "1")
    assert "local_official is not local_released: 1 of 3" in other.words()
    assert "that of query 1" in other.words()
    assert next(comparison.ours for comparison in compared(full)) == "local_full"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The files of the command: annotations, and features of two models."""
    official.write(SPLIT, tmp_path)
    names = np.array([clip.name for clip in POOL])
    np.savez(tmp_path / "clips.npz", names=names, embeddings=EYE)
    texts = np.array(["One.", "Two.", "None.", "n 1", "n 0", "n 2"])
    np.savez(tmp_path / "texts.npz", names=texts, embeddings=EYE[:6])
    return [str(tmp_path / name) for name in (official.ANNOTATIONS, "clips.npz", "texts.npz")]


def test_the_command_prints_and_writes_a_table(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    annotations, clips, texts = files
    arguments = ["composed-evaluate", annotations, "--gallery", "local_full", "--gallery", "global_rows"]
    models = ["--model", "looks", clips, "--model", "reads", clips, texts]
    assert main([*arguments, *models, "-o", str(tmp_path / "out.csv")]) == 0
    shown = capsys.readouterr().out
    assert "looks visual -> reads text, instruction" in shown
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert {row["gallery"] for row in rows} == {"local_full", "global_rows"}
    # The captions that TF-CVR needs are empty in these annotations.
    assert {row["words"] for row in rows} == {"", "instruction", "gt"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--gallery", "local"], "no gallery 'local'; choose of global_rows"),
        (["--words", "tfcvr"], "--words tfcvr: some queries have none; the annotations have instruction, gt"),
        (["--strategy", "text", "--model", "looks", "CLIPS"], "give one model or two, with names of their own"),
        (["--model", "alone"], "give a name, a file of clips, and perhaps one of texts"),
        (["--model", "other", "TEXTS"], "lacks 8 of 8 clips: 'v_0_8'"),
        (["--model", "other", "CLIPS", "CLIPS"], "--words instruction: .* lacks 3 of 3 texts"),
    ],
)
def test_the_command_says_what_does_not_fit(
    files: list[str], more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    annotations, clips, texts = files
    given = [{"CLIPS": clips, "TEXTS": texts}.get(argument, argument) for argument in more]
    assert main(["composed-evaluate", annotations, "--model", "looks", clips, *given]) == 1
    assert re.search(message, capsys.readouterr().err)


def test_strategies_without_features_are_refused(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    annotations, clips, _ = files
    assert main(["composed-evaluate", annotations, "--model", "looks", clips, "--strategy", "text"]) == 1
    assert "nothing to evaluate" in capsys.readouterr().err


def test_without_scipy_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(common, "find_spec", lambda name: None if name == "scipy" else object())
    assert main(["composed-evaluate", str(tmp_path / "a.csv"), "--model", "clip", str(tmp_path / "a.npy")]) == 1
    assert "scipy not installed; evaluations need them: sh envs/install.sh models" in capsys.readouterr().err
