"""What `perturb verify` finds and deletes; a run then makes these clips and manifests again, to the byte."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from looping import each
from workflow_project import IDS, Project, copy_of, new_project

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.cli.main import main
from perturbations.corpus import deletion, row_checks, verification
from perturbations.manifest import files, manifest_paths, sets
from perturbations.manifest.rows import VIDEOS, VideoRow

CONFIG: dict[str, Any] = {
    "seed": 3,
    "suites": {
        "mlvp": {"perturbations": ["gaussian_noise", "fog"], "severities": [1, 3]},
        "msrvtt_p": {"severities": [3], "captions": {"perturbations": ["typos", "shuffle_order"]}},
    },
    "storage": {"tier": "video", "profile": "compatible"},
    "shard_size": 50,
}
MANIFEST = Path("manifests/tiny/mlvp/videos.parquet")
TEXT_MANIFEST = Path("manifests/tiny/msrvtt_p/captions.parquet")
TARGETS = "mlvp_tiny", "text_msrvtt_p_tiny"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = new_project(tmp_path_factory.mktemp("finished"), **CONFIG)
    project.write_captions(IDS[:3])
    project.snakemake(*TARGETS)
    return project


@pytest.fixture
def corpus(finished: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of a finished run, in which commands work."""
    project = copy_of(finished, tmp_path / "run")
    monkeypatch.chdir(project.root)
    return project


def contents() -> dict[str, bytes]:
    """Every clip and manifest of the run in the working directory."""
    paths = [path for top in ("corpora", "manifests") for path in Path(top).rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in paths if path.suffix in (".mp4", ".parquet", ".json")}


def rows_of(path: Path = MANIFEST) -> list[Any]:
    return list(files.read_rows(path, files.kind_of(path)))


def clips(*, item: int | None = None) -> list[VideoRow]:
    """The rows of the corpus, of one of its three items; each has a file."""
    rows = rows_of()
    names = sorted({row.item_id for row in rows})
    return [row for row in rows if item is None or row.item_id == names[item]]


def findings(path: Path = Path("manifests"), **options: Any) -> list[str]:
    return [row_checks.line_of(finding) for each in verification.check(path, **options) for finding in each.findings]


def written_since(before: dict[str, int]) -> set[str]:
    """The clips below `corpora` that are not the files that `inodes` gave."""
    return {name for name, inode in inodes().items() if before.get(name) != inode}


def inodes() -> dict[str, int]:
    return {str(path): path.lstat().st_ino for path in Path("corpora").rglob("*.mp4")}


# --- damaged files ---------------------------------------------------------------------------------------------------


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "the file is missing"),
    "empty": (lambda path: path.write_bytes(b""), "has 0 bytes"),
    "truncated": (lambda path: os.truncate(path, 100), "has 100 bytes"),
    "changed": (_flip, "has another content"),
}


def test_a_sound_run_has_no_findings(corpus: Project, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents()
    assert main(["verify"]) == 0
    assert main(["verify", ".", "--delete", "-j", "2"]) == 0
    assert main(["verify", str(MANIFEST), "--render", "-j", "2"]) == 0
    assert main(["verify", str(TEXT_MANIFEST), "--render"]) == 0
    assert "deleted" not in capsys.readouterr().out
    assert contents() == before


def test_what_is_wrong_with_files_is_found_deleted_and_made_again(
    corpus: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents()
    wrong: dict[str, str] = {}
    for row, (damage, problem) in zip(clips(item=0), DAMAGE.values(), strict=True):
        assert row.path is not None
        damage(Path(row.path))
        wrong[row.path] = problem
    first, second = (Path(row.path or "") for row in clips(item=2)[:2])  # these are exchanged
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    wrong |= {str(first): "the file has", str(second): "the file has"}
    (first.parent / "mine.txt").write_text("not ours")
    (first.parent / "folder").mkdir()
    (first.parent / "folder/b.mp4").write_bytes(b"")
    sound = clips(item=1)[0]
    other_shard = Path(f"work/tiny/mlvp/{sound.perturbation}/{sound.severity}/s0.parquet")
    files.write(other_shard, VIDEOS, [sound])
    damaged = contents()
    assert main(["verify", "--json"]) == 1
    (checked,) = (each for each in json.loads(capsys.readouterr().out)["manifests"] if each["problems"])
    assert checked["manifest"] == str(MANIFEST)
    of_rows = {finding["row"]: finding["problem"] for finding in checked["problems"] if finding["row"]}
    assert len(of_rows) == len(wrong)
    for row in clips():
        if row.path in wrong:
            assert wrong[row.path] in of_rows[f"{row.item_id} mlvp {row.perturbation} {row.severity}"]
    foreign = {finding["file"] for finding in checked["problems"] if not finding["row"]}
    assert foreign == {str(first.parent / "mine.txt"), str(first.parent / "folder/b.mp4")}
    assert contents() == damaged

    assert main(["verify", "--delete"]) == 1
    assert {name for name in before if not Path(name).exists() and not name.endswith(".json")} == {*wrong}
    assert all(Path(name).read_bytes() == data for name, data in before.items() if Path(name).exists())
    assert all(Path(name).exists() for name in foreign)
    other_shard.unlink()
    held = inodes()
    corpus.snakemake(*TARGETS)
    assert written_since(held) == {*wrong}
    for name in foreign:
        Path(name).unlink()
    assert contents() == before
    assert findings() == []


@pytest.mark.parametrize("folder", ["corpora/tiny/mlvp/fog/1", "corpora"])
def test_a_deleted_folder_is_found(folder: str, corpus: Project) -> None:
    """The tests of visible clips make it again."""
    lost = len([*Path(folder).rglob("*.mp4")])
    shutil.rmtree(folder)
    assert len(findings(MANIFEST)) == lost > 0


def test_a_source_is_the_user_s_and_stays(corpus: Project) -> None:
    """What is said of it goes, so that the next run looks at it again."""
    manifest = "manifests/tiny/sources.parquet"
    path = Path(rows_of(Path(manifest))[0].path)
    _flip(path)
    before = contents()
    assert main(["verify", "--delete"]) == 1
    assert path.is_file()
    assert contents() == {name: data for name, data in before.items() if name != manifest}


# --- edited manifests ------------------------------------------------------------------------------------------------


def _edit(name: str, value: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        table = pq.read_table(path)
        column = [value, *table[name].to_pylist()[1:]]
        place = table.column_names.index(name)
        pq.write_table(table.set_column(place, table.schema.field(name), pa.array(column, table[name].type)), path)

    return change


def _edit_metadata(path: Path) -> None:
    table = pq.read_table(path)
    about = files.read_metadata(path) | {"dataset": "other"}
    pq.write_table(table.replace_schema_metadata({"perturbations": json.dumps(about)}), path)


def _rows(change: Callable[[list[Any]], list[Any]]) -> Callable[[Path], None]:
    """Other rows, with hashes that fit."""

    def rewrite(path: Path) -> None:
        files.write(path, files.kind_of(path), change(rows_of(path)), files.read_metadata(path))

    return rewrite


EDITS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a cell": (str(MANIFEST), _edit("sha256", "0" * 64)),
    "a caption": (str(TEXT_MANIFEST), _edit("text", "another text")),
    "the metadata": (str(MANIFEST), _edit_metadata),
    "no Parquet": ("manifests/tiny/mlvp/quarantine.parquet", lambda path: path.write_bytes(b"PAR1")),
    "cut short": (str(MANIFEST), lambda path: os.truncate(path, path.stat().st_size // 2)),
    "a row is missing": (str(MANIFEST), _rows(lambda rows: rows[1:])),
    "a clip is missing": (str(MANIFEST), _rows(lambda rows: [row for row in rows if row.item_id != rows[0].item_id])),
    "a row is there twice": (str(MANIFEST), _rows(lambda rows: [*rows, rows[0]])),
    "a row of no clip": (str(MANIFEST), _rows(lambda rows: [*rows, replace(rows[0], item_id="none")])),
    "a caption's row is missing": (str(TEXT_MANIFEST), _rows(lambda rows: rows[1:])),
    "a source is missing": ("manifests/tiny/sources.parquet", _rows(lambda rows: rows[1:])),
}


@each("name", EDITS)
@pytest.mark.usefixtures("corpus")
def test_an_edited_manifest_is_found_and_deleted(name: str) -> None:
    before = contents()
    place, edit = EDITS[name]
    edit(Path(place))
    assert [finding for finding in findings(Path(place)) if finding.startswith(place)]
    assert main(["verify", "--delete", place]) == 1
    assert {name for name in before if not Path(name).exists()} == {place}
    Path(place).write_bytes(before[place])


def test_a_run_that_stopped_at_edited_manifests_goes_on_after_they_were_deleted(corpus: Project) -> None:
    before = contents()
    for name in ("a cell", "a caption", "no Parquet", "a source is missing"):
        place, edit = EDITS[name]
        edit(Path(place))
    corpus.refusal(*TARGETS)
    assert main(["verify", "--delete"]) == 1
    corpus.snakemake(*TARGETS)
    assert contents() == before
    assert findings() == []


def test_a_file_of_no_place_in_a_run_stays(corpus: Project) -> None:
    """Also where it is named like a manifest, or where there is no run beside it."""
    own = Path("manifests/notes/mine/any.parquet")
    own.parent.mkdir(parents=True)
    own.write_bytes(b"PAR1")
    assert main(["verify", "--delete"]) == 1
    assert own.is_file()
    shutil.rmtree("work")
    _edit("sha256", "0" * 64)(MANIFEST)
    assert main(["verify", "--delete", str(MANIFEST)]) == 1
    assert MANIFEST.is_file()


def test_a_path_of_a_stranger_s_row_is_not_deleted(corpus: Project) -> None:
    rows = clips()
    victim = Path("../victim.mp4")
    victim.write_bytes(b"mine")
    for change in ({"path": "../victim.mp4"}, {"path": str(victim.resolve())}, {"perturbation": "../.."}):
        files.write(
            MANIFEST, VIDEOS, [replace(rows[0], **change, sha256="0" * 64), *rows[1:]], files.read_metadata(MANIFEST)
        )
        checked = verification.check_manifest(MANIFEST)
        assert checked.findings
        if checked.wrong:
            with pytest.raises(ManifestError):
                deletion.delete(checked)
        assert victim.is_file()


# --- the root --------------------------------------------------------------------------------------------------------


def test_the_root_is_the_hash_of_the_manifest(corpus: Project, capsys: pytest.CaptureFixture[str]) -> None:
    root = storage.sha256(MANIFEST)
    assert main(["verify", str(MANIFEST.parent), "--root", root.upper()]) == 0
    assert main(["verify", "--root", root]) == 0
    capsys.readouterr()
    assert main(["verify", str(MANIFEST.parent), "--root", "0" * 64]) == 1
    assert f"its SHA-256 is {root}" in capsys.readouterr().out
    assert main(["verify", "manifests/tiny/captions.parquet", "--root", root]) == 1


def test_no_manifest_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="no manifest in"):
        verification.manifests_in(tmp_path)
    assert main(["verify", str(tmp_path / "none.parquet")]) == 1


# --- making again ----------------------------------------------------------------------------------------------------


def recorded(path: Path) -> None:
    """Let the run say that it wrote a manifest."""
    record = manifest_paths.record_of(path)
    assert record is not None
    record.write_text(storage.sha256(path))


def rewrite(path: Path, old: Any, new: Any) -> None:
    """Put another row into a manifest or a part, with hashes that fit."""
    held = [new if row == old else row for row in rows_of(path)]
    files.write(path, files.kind_of(path), held, files.read_metadata(path))


def test_what_is_not_of_its_recipe_is_found_by_making_it_again(corpus: Project) -> None:
    """A part, its journal, its marker and the manifest agree on a file and a caption that another program wrote."""
    before = contents()
    rows, caption = clips(), rows_of(TEXT_MANIFEST)[0]
    row, other = rows[0], rows[2]
    assert row.path is not None
    assert other.path is not None
    shutil.copy(other.path, row.path)
    measured = {name: getattr(other, name) for name in ("bytes", "sha256", "frames_sha256")}
    (part,) = Path(f"work/tiny/mlvp/{row.perturbation}/{row.severity}").glob("s*.parquet")
    for path in (MANIFEST, part):
        rewrite(path, row, replace(row, **measured))
    marker = Path(row.path).with_name(f".{part.stem}.json")
    marker.write_text(marker.read_text().replace(f": {row.bytes}", f": {other.bytes}"))
    lines = [line or "" for line in storage.journal_lines(part.with_suffix(".jsonl"))]
    for name, value in measured.items():
        lines = [line.replace(json.dumps(getattr(row, name)), json.dumps(value)) for line in lines]
    storage.write_journal(part.with_suffix(".jsonl"), lines)
    texts = Path(f"work/tiny/msrvtt_p/captions/{caption.perturbation}/{caption.severity}")
    for path in (TEXT_MANIFEST, *texts.glob("*.parquet")):
        rewrite(path, caption, replace(caption, text="forged"))
    (text_marker,) = Path("work/tiny/msrvtt_p/captions").glob("s*.json")
    sizes = {name: (text_marker.parent / name).stat().st_size for name in json.loads(text_marker.read_text())}
    text_marker.write_text(json.dumps(sizes))
    for path in (MANIFEST, TEXT_MANIFEST):
        recorded(path)
    assert findings() == []
    assert [finding for finding in findings(MANIFEST, render=True) if "its frames are others" in finding]
    (finding,) = findings(TEXT_MANIFEST, render=True)
    assert repr(caption.text) in finding
    assert main(["verify", "--render", "--delete"]) == 1
    held = inodes()
    corpus.snakemake(*TARGETS)
    assert written_since(held) == {row.path}
    assert contents() == before


def test_a_manifest_says_how_many_items_were_listed(corpus: Project) -> None:
    about = files.read_metadata(MANIFEST)
    assert about[sets.SET]["listed"] == 3
    about[sets.SET]["listed"] = 4
    files.write(MANIFEST, VIDEOS, rows_of(), about)
    recorded(MANIFEST)
    (finding,) = findings(MANIFEST)
    assert "its rows give" in finding
