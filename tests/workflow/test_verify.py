"""What `perturb verify` finds and deletes; one run then makes these clips and manifests again, to the byte."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from workflow_project import Project, copy_of, new_project, tiny_clip

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.cli.main import main
from perturbations.corpus import deletion, row_checks, run_status, verification
from perturbations.manifest import files, manifest_paths, sets
from perturbations.manifest.rows import VIDEOS, VideoRow

TARGETS = "mlvp_tiny", "text_mm_robustness_tiny"
CLIP, OTHER_CLIP = Path("corpora/tiny/mlvp/fog/1/a.mp4"), Path("corpora/tiny/mlvp/fog/3/a.mp4")
MANIFESTS, WORK = Path("manifests/tiny"), Path("work/tiny")
MANIFEST, TEXT_MANIFEST = MANIFESTS / "mlvp/videos.parquet", MANIFESTS / "mm_robustness/captions.parquet"
FOLDERS = {"video": WORK / "mlvp/fog/1", "source": WORK / "sources", "text": WORK / "mm_robustness/captions/keyboard/1"}
SOURCE_BYTES = 20_000


def padded(path: Path) -> None:
    """Give a video the size of every other one, by a box that decoders skip."""
    data = path.read_bytes()
    rest = SOURCE_BYTES - len(data)
    path.write_bytes(data + rest.to_bytes(4, "big") + b"free" + bytes(rest - 8))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    captions = {"perturbations": ["keyboard"], "severities": [1]}
    project = new_project(
        tmp_path_factory.mktemp("finished"),
        suites={
            "mlvp": {"perturbations": ["fog", "gaussian_noise"], "severities": [1, 3]},
            "mm_robustness": {"perturbations": ["brightness"], "severities": [1], "captions": captions},
        },
        storage={"tier": "video", "profile": "compatible"},
        shard_size=50,
    )
    project.write_captions(["a", "b", "c"])
    tiny_clip(project.root / "another.mp4", seed=9)
    for path in [project.root / "another.mp4", *(project.root / "videos").iterdir()]:
        padded(path)
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


def flipped(place: float) -> Callable[[Path], object]:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(place * (len(data) - 1))] ^= 4
        path.write_bytes(data)

    return flip


def exchanged(one: Path, other: Path) -> None:
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "the file is missing"),
    "empty": (lambda path: path.write_bytes(b""), "has 0 bytes"),
    "truncated": (lambda path: os.truncate(path, 100), "has 100 bytes"),
    "changed": (flipped(0.5), "has another content"),
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
    exchanged(first, second)
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


def test_a_source_is_the_user_s_and_stays(corpus: Project) -> None:
    """What is said of it goes, so that the next run looks at it again."""
    manifest = "manifests/tiny/sources.parquet"
    path = Path(rows_of(Path(manifest))[0].path)
    flipped(0.5)(path)
    before = contents()
    assert main(["verify", "--delete"]) == 1
    assert path.is_file()
    assert contents() == {name: data for name, data in before.items() if name != manifest}


# --- what disturbs ---------------------------------------------------------------------------------------------------

Disturbance = Callable[[Project], object]


def of(change: Callable[..., object], *paths: Path) -> Disturbance:
    return lambda corpus: change(*paths)


def in_work(change: Callable[[Path], object], kind: str, pattern: str = "s*.parquet") -> Disturbance:
    """A change of the one file of a kind of part."""

    def changed(corpus: Project) -> None:
        (path,) = FOLDERS[kind].glob(pattern)
        change(path)

    return changed


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def removed(*paths: Path) -> None:
    for path in paths:
        path.unlink()


def linked(path: Path, to: Path) -> None:
    path.unlink()
    path.symlink_to(to.resolve())


def other_cell(path: Path) -> None:
    """A cell that another program has written."""
    table = pq.read_table(path)
    place = table.column_names.index("seed")
    pq.write_table(table.set_column(place, "seed", [[7, *table["seed"].to_pylist()[1:]]]), path)


def other_metadata(path: Path) -> None:
    table, about = pq.read_table(path), files.read_metadata(path) | {"dataset": "other"}
    pq.write_table(table.replace_schema_metadata({"perturbations": json.dumps(about)}), path)


def other_rows(change: Callable[[list[Any]], list[Any]]) -> Callable[[Path], object]:
    """Other rows, with hashes that fit."""
    return lambda path: files.write(path, files.kind_of(path), change(rows_of(path)), files.read_metadata(path))


def rows_with(**columns: object) -> Callable[[Path], object]:
    """The manifest of another dataset, suite or seed, with hashes that fit."""

    def rewrite(path: Path) -> None:
        kind, about = files.kind_of(path), files.read_metadata(path)
        rows = [replace(row, **columns) for row in files.read_rows(path, kind)]
        files.write(path, kind, rows, {**about, **{name: columns[name] for name in columns if name in about}})

    return rewrite


def other_digit(path: Path) -> None:
    """Another digit in what a journal says was measured."""
    text = path.read_bytes()
    start = text.index(b'"psnr_db": ') + len(b'"psnr_db": ')
    path.write_bytes(text[:start] + bytes([text[start] ^ 1]) + text[start + 1 :])


def appended(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes() + data)


def foreign_and_damaged(corpus: Project) -> None:
    rows_with(seed=8)(MANIFEST)
    CLIP.write_bytes(b"x")


def replaced_source(time_too: bool) -> Disturbance:
    def replaced(corpus: Project) -> None:
        path = Path("videos/a.mp4")
        before = path.stat()
        shutil.copyfile("another.mp4", path)
        if not time_too:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    return replaced


def configured(**config: Any) -> Disturbance:
    """Another configuration, after a run."""

    def change(corpus: Project) -> None:
        for name, value in config.items():
            corpus.config[name] = {**corpus.config[name], **value} if isinstance(value, dict) else value
        corpus.snakemake(*TARGETS)

    return change


def without_a_clip(corpus: Project) -> None:
    corpus.write_captions(["a", "b"])
    corpus.snakemake(*TARGETS)


def without_a_suite(corpus: Project) -> None:
    """Its manifests were deleted by hand, its clips were not."""
    shutil.rmtree(MANIFESTS / "mlvp")
    del corpus.config["suites"]["mlvp"]
    corpus.write_config()


def in_larger_tars(corpus: Project) -> None:
    configured(storage={"container": "tar"}, shard_size=1)(corpus)
    configured(shard_size=50)(corpus)
    logs = [path.read_text() for path in Path("work/logs/tiny/mlvp").glob("*/*/*.log")]
    assert sum("3 of 3 were finished before" in log for log in logs) == 4, "clips are taken from the other tars"


LEFTOVER = storage.temporary_path(CLIP)
ONE_SEVERITY = {"mlvp": {"perturbations": ["fog", "gaussian_noise"], "severities": [1]}}
ONE_PERTURBATION = {"mlvp": {"perturbations": ["fog"], "severities": [1, 3]}}
MADE = [
    [MANIFEST, MANIFESTS / "sources.parquet", MANIFESTS / "captions.parquet", TEXT_MANIFEST],
    [
        MANIFESTS / name
        for name in ("mlvp/quarantine.parquet", "qrels.parquet", "mm_robustness/caption_statistics.parquet")
    ],
    [MANIFESTS / name for name in ("captions_quarantine.parquet", "mlvp/mixed_types.parquet")],
    [MANIFESTS / "mlvp/mixed_severity.parquet"],
]
"""Of each job that makes several of them, one at a time."""

DISTURBANCES: dict[str, Disturbance] = {
    "a clip is missing": of(Path.unlink, CLIP),
    "a clip is empty": of(lambda path: path.write_bytes(b""), CLIP),
    "a clip is cut": of(cut, CLIP),
    "a bit of a clip": of(flipped(0.5), CLIP),
    "bytes after a clip": of(appended(b"x"), CLIP),
    "two clips are exchanged": of(exchanged, CLIP, OTHER_CLIP),
    "a link to another clip": of(linked, CLIP, OTHER_CLIP),
    "an interrupted write": of(lambda: LEFTOVER.write_bytes(b"x")),
    "a folder of clips": of(shutil.rmtree, CLIP.parent),
    "corpora": of(shutil.rmtree, Path("corpora")),
    **{f"missing: {', '.join(path.stem for path in paths)}": of(removed, *paths) for paths in MADE},
    "a folder of manifests": of(shutil.rmtree, MANIFEST.parent),
    **{f"a bit of a manifest at {place}": of(flipped(place), MANIFEST) for place in (0, 0.3, 0.7, 0.85, 0.98, 1)},
    "a bit of captions": of(flipped(0.9), TEXT_MANIFEST),
    "a manifest is cut": of(cut, MANIFEST),
    "a manifest is empty": of(lambda path: path.write_bytes(b""), MANIFEST),
    "a cell": of(other_cell, MANIFEST),
    "another seed": of(rows_with(seed=8), MANIFEST),
    "captions of another seed": of(rows_with(seed=8), TEXT_MANIFEST),
    "another dataset": of(rows_with(dataset="other"), MANIFEST),
    "another suite": of(rows_with(suite="mm_robustness"), MANIFEST),
    "other hashes of clips": of(rows_with(sha256="0" * 64), MANIFEST),
    "the metadata": of(other_metadata, MANIFEST),
    "a row is missing": of(other_rows(lambda rows: rows[1:]), MANIFEST),
    "the rows of a clip": of(
        other_rows(lambda rows: [row for row in rows if row.item_id != rows[0].item_id]), MANIFEST
    ),
    "a row is there twice": of(other_rows(lambda rows: [*rows, rows[0]]), MANIFEST),
    "a row of no clip": of(other_rows(lambda rows: [*rows, replace(rows[0], item_id="none")]), MANIFEST),
    "a caption's row is missing": of(other_rows(lambda rows: rows[1:]), TEXT_MANIFEST),
    "a source is missing": of(other_rows(lambda rows: rows[1:]), MANIFESTS / "sources.parquet"),
    "no manifest of failures": of(lambda path: path.write_bytes(b"PAR1"), MANIFESTS / "mlvp/quarantine.parquet"),
    "another kind": of(shutil.copy, MANIFESTS / "qrels.parquet", MANIFEST),
    "a foreign manifest and a damaged clip": foreign_and_damaged,
    "a bit of a part": in_work(flipped(0.9), "video"),
    "a part of sources": in_work(flipped(0.5), "source"),
    "a part of captions": in_work(flipped(0.5), "text"),
    "a part of captions is missing": in_work(Path.unlink, "text"),
    "a digit of a journal": in_work(other_digit, "video", "s*.jsonl"),
    "a journal that is no text": in_work(appended(b"\xff\xfe torn"), "video", "s*.jsonl"),
    "a marker": lambda corpus: next(CLIP.parent.glob(".s*.json")).write_text("{"),
    "a marker of captions": lambda corpus: next((WORK / "mm_robustness/captions").glob("s*.json")).write_text("{"),
    "a source of the same size": replaced_source(time_too=True),
    "a source of the same size and time": replaced_source(time_too=False),
    "a clip is taken out": without_a_clip,
    "a severity is taken out": configured(suites=ONE_SEVERITY),
    "a perturbation is taken out": configured(suites=ONE_PERTURBATION),
    "a suite is taken out": without_a_suite,
    "frames": configured(storage={"tier": "frames"}),
    "recipes": configured(storage={"tier": "recipe"}),
    "tars of other shards": in_larger_tars,
}
OTHERS = ("a source of", "a clip is taken", "a severity", "a perturbation", "a suite", "frames", "recipes", "tars")
"""What these leave is not what was there before."""


def left() -> str:
    """The hash of all that a run finds."""
    tops = (Path(top) for top in ("config.yaml", "captions.json", "videos", "corpora", "manifests", "work"))
    paths = [path for top in tops for path in [top, *top.rglob("*")] if path.is_file() and "logs" not in path.parts]
    return storage.sha256_of("".join(f"{path} {storage.sha256(path)}\n" for path in sorted(paths)).encode())


@pytest.fixture(scope="module")
def mended() -> set[str]:
    """What runs began with that ended well: what `--delete` makes equal needs one run."""
    return set()


@pytest.mark.parametrize("name", DISTURBANCES)
def test_what_disturbs_is_found_and_deleted_and_made_again_in_one_run(
    name: str, corpus: Project, mended: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents()
    DISTURBANCES[name](corpus)
    assert main(["verify"]) == 1
    assert main(["verify", "--delete"]) == 1
    assert not any(path.is_symlink() for path in Path("corpora").rglob("*"))
    if (start := left()) in mended:
        return
    targets = TARGETS if "mlvp" in corpus.config["suites"] else TARGETS[1:]
    corpus.snakemake(*targets)
    capsys.readouterr()
    assert main(["verify"]) == 0, capsys.readouterr().out
    assert name.startswith(OTHERS) or contents() == before
    mended.add(start)


SOUND: dict[str, Disturbance] = {
    "nothing": lambda corpus: None,
    "all sources are touched": lambda corpus: [os.utime(path) for path in Path("videos").iterdir()],
    "the whole is copied": lambda corpus: [os.utime(path) for path in Path().rglob("*")],
    "smaller shards": configured(shard_size=1),
    "a part is missing": in_work(Path.unlink, "source"),
    "a journal is missing": in_work(Path.unlink, "video", "s*.jsonl"),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_is_neither_found_nor_deleted_nor_made_again(name: str, corpus: Project) -> None:
    SOUND[name](corpus)
    before, clips = contents(), {path: path.stat().st_ino for path in Path("corpora").rglob("*.mp4")}
    assert main(["verify", "--delete"]) == 0
    assert contents() == before
    corpus.snakemake(*TARGETS)
    assert {path: path.stat().st_ino for path in Path("corpora").rglob("*.mp4")} == clips
    assert main(["verify"]) == 0


def test_a_stranger_s_file_is_named_with_its_size_and_stays(
    corpus: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    strangers = [CLIP.with_name("mine.mp4"), CLIP.with_name("notes.txt"), Path("corpora/tiny/mlvp/list.csv")]
    for path in strangers:
        path.write_bytes(b"mine")
    assert main(["verify", "--delete"]) == 1
    printed = capsys.readouterr().out
    assert all(f"{path}: no row names this file of 4 bytes" in printed for path in strangers)
    assert all(path.read_bytes() == b"mine" for path in strangers)


def test_status_counts_the_clips_that_lie_there(corpus: Project) -> None:
    def done() -> int:
        (stage,) = (each for each in run_status.collect(Path())["stages"] if each["stage"] == "videos")
        return int(stage["done"])

    assert done() == 12
    CLIP.unlink()
    assert done() == 11
    shutil.rmtree("corpora")
    assert done() == 0


# --- edited manifests -----------------------------------------------------------------------------------------------


def test_a_run_that_stopped_at_edited_manifests_goes_on_after_they_were_deleted(corpus: Project) -> None:
    before = contents()
    for name in ("a cell", "a bit of captions", "another kind", "a source is missing"):
        DISTURBANCES[name](corpus)
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
    other_cell(MANIFEST)
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
    texts = Path(f"work/tiny/mm_robustness/captions/{caption.perturbation}/{caption.severity}")
    for path in (TEXT_MANIFEST, *texts.glob("*.parquet")):
        rewrite(path, caption, replace(caption, text="forged"))
    (text_marker,) = Path("work/tiny/mm_robustness/captions").glob("s*.json")
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


OF_ITSELF = {
    "a row is there twice": "the row is there twice",
    "a row is missing": "the row is missing",
    "a row of no clip": "it is not listed as complete",
    "a caption's row is missing": "the row is missing",
    "another dataset": "it has rows of the dataset 'other'",
}


@pytest.mark.parametrize("name", OF_ITSELF)
def test_an_edited_manifest_is_found_by_itself(name: str, corpus: Project) -> None:
    """Also where the run's record of its hash says what it is now."""
    DISTURBANCES[name](corpus)
    for path in (MANIFEST, TEXT_MANIFEST):
        recorded(path)
    assert [line for line in findings() if OF_ITSELF[name] in line]


def test_a_manifest_says_how_many_items_were_listed(corpus: Project) -> None:
    about = files.read_metadata(MANIFEST)
    assert about[sets.SET]["listed"] == 3
    about[sets.SET]["listed"] = 4
    files.write(MANIFEST, VIDEOS, rows_of(), about)
    recorded(MANIFEST)
    (finding,) = findings(MANIFEST)
    assert "its rows give" in finding
