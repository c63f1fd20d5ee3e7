"""EgoCVR's files: what is read from them, the distractors recovered from their order, and the galleries."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from annotation_files import scored
from copies import ROOT

from perturbations.base.errors import AnnotationError
from perturbations.composed import gallery_sets, official
from perturbations.composed.split import ComposedQuery, PoolClip, Split, overlap, same_action
from perturbations.evaluation.composed.ways import ScoredModel

HEADER = "video_clip_id,target_clip_ids,video_clip_narration,target_clip_narration,instruction,modified_captions"


def clip(name: str, narration: str = "") -> PoolClip:
    start_s, end_s = official.span(name)
    video = name.rsplit("_", 2)[0]
    return PoolClip(clip_id=name, video_id=video, narration=narration or name, start_s=start_s, end_s=end_s)


def written(folder: Path, queries: list[str], pool: list[PoolClip], columns: str = "") -> Path:
    with (folder / official.POOL).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["clip_name", "narration_text", "video_uid"])
        table.writerows([member.clip_id, member.narration, member.video_id] for member in pool)
    path = folder / official.ANNOTATIONS
    path.write_text("\n".join([HEADER + columns, *queries, ""]), encoding="utf-8")
    return path


POOL = [
    clip("a_0_8"),
    clip("a_20_28"),
    clip("a_40_48"),
    *(clip(f"a_{100 + 10 * n}-5_{108 + 10 * n}-5") for n in range(12)),
]
QUERIES = ["a_0_8,['a_20_28'],,,Shake it., #C C shakes", "a_20_28,\"['a_0_8', 'a_40_48']\",,,Take it instead.,"]


def test_what_is_read(tmp_path: Path) -> None:
    split = official.read(written(tmp_path, QUERIES, [*POOL, clip("a_200-5_208-5")][:15]))
    assert [query.clip_id for query in split.queries] == ["a_0_8", "a_20_28"]
    assert split.queries[0].modified_caption == "#C C shakes"
    assert split.queries[1].target_ids == ("a_0_8", "a_40_48")
    assert (split.pool[3].start_s, split.pool[3].end_s) == (100.5, 108.5)
    assert sorted(split.blocks) == ["a_0_8", "a_20_28", "a_40_48"]


def test_six_distractors_per_target_in_the_order_of_the_names() -> None:
    queries = (
        ComposedQuery(query_id="0", clip_id="a_0_8", targets='["a_40_48", "a_20_28"]', instruction=""),
        ComposedQuery(query_id="1", clip_id="a_0_8", targets='["a_20_28"]', instruction=""),
    )
    blocks, certain = official.blocks(Split(tuple(POOL), queries, {}))
    assert blocks == {"a_20_28": tuple(range(3, 9)), "a_40_48": tuple(range(9, 15))}
    assert certain == {"a_20_28", "a_40_48"}


def test_short_blocks_follow_from_what_a_block_may_hold() -> None:
    pool = (clip("a_0_8", "cut"), clip("a_20_28", "Shake it!"), clip("a_40_48", "stir"))
    distractors = (clip("a_100_108"), clip("a_110_118", "shake it"), clip("a_105_113"))
    queries = (ComposedQuery(query_id="0", clip_id="a_0_8", targets='["a_20_28", "a_40_48"]', instruction=""),)
    split = Split(pool + distractors, queries, {})
    blocks, certain = official.blocks(split)
    # The second row holds the first target's own action, and the third lies before it in time: no way fits.
    assert (blocks, certain) == ({"a_20_28": (3, 4), "a_40_48": (5,)}, frozenset())
    # Neither in time order nor of another action: one row each is the only way.
    turned = Split((*pool, clip("a_110_118"), clip("a_100_108", "shake it")), queries, {})
    assert official.blocks(turned) == ({"a_20_28": (3,), "a_40_48": (4,)}, {"a_20_28", "a_40_48"})


def test_galleries_by_name() -> None:
    queries = (
        ComposedQuery(query_id="0", clip_id="a_0_8", targets='["a_20_28"]', instruction=""),
        ComposedQuery(query_id="1", clip_id="a_20_28", targets='["a_0_8", "a_40_48"]', instruction=""),
    )
    split = Split(tuple(POOL[:9]), queries, {"a_20_28": (3, 4), "a_0_8": (5,), "a_40_48": (6, 7)})
    expected = {
        "global_rows": [(1, 2, 3, 4, 5, 6, 7, 8), (0, 2, 3, 4, 5, 6, 7, 8)],
        "global_distinct": [(1, 2, 3, 4, 5, 6, 7, 8), (0, 2, 3, 4, 5, 6, 7, 8)],
        "global_targets": [(1, 2), (0, 2)],
        "global_target_rows": [(1,), (0,)],
        "local_released": [(1, 3, 4), (0, 2)],
        "local_full": [(1, 3, 4), (0, 2, 5, 6, 7)],
    }
    assert {name: list(gallery_sets.gallery(split, name)) for name in gallery_sets.NAMES} == expected
    with pytest.raises(ValueError, match="no gallery 'local'; choose one of global_rows"):
        gallery_sets.gallery(split, "local")


def test_a_repeated_name_or_moment_counts_per_row_or_once() -> None:
    pool = (*POOL[:3], POOL[3], POOL[3])
    queries = (ComposedQuery(query_id="0", clip_id="a_0_8", targets='["a_20_28"]', instruction=""),)
    split = Split(pool, queries, {})
    assert list(gallery_sets.gallery(split, "global_rows")) == [(1, 2, 3, 4)]
    assert list(gallery_sets.gallery(split, "global_distinct")) == [(1, 2, 4)]
    assert gallery_sets.targets_in(split, queries[0]) == (1,)


def test_ranges_are_the_rows_again_and_narrations_share_words_and_time() -> None:
    for rows in ((), (3,), (0, 1, 2, 5, 6, 9), (4, 2, 3)):
        parts = gallery_sets.ranges(rows)
        assert gallery_sets.rows_of(parts) == rows
        assert all(end != start for (_, end), (start, _) in pairwise(parts))
    assert same_action("#C C Cuts  the onion.") == same_action("c c cuts the onion")
    assert overlap(clip("a_0_8"), clip("a_4_12")) == pytest.approx(1 / 3)
    assert overlap(clip("a_0_8"), clip("b_0_8")) == 0
    assert overlap(clip("a_0_8"), clip("nothing")) == 0


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (["a_0_8,a_20_28,,,,"], "line 2: target_clip_ids is not a list"),
        (["a_0_8,[],,,,"], "is not a list of names"),
        (["a_0_8,[3],,,,"], "is not a list of names"),
        (["a_0_8,__import__('os').getcwd(),,,,"], "is not a list"),
        (["a_0_8,['x_0_1'],,,,"], "query 1 names a clip that is not in egocvr_data.csv: 'x_0_1'"),
        (["a_0_8,['a_20_28']"], "no 'video_clip_narration'"),
        (["a_0_8,['a_20_28'],,,,,,"], "8 fields, where the header has 6"),
        ([], "lists no query"),
    ],
)
def test_bad_annotations_are_refused(tmp_path: Path, queries: list[str], message: str) -> None:
    with pytest.raises(AnnotationError, match=message.replace("(", r"\(")):
        official.read(written(tmp_path, queries, POOL))


def test_a_gallery_file_wins_and_must_name_rows(tmp_path: Path) -> None:
    lines = ['a_0_8,[\'a_20_28\'],,,x,,"[1, 2]","[1, 5]"']
    split = official.read(written(tmp_path, lines, POOL, ",global_idx,local_idx"))
    assert [*map(tuple, gallery_sets.gallery(split, "local_official"))] == [(1, 5)]
    assert [*map(tuple, gallery_sets.gallery(split, "global_official"))] == [(1, 2)]
    for wrong in ("[99]", "[-1]", "[True]", "3"):
        lines = [f'a_0_8,[\'a_20_28\'],,,x,,"[1, 2]","{wrong}"']
        with pytest.raises(AnnotationError, match="local_idx is not a list"):
            official.read(written(tmp_path, lines, POOL, ",global_idx,local_idx"))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    split = official.read(written(tmp_path, QUERIES, POOL))
    local = [*gallery_sets.gallery(split, "local_full")]
    folder = tmp_path / "again"
    paths = official.write(split, folder, galleries={"global_idx": local, "local_idx": local})
    again = official.read(paths[-1])
    assert (again.pool, again.queries, again.blocks) == (split.pool, split.queries, split.blocks)
    assert [*map(tuple, gallery_sets.gallery(again, "local_official"))] == list(local)


# --- the published data ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def egocvr(reference: Path) -> Split:
    return official.read(reference / "data" / "egocvr" / official.ANNOTATIONS)


def test_egocvrs_own_counts(egocvr: Split) -> None:
    assert (len(egocvr.queries), len({query.clip_id for query in egocvr.queries})) == (2295, 1864)
    assert (len(egocvr.pool), len(egocvr.last), len({member.video_id for member in egocvr.pool})) == (
        12_526,
        10_666,
        624,
    )
    assert sum(len(query.target_ids) for query in egocvr.queries) / 2295 == pytest.approx(1.208, abs=5e-4)


def test_egocvrs_blocks_are_recovered(egocvr: Split, reference: Path) -> None:
    with (reference / "data" / "egocvr" / "egocvr_blocks.csv").open(newline="") as file:
        rows = {
            row["target_clip_id"]: (int(row["first_row"]), int(row["rows"]), row["certain"])
            for row in csv.DictReader(file)
        }
    assert egocvr.blocks == {name: tuple(range(first, first + count)) for name, (first, count, _) in rows.items()}
    assert egocvr.certain == {name for name, (_, _, certain) in rows.items() if certain == "1"}


@pytest.mark.parametrize(
    ("name", "counted", "mean", "most", "chances"),
    [
        ("local_released", 2293, 6.39, 10, [25.3, 38.1, 50.8]),
        ("local_full", 2286, 7.84, 33, [15.2, 30.1, 44.5]),
    ],
)
def test_egocvrs_local_galleries(
    egocvr: Split, name: str, counted: int, mean: float, most: int, chances: list[float]
) -> None:
    """The numbers of docs/egocvr.md are those of results."""
    model = ScoredModel("none", np.zeros((len(egocvr.pool), 1), np.float32))
    ((row, _),) = scored(egocvr, model, galleries=[name], strategies=[])
    assert (row.queries, round(row.gallery_mean or 0, 2)) == (counted, mean)
    assert max(map(len, gallery_sets.gallery(egocvr, name))) == most
    assert [round(getattr(row, f"recall_at_{k}") or 0, 1) for k in (1, 2, 3)] == chances
    line = next(line for line in (ROOT / "docs/egocvr.md").read_text().splitlines() if f"| `{name}`" in line)
    for shown in (f"{counted:,}", f"{mean}", f"{most}", " / ".join(map(str, chances))):
        assert shown in line
