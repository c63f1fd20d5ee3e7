"""What `perturb verify` finds and mends, one fault at a time: all is as it was, or as the fault left it and told."""

from __future__ import annotations

import shutil
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import needs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import faults

from perturbations.base import storage, sums
from perturbations.base.errors import ManifestError, OutputError
from perturbations.engine import render_clip
from perturbations.engine.comparability import comparability
from perturbations.manifest import files, layout, row_groups, sets
from perturbations.manifest.kinds import MIXES, SOURCES, TEXT_STATISTICS, VIDEOS, VideoRow
from perturbations.plan import recipe, tiers
from perturbations.suites import registry
from perturbations.verify import clip_sets, derived, manifest_check, repair, run, strangers, undoing
from perturbations.verify import tree as verified_tree
from perturbations.verify.findings import Finding

pytestmark = needs.wings("evaluation")  # whose results the kept corpus has


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept corpus as this version writes it: with hashes of the metadata, and lists of files and pages."""
    root = tmp_path_factory.mktemp("repair") / "sound"
    with tarfile.open(Path(__file__).with_name("kept_corpus.tar.xz")) as archive:
        archive.extractall(root, filter="data")
    for path in sorted((root / "manifests").rglob("*.parquet")):
        kind, about = files.kind_of(path), files.read_metadata(path)
        about.pop("comparability", None)  # of another version
        files.write(path, kind, files.read_rows(path, kind), about)
    for path in sorted((root / "manifests").rglob("*.md")):
        storage.write_text(path, path.read_text("utf-8"))
    videos = root / "manifests/tiny/mlvp/videos.parquet"
    for item in "ab":  # rows are made again, with today's columns
        rows = [row for row in files.read_rows(videos, VIDEOS) if row.item_id != item]
        files.write(videos, VIDEOS, rows, files.read_metadata(videos))
        looked_at = verified_tree.read([root / "manifests"])
        manifest = looked_at.at(videos)
        assert manifest is not None
        check = manifest_check.ManifestCheck(looked_at, manifest, run.Options(stall_limit_s=60), remake=True)
        list(clip_sets.check_videos(check))
        assert check.corrected is not None
        files.write(videos, VIDEOS, check.corrected, repair.metadata(looked_at, manifest, check.corrected))
    looked_at = verified_tree.read([root / "manifests"])
    for manifest in looked_at.chosen:
        rows = derived.expected_rows(looked_at, manifest) if manifest.kind in (MIXES, TEXT_STATISTICS) else None
        if rows is not None:
            files.write(manifest.path, manifest.kind, rows, manifest.about)
    return root


def listed(path: Path, rows: list[Any], about: dict[str, Any] | None = None) -> None:
    """Write a manifest with other rows, and hashes that fit, also in its list."""
    files.write(path, files.kind_of(path), rows, about or files.read_metadata(path))


def rewrite(path: Path, rows: list[Any], about: dict[str, Any] | None = None) -> None:
    """Write a manifest with other rows, and hashes that fit; its list has the hash that it had."""
    listing = sums.list_of(path)
    assert listing is not None
    before = listing.read_bytes()
    listed(path, rows, about)
    listing.write_bytes(before)


@pytest.fixture
def tree(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the working directory."""
    monkeypatch.chdir(shutil.copytree(sound, tmp_path / "tree"))
    return tmp_path / "tree"


def every_fault(root: Path) -> dict[str, list[faults.Fault]]:
    by_kind: dict[str, list[faults.Fault]] = {}
    known = [faults.cell_faults, faults.metadata_faults, faults.row_faults, faults.file_faults]
    for fault in (fault for generated in known for fault in generated(root)):
        by_kind.setdefault(fault.kind, []).append(fault)
    return by_kind


def test_a_fault_of_each_class_is_found_and_mended_or_left_alone(sound: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    assert faults.findings(sound, fast=True) == faults.findings(sound, fast=False) == []
    original = faults.contents(sound)
    by_kind = every_fault(sound)
    assert len(by_kind) >= 50
    copy = tmp_path / "tree"
    outcomes: dict[str, str] = {}
    outcome = ""
    for kind, members in by_kind.items():
        for place in generator.permutation(len(members)):
            if outcome != "mended":  # then its files are as they were
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(sound, copy)
            outcome = ""
            if members[place].inject(copy, generator) is not False:
                break
        is_found, outcome = faults.repair(copy, original, fast=True)
        outcomes[kind] = outcome if is_found else f"missed; {outcome}"
    assert {kind: outcome for kind, outcome in outcomes.items() if outcome not in ("mended", "reported")} == {}
    assert sum(outcome == "mended" for outcome in outcomes.values()) >= 15


def test_a_project_s_folder_is_verified_as_its_manifests_are(tree: Path) -> None:
    part = tree / "work/tiny/sources/s0123456789ab.parquet"
    part.parent.mkdir(parents=True)
    shutil.copy(tree / "manifests/tiny/sources.parquet", part)
    options = run.Options(fast=True, stall_limit_s=60)
    expected = [summary.path for summary in run.verify([tree / "manifests"], options)]
    summaries = list(run.verify([tree], options))
    assert [summary.path for summary in summaries] == expected
    assert not [finding for summary in summaries for finding in summary.findings]


def left_by_repair(*, fast: bool = True, dry_run: bool = False) -> list[str]:
    """What a repair of the tree in the working directory does not mend."""
    options = run.Options(repair=True, fast=fast, stall_limit_s=60, dry_run=dry_run)
    return [str(finding) for summary in run.verify([Path("manifests")], options) for finding in summary.findings]


def repaired(*, fast: bool = True) -> list[str]:
    """What is left to find after a repair of the tree in the working directory."""
    left = left_by_repair(fast=fast)
    findings = faults.findings(Path(), fast=True)
    assert bool(left) == bool(findings)
    return findings


def edit_cell(path: Path, name: str, value: object, *, hashed: bool = True) -> None:
    """Write another value into a column's first cell, with hashes that fit, or as another program does."""
    table = pq.read_table(path)
    place = table.column_names.index(name)
    field = table.schema.field(place)
    cells = pa.array([value, *table[name].to_pylist()[1:]], field.type)
    faults.write(path, table.set_column(place, field, cells), hashed=hashed)


@pytest.mark.parametrize("name", ["sha256", "width", "item_id"])
def test_a_wrong_parent_is_not_written_into_its_children(name: str, tree: Path) -> None:
    """Also where the list of the dataset's files is gone, so that nothing but the children tells of it."""
    Path("manifests/tiny", sums.NAME).unlink()
    edit_cell(Path("manifests/tiny/sources.parquet"), name, 7 if name == "width" else "f" * 64)
    before = faults.contents(tree)
    summaries = list(run.verify([Path("manifests")], run.Options(fast=True, repair=True)))
    assert faults.contents(tree) == before
    problems = [finding.problem for summary in summaries for finding in summary.findings]
    assert any("does not list it: put the listed file back" in text for text in problems)
    assert any("run `snakemake --cores 1 manifests/tiny/sources.parquet`" in text for text in problems)


def test_a_parent_is_mended_before_its_children_in_one_pass(tree: Path) -> None:
    before = faults.contents(tree)
    edit_cell(Path("manifests/tiny/sources.parquet"), "sha256", "f" * 64)
    edit_cell(Path("manifests/tiny/mlvp/videos.parquet"), "level", "high")
    list(run.verify([Path("manifests")], run.Options(fast=True, repair=True)))
    assert faults.contents(tree) == before


def test_a_forged_file_with_a_fitting_row_is_mended_in_one_pass(tree: Path) -> None:
    before = faults.contents(tree)
    path = Path("manifests/tiny/mlvp/videos.parquet")
    rows, about = files.read_rows(path, VIDEOS), files.read_metadata(path)
    forged, other = rows[0], next(row for row in rows if row.item_id != rows[0].item_id)
    assert forged.path is not None
    assert other.path is not None
    shutil.copy(other.path, forged.path)
    cells = ("bytes", "sha256", "frames_sha256", "bitrate_bps", "psnr_db", "ssim", "storage_psnr_db", "stored_frames")
    rows[0] = replace(forged, **{name: getattr(other, name) for name in cells})
    rewrite(path, rows)
    list(run.verify([Path("manifests/tiny/mlvp/videos.parquet")], run.Options(repair=True, stall_limit_s=60)))
    assert faults.contents(tree) == before
    shutil.copy(other.path, forged.path)
    files.write(path, VIDEOS, rows, about)  # the list of files is forged too
    assert all("mixed" in finding for finding in faults.findings(tree, fast=True))
    before = faults.contents(tree)
    assert any("frames_sha256" in finding for finding in left_by_repair(fast=False))
    assert faults.contents(tree) == before


def test_a_deleted_suite_an_edited_page_and_a_file_of_no_suite_are_found_with_the_way_out(tree: Path) -> None:
    shutil.rmtree("manifests/tiny/mm_robustness")
    page = Path("manifests/tiny/mlvp/README.md")
    page.write_text(page.read_text() + "Comparable with everything.\n")
    findings = faults.findings(tree, fast=True)
    for name in ("videos.parquet", "captions.md", "captions.parquet"):
        command = f"`snakemake --cores 1 manifests/tiny/mm_robustness/{name}` makes it again"
        assert any("mm_robustness" in text and command in text for text in findings), name
    assert any(f"{page}: it was changed after it was written: put the listed file back" in text for text in findings)
    assert any("corpora/tiny/mm_robustness/pixelate/5/a.mp4: no row names this file" in text for text in findings)


def test_a_forged_verdict_is_found_and_taken_back(tree: Path) -> None:
    """It is found even where its list is forged too, and then left."""
    path = Path("manifests/tiny/mlvp/videos.parquet")
    rows, about = files.read_rows(path, VIDEOS), files.read_metadata(path)
    about["comparability"] = comparability(rows, adapter=str(about.get("adapter", "")))
    listed(path, rows, about)
    for write in (rewrite, listed):
        write(path, rows, {**about, "comparability": "comparable with published numbers"})
        (verdict,) = (text for text in faults.findings(tree, fast=True) if "comparability" in text)
        assert "its rows give 'not comparable with published numbers" in verdict
        faults.repair(tree, {}, fast=True)
        is_left = files.read_metadata(path)["comparability"].startswith("comparable")
        assert is_left == (write != rewrite)


def foreign_rows(path: Path) -> list[VideoRow]:
    """The rows that another configuration, with another seed, gives a corpus."""
    looked_at = verified_tree.read([path])
    (manifest,) = (chosen.of(VIDEOS) for chosen in looked_at.chosen)
    assert manifest is not None
    rows = [replace(row, recipe=row.recipe.replace('"seed":0', '"seed":1'), sha256="f" * 64) for row in manifest.rows]
    check = manifest_check.ManifestCheck(looked_at, manifest.restored(rows, manifest.about), run.Options(), remake=True)
    list(clip_sets.check_videos(check))
    return [row for row in check.corrected or [] if isinstance(row, VideoRow)]


@pytest.mark.parametrize("fast", [True, False])
def test_a_foreign_manifest_is_named_and_replaces_nothing(fast: bool, tree: Path) -> None:
    """As an old backup brings it: of the suite alone, or of the dataset with its list."""
    path = Path("manifests/tiny/mlvp/videos.parquet")
    rows = foreign_rows(path)
    clips_of = {row.path: row.sha256 for row in rows if row.path}
    assert 2 * sum(storage.sha256(name) != digest for name, digest in clips_of.items()) > len(clips_of)
    problems = {
        rewrite: "not the file that manifests/tiny/SHA256SUMS lists: put the listed",
        listed: "may be of other clips",
    }
    for write, problem in problems.items():
        write(path, rows)
        before = faults.contents(tree)
        assert any(problem in text for text in left_by_repair(fast=fast))
        assert faults.contents(tree) == before


def test_a_missing_source_leaves_every_manifest_as_it_is(tree: Path) -> None:
    before = faults.contents(tree)
    lost = next(row.path for row in files.read_rows(Path("manifests/tiny/sources.parquet"), SOURCES) if row.path)
    Path(lost).unlink()
    next(Path("corpora").rglob("b.mp4")).unlink()
    list(run.verify([Path("manifests")], run.Options(repair=True, stall_limit_s=60)))
    assert faults.contents(tree) == before, "what can be put back is, whatever else is wrong"


@pytest.mark.parametrize("name", ["videos", "mixed_severity", "mixed_types"])
def test_a_manifest_of_row_groups_is_put_back(tree: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for setting, value in {"GROUP": 2, "SMALL": 4, "_BATCH": 1}.items():
        monkeypatch.setattr(row_groups, setting, value)
    path = Path(f"manifests/tiny/mlvp/{name}.parquet")
    rows = list(files.read_rows(path, files.kind_of(path)))
    listed(path, rows)
    whole = path.read_bytes()
    assert pq.read_metadata(path).num_row_groups > 1
    rewrite(path, [replace(rows[0], variant="paper"), *rows[2:]])
    assert left_by_repair() == []
    assert path.read_bytes() == whole


# --- a repair as a transaction ---------------------------------------------------------------------------------------


def test_a_repair_is_shown_before_and_undone_after(tree: Path) -> None:
    """Manifests, clips, leftovers, and what lay in a clip's place: all is as it was before the repair."""
    sound_files = faults.contents(tree)
    videos = Path("manifests/tiny/mlvp/videos.parquet")
    places = [Path(row.path) for row in files.read_rows(videos, VIDEOS) if row.path]
    places[0].write_bytes(b"damaged")
    places[1].unlink()
    places[2].unlink()
    places[2].symlink_to("nowhere")
    places[3].unlink()
    places[3].mkdir()
    leftover = places[0].with_name(".it.part-0123456789ab.mp4")
    leftover.write_bytes(b"left")
    _lose_rows(tree)
    damaged = faults.contents(tree)
    planned = [str(each) for each in repairs(dry_run=True)]
    assert faults.contents(tree) == damaged
    assert not Path("work").exists()
    assert [str(each) for each in repairs()] == planned
    assert {"the row is missing", strangers.LEFTOVER} <= {each.rpartition(": ")[2] for each in planned}
    assert faults.contents(tree) == sound_files
    undone = undoing.undo(Path())
    assert {*map(str, undone.restored)} == {*map(str, places[:4]), str(leftover), str(videos)}
    assert faults.contents(tree) == damaged
    assert places[2].readlink() == Path("nowhere")
    assert places[3].is_dir()
    with pytest.raises(ManifestError, match="no repair to undo"):
        undoing.undo(Path())
    repairs()
    places[0].write_bytes(b"changed since")
    assert undoing.undo(Path()).changed == [places[0]]
    assert places[0].read_bytes() == b"changed since"


def repairs(*, dry_run: bool = False) -> list[Finding]:
    options = run.Options(repair=True, fast=True, stall_limit_s=60, dry_run=dry_run)
    return [finding for summary in run.verify([Path("manifests")], options) for finding in summary.repaired]


def test_repairs_that_were_killed_are_undone_with_the_next_and_others_are_forgotten(tree: Path) -> None:
    first, second = sorted(Path("corpora").rglob("*.mp4"))[:2]
    originals = {first: b"one", second: b"two"}
    repaired_clip = Path("made.mp4")

    def put(path: Path) -> None:
        repaired_clip.write_bytes(b"made")
        undoing.put(Path(), path, repaired_clip, storage.sha256(repaired_clip))

    for is_killed, restored in ((True, [second, first]), (False, [second])):
        for path, content in originals.items():
            path.write_bytes(content)
        undoing.begin(Path())
        put(first)
        if not is_killed:
            undoing.end(Path())
        undoing.begin(Path())
        put(second)
        assert undoing.undo(Path()).restored == restored
    repaired_clip.write_bytes(b"other")
    with pytest.raises(ManifestError, match="not the recorded file"):
        undoing.put(Path(), first, repaired_clip, storage.sha256(second))
    assert first.read_bytes() == b"made"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"path": "../../stolen", "kept": null, "sha256": null}', "no file of a run"),
        ('{"path": "elsewhere/a", "kept": null, "sha256": null}', "no file of a run"),
        ('{"path": "corpora/a", "kept": "../../config.yaml", "sha256": null}', "which no repair kept"),
        ('{"path": "corpora/a"}', "which no repair wrote"),
        ("[]", "which no repair wrote"),
    ],
)
def test_a_journal_of_a_stranger_leads_nowhere(line: str, problem: str, tree: Path) -> None:
    journal = Path(layout.at("repair_journal"))
    journal.parent.mkdir(parents=True)
    journal.write_text(f"{line}\n")
    with pytest.raises((ManifestError, OutputError), match=problem):
        undoing.undo(Path())


def test_a_copied_folder_and_a_wrong_root_make_nothing_and_stop_nothing(tree: Path) -> None:
    shutil.copytree("manifests/tiny", "manifests/tiny2")
    before = faults.contents(tree)
    left = left_by_repair(fast=False)
    assert faults.contents(tree) == before
    assert any("manifests/tiny2/mlvp/videos.parquet: its metadata says" in text for text in left)
    shutil.rmtree("manifests/tiny2")
    lost = _first(tree)
    for path in sorted(Path("manifests").rglob("*.parquet")):
        stored = path.read_bytes()
        rewrite(
            path, files.read_rows(path, files.kind_of(path)), {**files.read_metadata(path), "root": "../../../../.."}
        )
        lost.rename("aside")
        left = left_by_repair()
        assert any(text.startswith(f"{path}: ") and "root" in text for text in left), path
        Path("aside").rename(lost) if not lost.exists() else Path("aside").unlink()
        path.write_bytes(stored)
        assert faults.findings(tree, fast=True) == []


# --- how it is told, and how far a repair goes ----------------------------------------------------------------------


def _first(root: Path) -> Path:
    return sorted((root / "corpora").rglob("*.mp4"))[0]


def _edit(name: str, value: object) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        path = root / "manifests/tiny/mlvp/videos.parquet"
        rows = files.read_rows(path, VIDEOS)
        rewrite(path, [replace(rows[0], **{name: value}), *rows[1:]])

    return edit


def _lose_rows(root: Path) -> None:
    path = root / "manifests/tiny/mlvp/videos.parquet"
    rewrite(path, files.read_rows(path, VIDEOS)[2:])


def _miscount(root: Path) -> None:
    path = root / "manifests/tiny/mlvp/videos.parquet"
    about = files.read_metadata(path)
    about[sets.SET] = {**about[sets.SET], "listed": 1000, "missing": 997}
    rewrite(path, files.read_rows(path, VIDEOS), about)


MENDED: dict[str, Callable[[Path], object]] = {
    "a missing file": lambda root: _first(root).unlink(),
    "a damaged file": lambda root: _first(root).write_bytes(b"damaged"),
    "a folder in a file's place": lambda root: (_first(root).rename(root / "aside"), _place(root).mkdir()),
    "a link in a file's place": lambda root: (_first(root).rename(root / "aside"), _place(root).symlink_to("nowhere")),
    "an edited place": _edit("path", "corpora/tiny/mlvp/other.mp4"),
    "an edited level": _edit("level", "high"),
    "lost rows": _lose_rows,
    "a wrong count": _miscount,
    "a changed view": lambda root: _halve(root / "manifests/tiny/mlvp/mixed_types.parquet"),
    "a leftover": lambda root: _first(root).with_name(".it.part-0123456789ab.mp4").write_bytes(b"x"),
}


def _place(root: Path) -> Path:
    """Where the first file belongs, which is no longer there."""
    rows = files.read_rows(root / "manifests/tiny/mlvp/videos.parquet", VIDEOS)
    (gone,) = (row.path for row in rows if row.path and not (root / row.path).exists())
    return root / gone


def _halve(path: Path) -> None:
    kind = files.kind_of(path)
    rows = files.read_rows(path, kind)
    rewrite(path, rows[: len(rows) // 2])


@pytest.mark.parametrize("name", MENDED)
def test_what_can_be_made_again_is_mended_to_the_byte(name: str, tree: Path) -> None:
    before = faults.contents(tree)
    MENDED[name](tree)
    assert repaired() == []
    assert faults.contents(tree) == before


def test_a_fast_repair_gives_no_new_hash_to_a_cell_that_it_cannot_judge(tree: Path) -> None:
    before = faults.contents(tree)
    edited = [tree / "manifests/tiny/mlvp/videos.parquet", tree / "manifests/tiny/sources.parquet"]
    edit_cell(edited[0], "psnr_db", 1.0, hashed=False)
    edit_cell(edited[1], "codec", "vp9", hashed=False)
    damaged = [path.read_bytes() for path in edited]
    left = repaired()
    assert sum("it was changed after it was written: content_sha256" in finding for finding in left) == len(edited)
    assert [path.read_bytes() for path in edited] == damaged
    assert repaired(fast=False) == []
    assert faults.contents(tree) == before


def test_without_sources_rows_that_change_the_length_accuse_no_other_row(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a lost manifest said of clean clips is taken from the rows of perturbations that keep it."""
    path = tree / "manifests/tiny/mlvp/videos.parquet"
    rows = files.read_rows(path, VIDEOS)
    shorter = recipe.make(registry.get("mlvp/temporal_scrambling"), 3, seed=0, storage=tiers.Unstored())
    columns = {"frame_count": 2, "duration_s": 0.08, "source_frame_count": rows[0].source_frame_count}
    same = ("item_id", "dataset", "fps", "width", "height", "source_path", "source_sha256")
    kept = {name: getattr(rows[0], name) for name in same}
    files.write(path, VIDEOS, [*rows, clips.video_row(shorter, **kept, **columns)], files.read_metadata(path))
    (tree / "manifests/tiny/sources.parquet").unlink()
    assert not [finding for finding in faults.findings(tree, fast=True) if "duration_s" in finding]


def test_one_place_that_cannot_be_mended_does_not_stop_the_others(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = sorted((tree / "corpora").rglob("*.mp4"))[:2]
    whole = second.read_bytes()
    first.unlink()
    first.mkdir()
    (first / "mine.txt").write_text("mine")
    second.write_bytes(b"damaged")
    left = repaired()
    assert any("folder" in finding for finding in left)
    assert (first / "mine.txt").read_text() == "mine"
    assert second.read_bytes() == whole


def test_a_manifest_that_cannot_be_written_does_not_hide_what_was_found(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lose_rows(tree)
    _halve(tree / "manifests/tiny/mlvp/mixed_types.parquet")
    written = files.as_written

    def refused(path: Path, *arguments: Any) -> dict[str, object]:
        if path.name == "videos.parquet":
            raise OutputError(f"cannot write {path}: Read-only file system")
        return written(path, *arguments)

    monkeypatch.setattr(files, "as_written", refused)
    summaries = {
        str(summary.path): summary for summary in run.verify([Path("manifests")], run.Options(1, 60, True, True))
    }
    problems = [finding.problem for finding in summaries["manifests/tiny/mlvp/videos.parquet"].findings]
    assert "the row is missing" in problems
    assert any("it cannot be repaired: cannot write" in problem for problem in problems)
    assert summaries["manifests/tiny/mlvp/mixed_types.parquet"].findings


def test_fast_looks_at_hashes_and_renders_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_clip, "produce", lambda *arguments, **options: pytest.fail("rendered"))
    monkeypatch.setattr(render_clip, "measure", lambda *arguments, **options: pytest.fail("rendered"))
    assert faults.findings(tree, fast=True) == []
    _first(tree).write_bytes(b"damaged")
    assert any("not the one that the row describes" in finding for finding in faults.findings(tree, fast=True))


def test_no_manifest_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="make a corpus first"):
        list(run.verify([tmp_path], run.Options()))


def test_sources_that_are_not_at_hand_are_a_remark_of_the_corpus(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing but manifests and corpora, stored files are still read and their frames compared."""
    shutil.rmtree(tree / "videos")
    summaries = {str(summary.path): summary for summary in run.verify([Path("manifests")], run.Options())}
    videos = summaries["manifests/tiny/mlvp/videos.parquet"]
    assert videos.findings == []
    assert sum(videos.remarks.values()) == videos.rows
    assert summaries["manifests/tiny/sources.parquet"].findings
