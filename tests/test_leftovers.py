"""What another process is writing, or left as it was killed, is no list, no journal and no reason to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from perturbations.base import storage
from perturbations.config import file as config_file
from perturbations.evaluation import results
from perturbations.plan import listed, sharding
from perturbations.plan.listed import ListedCaption

CAPTION = ListedCaption(caption_id="a#0", item_id="a", text="a dog")


def written(folder: Path, *names: str) -> Path:
    """A folder of lists of one caption each."""
    for name in names:
        listed.write(folder / name, [CAPTION])
    return folder


def test_a_list_that_is_being_written_is_no_shard(tmp_path: Path) -> None:
    lists = written(tmp_path / "captions", "s1.jsonl", "s0.jsonl", storage.temporary_path(Path("s0.jsonl")).name)
    assert listed.shards(lists) == ["s0", "s1"]
    assert listed.read_folder(lists, ListedCaption) == {"s0": [CAPTION], "s1": [CAPTION]}


def test_two_plans_may_remove_the_same_stale_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "captions.csv").write_text("item_id,caption\na,a dog\n", encoding="utf-8")
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "a.mp4").touch()
    dataset = {"adapter": "folder", "annotations": str(tmp_path / "captions.csv"), "videos": str(tmp_path / "videos")}
    parsed = config_file.parse({"datasets": {"d": dataset}, "suites": {"mlvp": {}}})
    written(tmp_path / "work" / "shards", "s0.jsonl")
    written(tmp_path / "work" / "captions", "s0.jsonl")
    unlink = Path.unlink

    def second(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=True)  # the other plan was first
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", second)
    assert len(sharding.make("d", parsed, tmp_path / "work").shards) == 1
    assert len(sharding.captions("d", parsed, tmp_path / "work")) == 1


def test_a_journal_that_is_being_written_anew_is_not_read(tmp_path: Path) -> None:
    for name in ("none.jsonl", "adapted.jsonl", storage.temporary_path(Path("adapted.jsonl")).name):
        (tmp_path / name).touch()
    assert results.other_journals(tmp_path / "none.jsonl") == [tmp_path / "adapted.jsonl"]
