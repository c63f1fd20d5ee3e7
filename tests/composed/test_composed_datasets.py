"""Splits of composed queries, from each dataset that has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from annotation_files import EGOCVR_POOL, parse, split_of, write_egocvr

from perturbations.base.errors import ConfigError
from perturbations.composed import sources, split_rules
from perturbations.composed.gallery_sets import gallery
from perturbations.corpus.plan import items
from perturbations.demo import film


def test_egocvr_lists_each_clip_of_the_pool_once(tmp_path: Path) -> None:
    pool = [
        *EGOCVR_POOL,
        ("u_9_18", "#C C peels", "u"),  # a distractor of another target too
        ("u_9_18", "#C C peels it", "u"),
        ("u_9_18", "#C C peels", "other"),
        ("", "#C C rests", "u"),
        ("u_30_39", "#C C rests", ""),
    ]
    listing = items.read("mine", parse(write_egocvr(tmp_path, pool)).datasets["mine"])
    assert [item.item_id for item in listing.items] == ["u_0_9", "u_9_18", "u_20_29"]
    assert listing.items[1].texts == ("#C C peels", "#C C peels it")
    assert listing.items[1].files == ("u/u_9_18.mp4",)
    assert len(listing.rejected) == 3
    assert all("egocvr_data.csv" in entry.reason for entry in listing.rejected)


def test_egocvrs_pool_may_lie_elsewhere(tmp_path: Path) -> None:
    settings = write_egocvr(tmp_path)
    (tmp_path / "pool").mkdir()
    pool = (tmp_path / "egocvr_data.csv").rename(tmp_path / "pool" / "all.csv")
    with pytest.raises(ConfigError, match=r"there is no .*egocvr_data\.csv"):
        sources.check(parse(settings), "mine")
    own = {**settings, "pool": str(pool)}
    sources.check(parse(own), "mine")
    assert len(split_of(own).pool) == 3
    assert split_rules.annotation_files(parse(own), "mine") == [settings["annotations"], str(pool)]


def test_the_official_files_have_their_published_sizes(reference: Path, tmp_path: Path) -> None:
    annotations = reference / "data" / "egocvr" / "egocvr_annotations.csv"
    settings = {"adapter": "egocvr", "annotations": str(annotations), "videos": str(tmp_path)}
    listing = items.read("mine", parse(settings).datasets["mine"])
    assert (len(listing.items), len(listing.rejected)) == (10_666, 0)
    assert sum(len(item.texts) > 1 for item in listing.items) == 15


def test_activitynets_official_json_lists_sentences_with_their_spans(tmp_path: Path) -> None:
    path = tmp_path / "val_1.json"
    entry = {
        "duration": 60,
        "timestamps": [[0, 9.5], [20, 30], [40]],
        "sentences": [" He peels it. ", "He cuts it.", "x"],
    }
    path.write_text(json.dumps({"v_a": entry, "v_b": {"timestamps": [[0, 1]], "sentences": []}}))
    settings = {"adapter": "activitynet", "annotations": str(path), "videos": str(tmp_path)}
    config = parse(settings)
    listing = items.read("mine", config.datasets["mine"])
    first = listing.items[0]
    assert (first.item_id, first.source_video_id, first.texts) == ("v_a_0", "v_a", ("He peels it.",))
    assert (first.start_s, first.end_s, first.files[0]) == (0.0, 9.5, "v_a.mp4")
    assert [entry.item_id for entry in listing.rejected] == ["v_a_2", "v_b"]
    assert config.datasets["mine"].has_spans
    sources.check(config, "mine")


def test_didemos_moments_are_those_that_most_annotators_chose(tmp_path: Path) -> None:
    path = tmp_path / "test_data.json"
    rows = [
        {"video": "a.mov", "description": " a dog runs ", "annotation_id": 7, "times": [[4, 4], [1, 2], [1, 2]]},
        {"video": "a.mov", "description": "a dog sits", "annotation_id": 8, "times": []},
        {"video": "a.mov", "description": "a dog eats", "annotation_id": 9, "times": [[0, 10**400]]},
    ]
    path.write_text(json.dumps(rows))
    settings = {"adapter": "didemo", "annotations": str(path), "videos": str(tmp_path)}
    moments = {**settings, "moments": True}
    listing = items.read("mine", parse(moments).datasets["mine"])
    (moment,) = listing.items
    assert (moment.item_id, moment.texts, moment.start_s, moment.end_s) == ("a.mov_7", ("a dog runs",), 5.0, 15.0)
    assert [entry.item_id for entry in listing.rejected] == ["a.mov_8", "a.mov_9"]
    sources.check(parse(moments), "mine")
    with pytest.raises(ConfigError, match="`moments: true`"):
        sources.check(parse(settings), "mine")


@pytest.mark.parametrize(
    ("adapter", "reason"),
    [("activitynet", "one paragraph per video, without spans"), ("folder", "whole videos"), ("msrvtt", "whole videos")],
)
def test_whole_videos_give_no_split(adapter: str, reason: str, tmp_path: Path) -> None:
    config = parse({"adapter": adapter, "annotations": str(tmp_path / "a.jsonl"), "videos": str(tmp_path)})
    with pytest.raises(ConfigError, match=reason):
        sources.check(config, "mine")


def test_a_folder_with_spans_gives_a_split(tmp_path: Path) -> None:
    rows = ["id,file,text,from,to", "a,v.mp4,peel the onion,0,5", "b,v.mp4,cut the onion,6,9", "c,v.mp4,wash pots,9,12"]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    columns = {"item_id": "id", "video": "file", "caption": "text", "start_s": "from", "end_s": "to"}
    settings = {
        "adapter": "folder",
        "annotations": str(tmp_path / "a.csv"),
        "videos": str(tmp_path),
        "columns": columns,
    }
    sources.check(parse(settings), "mine")
    assert {query.query_id: query.instruction for query in split_of(settings).queries} == {
        "a:temporal": "Cut it instead.",
        "b:temporal": "Peel it instead.",
    }


def test_youcook2_gives_over_2000_queries(reference: Path) -> None:
    annotations = reference / "data" / "youcook2" / "validation_youcook.csv"
    split = split_of({"adapter": "youcook2", "annotations": str(annotations), "videos": str(annotations.parent)})
    assert len(split.queries) >= 2_000
    assert len(split.pool) == 3_350


def test_families_of_the_demo_differ_in_motion_or_colour_and_have_seven_candidates() -> None:
    members = film.families(40)
    assert members[:16] == film.families(16)
    scenes = [int(member.item_id.removeprefix("demo-")) for member in members]
    assert len({*scenes}) == 40
    assert not {*scenes} & {*film.TRAINING}
    for member in members:
        assert member.motion in member.caption
        assert f" {member.colour} " in member.caption
        first = members[8 * member.family]
        expected = first.caption.partition(" near a ")[0]
        changed = expected.replace(first.motion, member.motion).replace(first.colour, member.colour)
        assert member.caption.partition(" near a ")[0] == changed
    with pytest.raises(ConfigError, match=r"has clips: 10000; with families: true there are \d+"):
        split_of({"adapter": "demo", "clips": 10_000, "families": True})
    split = split_of({"adapter": "demo", "clips": 16, "families": True})
    assert len(split.queries) == 16 * 4
    assert {len(rows) for rows in gallery(split, "local_full")} == {7}
    for query in split.queries:
        assert query.change == ("temporal" if query.instruction.startswith("Now it") else "object")
        assert query.modified_caption != query.narration
    assert split_of({"adapter": "demo", "clips": 16, "families": True}) == split
