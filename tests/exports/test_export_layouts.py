"""What the layouts hub, webdataset, mteb and croissant do with any name, with bad input, and in any folder."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from copies import ROOT
from export_readers import FORMATS, contents, export
from hypothesis import given
from hypothesis import strategies as st
from small_corpus import ITEMS

from perturbations.base import plugins, storage
from perturbations.base.errors import ConfigError, ManifestError, OutputError
from perturbations.cli.main import main
from perturbations.corpus import verification
from perturbations.exports import export_folder, export_names, export_registry, webdataset
from perturbations.manifest import files
from perturbations.manifest.rows import CAPTIONS, MIXES, MULTIMODAL, QRELS, SOURCES, TEXTS, VIDEOS


@pytest.fixture
def tree(small: Path, tmp_path: Path) -> Path:
    """A corpus that a test may change."""
    return Path(shutil.copytree(small, tmp_path / "tree"))


WRITTEN = {"videos": (VIDEOS, "mlvp/videos.parquet"), "pairs": (MULTIMODAL, "mlvp/multimodal.parquet")}
PAIRS = 2 * 2 * (2 * len(ITEMS) - 1)


def videos_of(tree: Path, what: str = "videos") -> Path:
    return tree / "manifests/data" / WRITTEN[what][1]


def rows_of(tree: Path, what: str = "videos") -> list[Any]:
    return [*files.read_rows(videos_of(tree, what), WRITTEN[what][0])]


def rewrite(tree: Path, rows: Sequence[Any], what: str = "videos") -> Path:
    """Give the manifest of videos or of pairs other rows."""
    files.write(videos_of(tree, what), WRITTEN[what][0], rows, {"root": "../../.."})
    return videos_of(tree, what)


def times(output: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file()}


def left_out(output: Path) -> list[dict[str, str]]:
    with (output / export_folder.LEFT_OUT).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- names and limits -------------------------------------------------------------------------------------------------


@given(
    st.lists(st.text(st.characters(codec=None), max_size=80) | st.sampled_from(["a", "A", "x" + "0" * 32]), max_size=6)
)
def test_keys_are_plain_and_distinct(ids: list[str]) -> None:
    keys = export_names.keys(ids)
    assert keys.keys() == set(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name) for name in keys.values())
    assert len({name.casefold() for name in keys.values()}) == len(keys)


def test_plain_ids_keep_their_names_without_the_extension_of_a_media_file() -> None:
    named = {"video9771": "video9771", "Zq-2_x": "Zq-2_x", "x.mp4": "x", "y.AVI": "y"}
    others = ["a.b", "-leading", "a" * 61, "x" + "0" * 32, "Same", "same", "c.mp4", "c.avi", "b", "B.webm", ".mp4"]
    keys = export_names.keys([*named, *others])
    assert {item_id: keys[item_id] for item_id in named} == named
    assert all(re.fullmatch("x[0-9a-f]{32}", keys[item_id]) for item_id in others)
    assert keys["x" + "0" * 32] != "x" + "0" * 32


def test_an_id_with_an_extension_names_no_file_with_two(tree: Path, tmp_path: Path) -> None:
    rewrite(tree, [replace(row, item_id="x.mp4") for row in rows_of(tree) if row.item_id == "video1"])
    for form in ("hub", "webdataset"):
        export(form, videos_of(tree), tmp_path / form)
    assert sorted(path.name for path in (tmp_path / "hub").rglob("*.mp4")) == ["x.mp4"] * 2
    (shard,) = (tmp_path / "webdataset/data").glob("gaussian_noise_1-*.tar")
    with tarfile.open(shard) as archive:
        assert archive.getnames() == [f"gaussian_noise_1-x.{name}" for name in ("json", "mp4", "txt")]


def test_scenarios_have_plain_names(small: Path) -> None:
    named = replace(rows_of(small)[0], perturbation="fog", severity=3)
    mixed = files.read_rows(videos_of(small).with_name("mixed_types.parquet"), MIXES)[0]
    scenarios = {
        "fog_3": named,
        "mixed_types_20": replace(mixed, share=0.2),
        "mixed_types_7": replace(mixed, share=0.07),
        "mixed_types_12p5": replace(mixed, share=0.125),
        "mixed_severity_fog": replace(mixed, mix="mixed_severity", share=None, perturbation="fog"),
    }
    assert {export_names.scenario(row): row for row in scenarios.values()} == scenarios
    assert re.fullmatch("x[0-9a-f]{32}_3", export_names.scenario(replace(named, perturbation="../[*]")))


@given(st.lists(st.integers(0, 5000), max_size=20), st.integers(1, 20_000))
def test_shards_are_as_large_as_they_may_be(lengths: list[int], limit: int) -> None:
    groups = list(webdataset.split(lengths, limit, int))
    assert [length for group in groups for length in group] == lengths
    for group, following in zip(groups, [*groups[1:], []], strict=False):
        assert sum(group) <= limit or len(group) == 1
        assert not following or sum(group) + following[0] > limit


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_a_video_that_is_not_there_is_left_out_and_listed(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    missing, changed = (tree / f"corpora/data/mlvp/gaussian_noise_{severity}/clip_7.mp4" for severity in (1, 3))
    missing.unlink()
    changed.write_bytes(changed.read_bytes()[:-1] + b"?")
    output = tmp_path / "out"
    assert main(["export", str(videos_of(tree)), "--format", name, "-o", str(output)]) == 1
    printed = capsys.readouterr().out
    total = 3 * len(ITEMS) - 2
    assert f"{output}: {total} videos written, 2 failed, 0 quarantined" in printed
    for row, problem in zip(left_out(output), ("missing", "changed"), strict=True):
        assert row["row"].startswith("clip_7")
        assert problem in row["problem"]
    assert "2 clips were left out" in (output / "README.md").read_text("utf-8")
    if name == "hub":
        tables = (output / "data").glob("*/metadata.parquet")
        assert sum(pq.read_table(path).num_rows for path in tables) == total


@pytest.mark.parametrize("name", ["hub", "mteb"])
def test_a_clip_that_captions_lack_is_an_error_too(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tree / "clean/1.mp4").unlink()
    texts = str(tree / "manifests/data/mm_robustness/captions.parquet")
    assert main(["export", texts, "--format", name, "--clean", "-o", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr().out
    assert "16 captions written, 4 videos written, 1 failed, 1 quarantined" in printed
    assert [row["row"] for row in left_out(tmp_path / "out")] == [ITEMS[1], "bad"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_quarantined_video_is_listed_once_and_costs_no_other_pair(tree: Path, tmp_path: Path, name: str) -> None:
    bad = {"status": "quarantined", "stage": "video", "error": "no frames", "path": None}
    rows = [replace(row, item_id="=1+1") if row.item_id == ITEMS[1] else row for row in rows_of(tree, "pairs")]
    rows = [replace(row, **bad) if (row.item_id, row.perturbation) == ("=1+1", "fog") else row for row in rows]
    done = export(name, rewrite(tree, rows, "pairs"), tmp_path / "out", "pairs")
    assert (done.written, len(done.failed), len(done.quarantined)) == (2 * len(ITEMS) - 1, 0, 1)
    (listed,) = left_out(tmp_path / "out")
    assert (listed["row"], listed["problem"]) == ("'=1+1 fog 1", "quarantined: video: no frames"), "no formula"


@pytest.mark.parametrize("name", FORMATS)
def test_rows_that_cannot_be_exported_are_refused_before_anything_is_written(
    tree: Path, tmp_path: Path, name: str
) -> None:
    rows, pairs = rows_of(tree), rows_of(tree, "pairs")
    of_frames = [replace(row, storage="frames/12", path="corpora/x.npy.zst") for row in rows]
    rejected = [replace(row, accepted=False) for row in pairs]
    twice, nothing = "complete rows more than once", "no complete row to export"
    for what, wrong, message in (
        ("videos", [*rows, rows[0]], twice),
        ("pairs", [*pairs, pairs[0]], twice),
        ("videos", of_frames, "stores frames/12.*--format vtr_tta"),
        ("pairs", rejected, nothing),
    ):
        with pytest.raises(ManifestError, match=message):
            export(name, rewrite(tree, wrong, what), tmp_path / "out", what)
    for kind in (VIDEOS, SOURCES, MIXES, TEXTS, QRELS):
        empty = tmp_path / "m" / f"{kind.name}.parquet"
        files.write(empty, kind, [], {"root": "."})
        message = "frames are exported from videos or mixes or sources" if kind == QRELS else nothing
        with pytest.raises(ManifestError, match=message):
            export(name, empty, tmp_path / "out", "captions" if kind == TEXTS else "videos")
    assert not (tmp_path / "out").exists()


def test_what_is_needed_and_not_there_is_named(tree: Path, tmp_path: Path) -> None:
    (tree / "manifests/data/captions.parquet").unlink()
    for what in ("videos", "pairs"):
        export("hub", videos_of(tree, what), tmp_path / what, what)
        (row, *_) = pq.read_table(tmp_path / what / "data/fog_1/metadata.parquet").to_pylist()
        assert (row["caption"], row["captions"], row.get("source_text")) == ("", [], None)
    assert row["text"].startswith("typos ")
    with pytest.raises(ManifestError, match=r"no clip has captions.*captions\.parquet"):
        export("mteb", videos_of(tree), tmp_path / "out")
    (tree / "manifests/data/sources.parquet").unlink()
    for form, what, manifest in (
        ("hub", "videos", videos_of(tree)),
        ("hub", "pairs", videos_of(tree, "pairs")),
        ("mteb", "captions", tree / "manifests/data/mm_robustness/captions.parquet"),
    ):
        with pytest.raises(ManifestError, match=r"no sources\.parquet beside or above"):
            export(form, manifest, tmp_path / "out", what, clean=form == "hub")
    assert not (tmp_path / "out").exists()


def test_a_clip_without_a_caption_is_named_where_tasks_need_one(
    tree: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tree / "manifests/data/captions.parquet"
    rows, about = files.read_rows(path, CAPTIONS), files.read_metadata(path)
    lacking = rows[0].item_id
    files.write(path, CAPTIONS, [row for row in rows if row.item_id != lacking], {"root": about["root"]})
    export("mteb", videos_of(tree), tmp_path / "out")
    assert f"1 clip without a caption, which tasks need, left out: {lacking!r}" in caplog.text


# --- folders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_lists_its_hashes_and_holds_nothing_that_was_staged(small: Path, tmp_path: Path, name: str) -> None:
    outputs = [tmp_path / "out", tmp_path / "again"]
    for output in outputs:
        export(name, videos_of(small), output, clean=True)
    written = contents(outputs[0])
    assert contents(outputs[1]) == written
    assert set(export_folder.read_sums(outputs[0] / export_folder.SUMS)) == written.keys() - {export_folder.SUMS}
    subprocess.run(["sha256sum", "--check", "--quiet", export_folder.SUMS], cwd=outputs[0], check=True)
    assert not any("part-" in path or "staged" in path for path in written)


def test_stored_videos_are_linked_and_copied_where_links_cannot_be(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export("hub", videos_of(tree), tmp_path / "linked")
    stored = tree / "corpora/data/mlvp/gaussian_noise_1/clip_7.mp4"
    exported = tmp_path / "linked/data/gaussian_noise_1/videos/clip_7.mp4"
    assert exported.samefile(stored)

    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    export("hub", videos_of(tree), tmp_path / "copied")
    copied = tmp_path / "copied/data/gaussian_noise_1/videos/clip_7.mp4"
    assert not copied.samefile(stored)
    assert copied.read_bytes() == stored.read_bytes()


@pytest.mark.parametrize("form", [*FORMATS, "recipe"])
def test_only_a_new_or_an_empty_folder_is_filled(small: Path, tmp_path: Path, form: str) -> None:
    (tmp_path / "empty").mkdir()
    export(form, videos_of(small), tmp_path / "empty")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("mine", "utf-8")
    before = contents(tmp_path)
    for output in (tmp_path / "mine", tmp_path / "empty"):
        with pytest.raises(OutputError, match=f"{output} holds files: choose a new folder"):
            export(form, videos_of(small), output)
    assert contents(tmp_path) == before


def test_verify_says_how_an_export_is_checked(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export("hub", videos_of(small), tmp_path / "out")
    assert main(["verify", str(tmp_path / "out")]) == 1
    assert "out is an export, not manifests: its SHA256SUMS" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["corpora/mine", "manifests/mine/out", "manifests"])
def test_a_folder_that_the_workflow_fills_is_refused(
    tree: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(tree), times(tree)
    for name, manifest in (
        ("vtr_tta", videos_of(tree)),
        ("hub", tree / "manifests/data/mm_robustness/captions.parquet"),
    ):
        assert main(["export", str(manifest), "--format", name, "-o", str(tree / place)]) == 1
        assert "which the workflow fills; choose another folder" in capsys.readouterr().err
    assert (contents(tree), times(tree)) == before


def test_a_stored_video_that_may_not_be_read_costs_no_other(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tree / str(next(row.path for row in rows_of(tree) if row.path))
    digest = storage.sha256

    def refused(path: Path) -> str:
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return digest(path)

    monkeypatch.setattr(storage, "sha256", refused)
    result = export("hub", videos_of(tree), tmp_path / "out")
    reason = f"the file cannot be read: {closed.name}: permission denied"
    assert [problem for _, problem in result.failed] == [reason]
    assert result.written == 3 * len(ITEMS) - 1
    closed = tree / "clean/1.mp4"
    checked = verification.check_manifest(tree / "manifests/data/sources.parquet")
    assert [f"{closed}: Permission denied" in finding["problem"] for finding in checked.findings].count(True) == 1


def test_a_folder_of_manifests_is_no_manifest_and_not_to_be_deleted(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(videos_of(tree).parent), "--format", "hub", "-o", str(tmp_path / "out")]) == 1
    message = capsys.readouterr().err
    assert "is a folder; name a manifest in it: mixed_severity.parquet, mixed_types.parquet, multimodal" in message
    assert "delete" not in message
    (tmp_path / "config.yaml").write_text("datasets: {}\n")
    assert main(["export", str(tmp_path / "config.yaml"), "--format", "hub", "-o", str(tmp_path / "out")]) == 1
    message = capsys.readouterr().err
    assert "config.yaml cannot be read as Parquet" in message
    assert "delete" not in message


# --- formats of other packages ----------------------------------------------------------------------------------------


def test_a_package_adds_a_format_by_an_entry_point(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The documentation's example, installed beside this package."""
    page = (ROOT / "docs/how-to/add-an-export.md").read_text("utf-8")
    (tmp_path / "file_list.py").write_text(page.split("```python\n")[1].split("```")[0], "utf-8")
    installed = tmp_path / "file_list-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: file-list\nVersion: 1.0\n", "utf-8")
    declared = page.split("```toml\n")[1].split("```")[0]
    group, line = declared.strip().splitlines()
    assert group == '[project.entry-points."perturbations.exports"]'
    (installed / "entry_points.txt").write_text(f"[perturbations.exports]\n{line.replace(chr(34), '')}\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    plugins.use([])
    try:
        assert export_registry.get("file_list").describe() == "file_list: 100 % of the rows' files, JSON; takes videos."
        words = ["--format", "file_list", "-o", str(tmp_path / "out")]
        assert main(["export", str(tree / "manifests/data/sources.parquet"), *words]) == 0
        listed = json.loads((tmp_path / "out/files.json").read_text("utf-8"))
        assert set(listed) == set(ITEMS)
        assert main(["export", str(tree / "manifests/data/mm_robustness/captions.parquet"), *words]) == 1
        assert "file_list takes videos only, not captions" in capsys.readouterr().err
    finally:
        plugins.use([])


@pytest.mark.parametrize(
    ("name", "what", "message"),
    [
        ("csv", "videos", "no format 'csv'.*known: .*vtr_tta"),
        ("recipe", "captions", "recipe takes videos only, not captions"),
        ("vtr_tta", "splits", "vtr_tta takes videos and captions only, not splits"),
        ("vtr_tta", "pairs", "not pairs of both: export videos.parquet and captions.parquet"),
        ("composed", "videos", "composed takes splits only, not videos"),
    ],
)
def test_formats_that_are_not_there_or_take_something_else_are_refused(
    tmp_path: Path, name: str, what: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        export(name, tmp_path, tmp_path / "out", what)
    assert not (tmp_path / "out").exists()


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_captions(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = str(small / "manifests/data/mm_robustness/captions.parquet")
    assert main(["export", texts, "--format", "hub", "-o", str(tmp_path / "hub")]) == 0
    assert "9 captions written, 0 failed" in capsys.readouterr().out
    (table,) = (tmp_path / "hub/data").glob("*.parquet")
    rows = pq.read_table(table).to_pylist()
    assert table.name == "word_swap_3.parquet"
    assert "c1" not in {row["id"] for row in rows}  # the gate rejected it
    with pytest.raises(SystemExit):
        main(["export", str(videos_of(small)), "--format", "webdataset", "--shard-size", "0", "-o", "x"])
    assert "--shard-size: must be at least 1, not 0" in capsys.readouterr().err


def test_the_card_shows_the_corpus_s_own_and_loads_as_yaml(small: Path, tmp_path: Path) -> None:
    export("hub", videos_of(small), tmp_path / "out", clean=True)
    text = (tmp_path / "out/README.md").read_text("utf-8")
    assert "### MLVP on data\n\nThe corpus's own card." in text
    assert [entry["config_name"] for entry in yaml.safe_load(text.split("---\n")[1])["configs"]] == [
        *("default", "fog_1", "gaussian_noise_1", "gaussian_noise_3", "clean"),
    ]


# --- pairs ------------------------------------------------------------------------------------------------------------


def test_an_export_before_the_first_pair_is_one_of_the_same_suite(tree: Path, tmp_path: Path) -> None:
    """Where no severity of config.yaml is that of the pairs, only the clean ones are exported."""
    about, rows = {"root": "../../..", "dataset": "data", "suite": "mlvp"}, rows_of(tree, "pairs")
    for members, videos in (([], len(ITEMS)), (rows, 3 * len(ITEMS))):
        output = tmp_path / str(videos)
        files.write(videos_of(tree, "pairs"), MULTIMODAL, members, about)
        assert export("hub", videos_of(tree, "pairs"), output, "pairs", clean=True).written == videos
        marker = json.loads((output / export_folder.MARKER).read_text("utf-8"))
        assert (marker["format"], marker["corpus"]) == ("hub", "data/multimodal/mlvp")
    assert len(pq.read_table(output / "data/fog_1/metadata.parquet")) == PAIRS // 2


def test_the_level_of_a_caption_s_perturbation_is_its_suite_s(tree: Path, tmp_path: Path) -> None:
    rows = [row for row in rows_of(tree, "pairs") if row.text_perturbation == "word_swap"]
    of_suite = rewrite(tree, [replace(row, suite="mm_robustness") for row in rows], "pairs")
    export("hub", of_suite, tmp_path / "out", "pairs")
    (row, *_) = pq.read_table(tmp_path / "out/data/fog_1/metadata.parquet").to_pylist()
    assert row["text_level"] == "word"
