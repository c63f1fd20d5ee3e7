"""Clips in tars: the frames and hashes of files, the same bytes after damage, nothing read that a tar does not hold."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import needs
import numpy as np
import pytest
import small_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from looping import each
from workflow_project import IDS, Project, copy_of, new_project

from perturbations import Corpus, open_clip, read_manifest
from perturbations.base import storage, tars
from perturbations.base.errors import MediaError
from perturbations.base.readers import Reader
from perturbations.cli.main import main
from perturbations.corpus import row_checks, verification
from perturbations.corpus.plan import recipe, tiers
from perturbations.corpus.store import journal, stored_clip
from perturbations.manifest import files
from perturbations.manifest.rows import VIDEOS, CompleteSource, VideoRow
from perturbations.suites import suite_registry

pytestmark = pytest.mark.usefixtures("in_this_process")

CONFIG: dict[str, Any] = {
    "suites": {"mlvp": {"perturbations": ["gaussian_noise", "fog"], "severities": [1]}},
    "storage": {"tier": "frames", "num_frames": 2, "container": "tar"},
    "shard_size": 2,
}
FOLDER = Path("corpora/tiny/mlvp/fog/1")
MANIFEST = Path("manifests/tiny/mlvp/videos.parquet")
MEASURED = ["sha256", "frames_sha256", "bytes", "recipe_id", "psnr_db", "ssim", "storage", "audio"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A run of three clips in two shards. Not to be changed: use `corpus`."""
    project = new_project(tmp_path_factory.mktemp("finished"), **CONFIG)
    project.write_captions(IDS[:3])
    project.snakemake("mlvp_tiny")
    return project


@pytest.fixture
def corpus(finished: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of a finished run, in which commands work."""
    project = copy_of(finished, tmp_path / "run")
    monkeypatch.chdir(project.root)
    return project


def tar_of_two() -> Path:
    """The tar of the shard that has two clips."""
    return max(FOLDER.glob("*.tar"), key=lambda path: len(list(tars.members(path))))


def findings(**options: bool) -> list[str]:
    manifests = verification.manifests_in(Path("manifests"))
    checked = [verification.check_manifest(path, **options) for path in manifests]
    return [row_checks.line_of(finding) for each in checked for finding in each.findings]


def job(root: Path, sources: list[CompleteSource]) -> list[VideoRow]:
    """A shard's job, as its command runs it."""
    wanted = recipe.make(suite_registry.get("mlvp/fog"), 3, seed=0, storage=tiers.stored_video("high"))
    places = {"folder": root / "corpus", "part": root / "work/s1.parquet"}
    return clips.video_rows(wanted, sources, root=root, tar=True, **places)


# --- runs ------------------------------------------------------------------------------------------------------------


def test_another_container_holds_the_same_clips_and_renders_none_again(corpus: Project) -> None:
    before = corpus.results()
    packed = read_manifest(MANIFEST)
    stored = [path for path in Path("corpora").rglob("*") if path.is_file()]
    assert {path.suffix for path in stored} == {".tar", ".json"}
    assert len(stored) == 8
    frames = [open_clip(row) for row in packed.to_dict("records")]
    corpus.config["storage"]["container"] = "files"
    corpus.snakemake(str(MANIFEST))
    assert not list(Path("corpora").rglob("*.tar"))
    single = read_manifest(MANIFEST)
    assert packed[MEASURED].equals(single[MEASURED])
    for row, held in zip(single.to_dict("records"), frames, strict=True):
        assert np.array_equal(open_clip(row), held)
    assert findings() == []
    corpus.config["storage"]["container"] = "tar"
    corpus.snakemake(str(MANIFEST))
    assert corpus.results() == before
    assert findings() == []
    logs = [path.read_text() for path in Path("work/logs/tiny/mlvp").glob("*/1/*.log")]
    assert len(logs) == 4
    assert all("kept" in log for log in logs)


def test_larger_and_smaller_shards_hold_the_same_clips(corpus: Project) -> None:
    before = read_manifest(MANIFEST)
    for size in (3, 1):
        corpus.config["shard_size"] = size
        corpus.snakemake(str(MANIFEST))
        assert read_manifest(MANIFEST)[MEASURED].equals(before[MEASURED])
        logs = [path.read_text() for path in Path("work/logs/tiny/mlvp").glob("*/1/*.log")]
        assert all("0 of " not in log for log in logs), "clips are taken from the tars of other shards"
    assert findings() == []


@pytest.mark.usefixtures("corpus")
def test_a_member_says_what_its_row_says_and_the_marker_is_the_index() -> None:
    for row in read_manifest(MANIFEST).to_dict("records"):
        file, offset, _ = tars.at(row["path"])
        with tarfile.open(file) as tar:
            member = tar.getmember(Path(row["path"]).name)
            content = tar.extractfile(member)
            assert content is not None
            assert hashlib.sha256(content.read()).hexdigest() == row["sha256"]
        assert (member.offset_data, member.size) == (offset, row["bytes"])
        assert (member.mtime, member.uid, member.uname) == (0, 0, "")
        assert member.name.partition(".")[0] == row["item_id"]
    held = tar_of_two()
    written = held.with_name(f".{held.stem}.json").read_bytes()
    assert json.loads(written) == {f"{held.name}/{offset}/{name}": size for name, offset, size in tars.members(held)}
    assert [len(clip.frames()) for clip in Corpus(MANIFEST)] == [2] * 6


@pytest.mark.parametrize("with_tar", [True, False])
@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_job_that_was_killed_while_it_packed_goes_on_to_the_same_tar(
    left: int, with_tar: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With so many of its files left, and with the finished tar or half of it."""
    names = ["a.b", "影片"]
    sources = [clips.source_row(clips.make(tmp_path / f"{name}.mp4"), name) for name in names]
    assert len(job(tmp_path, sources)) == 2
    (tar,) = (tmp_path / "corpus").glob("*.tar")
    before = tar.read_bytes()
    held = {journal.member_name(name, ".mp4"): tar.parent / f"{storage.file_stem(name)}.mp4" for name in names}
    journal.unpack(tar, held)
    assert not tar.exists()
    for path in sorted(held.values())[left:]:
        path.unlink()
    (tar if with_tar else storage.temporary_path(tar)).write_bytes(before if with_tar else before[:700])
    make_clip, log = stored_clip.make_clip, tmp_path / "rendered"

    def noted(*arguments: Any, **options: Any) -> dict[str, Any]:
        with log.open("a") as file:  # in a worker
            file.write("x")
        return make_clip(*arguments, **options)

    monkeypatch.setattr(stored_clip, "make_clip", noted)
    log.touch()
    assert [row.status for row in job(tmp_path, sources)] == ["complete"] * 2
    assert sorted(tar.parent.iterdir()) == [tar.with_name(".s1.json"), tar]
    assert tar.read_bytes() == before
    assert len(log.read_text()) == (0 if with_tar else 2 - left)


# --- damage ----------------------------------------------------------------------------------------------------------


def _flip(place: int) -> Callable[[Path], object]:
    def damage(tar: Path) -> None:
        data = bytearray(tar.read_bytes())
        data[place] ^= 1
        tar.write_bytes(data)

    return damage


def _exchange(tar: Path) -> None:
    """Another tar of the same size, with another content of the last member."""
    *_, (_, offset, size) = tars.members(tar)
    data = bytearray(tar.read_bytes())
    data[offset : offset + size] = bytes(size)
    tar.write_bytes(data)


def _lose_a_member(tar: Path) -> None:
    *_, (_, offset, _) = tars.members(tar)
    tar.write_bytes(tar.read_bytes()[: offset - tars.BLOCK] + bytes(2 * tars.BLOCK))


DAMAGE: dict[str, tuple[Callable[[Path], object], int]] = {
    "deleted": (Path.unlink, 2),
    "empty": (lambda tar: tar.write_bytes(b""), 2),
    "cut in its first member": (lambda tar: os.truncate(tar, tars.BLOCK + 100), 2),
    "a bit of a member": (_flip(tars.BLOCK + 100), 1),
    "a bit of a header": (_flip(3), 1),
    "another tar of the same size": (_exchange, 1),
    "a member is missing": (_lose_a_member, 1),
}


@each("name", DAMAGE)
@pytest.mark.usefixtures("corpus")
def test_damage_is_found(name: str) -> None:
    damage, lost = DAMAGE[name]
    tar = tar_of_two()
    content = tar.read_bytes()
    damage(tar)
    assert len([finding for finding in findings() if MANIFEST.as_posix() in finding]) == lost
    tar.write_bytes(content)


def test_damaged_tars_are_deleted_and_made_again_to_the_byte(corpus: Project) -> None:
    before = corpus.results()
    first, second, third, _ = sorted(Path("corpora").rglob("*.tar"))
    first.unlink()
    _flip(tars.BLOCK + 100)(second)
    _lose_a_member(third)
    assert main(["verify", "--delete"]) == 1
    corpus.snakemake("mlvp_tiny")
    assert corpus.results() == before
    assert findings() == []


# --- readers and strangers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", ["pyav", "decord", "torchcodec"])
def test_programs_read_members_without_unpacking(reader: Reader, tmp_path: Path) -> None:
    if reader != "pyav":
        needs.decoder(reader)
    source = clips.source_row(clips.make(tmp_path / "a.mp4"), "a")
    (row,) = job(tmp_path, [source])
    (tmp_path / "alone").mkdir()
    alone = clips.made_row("mlvp/fog", tiers.stored_video("high"), source, tmp_path / "alone")
    row = replace(row, path=str(tmp_path / (row.path or "")))
    assert (row.sha256, row.frames_sha256) == (alone.sha256, alone.frames_sha256)
    assert np.array_equal(open_clip(row, reader=reader), open_clip(alone))
    assert np.array_equal(open_clip(row, [3, 1], reader), open_clip(alone, [3, 1]))


def pack_all(root: Path) -> None:
    """Put the files of a small corpus into tars, one per folder."""
    manifest = root / "manifests/data/mlvp/videos.parquet"
    rows = list(files.read_rows(manifest, VIDEOS))
    stored = [Path(row.path) for row in rows if row.path]
    for folder in {path.parent for path in stored}:
        names = {journal.member_name(path.stem, path.suffix): root / path for path in stored if path.parent == folder}
        journal.write_tar(names, root / folder / "s0.tar")
        tar = folder / "s0.tar"
        held = {name: tars.path_in(tar, offset, name) for name, offset, _ in tars.members(root / tar)}
        rows = [
            replace(row, path=held[journal.member_name(Path(row.path).stem, Path(row.path).suffix)])
            if row.path and Path(row.path).parent == folder
            else row
            for row in rows
        ]
    files.write(manifest, VIDEOS, rows, files.read_metadata(manifest))


@pytest.mark.parametrize("form", ["hub", "webdataset"])
def test_an_export_is_that_of_single_files(form: str, tmp_path: Path) -> None:
    root = small_corpus.make(tmp_path / "small")
    manifest = root / "manifests/data/mlvp/videos.parquet"
    exported: list[dict[str, bytes]] = []
    for name in ("before", "after"):
        output = tmp_path / name
        if exported:
            pack_all(root)
        assert main(["export", str(manifest), "--format", form, "-o", str(output)]) in (0, 1)
        paths = [path for path in (output / "data").rglob("*") if path.is_file()]
        exported.append({path.relative_to(output).as_posix(): path.read_bytes() for path in paths})
    assert exported[0] == exported[1]
    assert sum(name.endswith((".tar", ".mp4", ".parquet")) for name in exported[0]) >= 3


def test_webdataset_reads_a_corpus_s_own_tars(tmp_path: Path) -> None:
    library = needs.reader("webdataset")
    source = clips.make(tmp_path / "a.mp4")
    names = ["a.b", "a.c", "影片", "x" * 300]
    rows = job(tmp_path, [clips.source_row(source, name) for name in names])
    samples = list(library.WebDataset(str(next((tmp_path / "corpus").glob("*.tar"))), shardshuffle=False))
    by_key = {sample["__key__"]: hashlib.sha256(sample["mp4"]).hexdigest() for sample in samples}
    assert by_key == {Path(row.path or "").name.partition(".")[0]: row.sha256 for row in rows}
    assert len(by_key) == 4


@each("place", ["{tar}/0/{name}", "{tar}/511/{name}", "{tar}/513/{name}", "{tar}/512/other", "{tar}/99999999/{name}"])
@pytest.mark.usefixtures("corpus")
def test_a_place_that_the_tar_does_not_confirm_is_not_read(place: str) -> None:
    row = read_manifest(MANIFEST).iloc[0].to_dict()
    tar, _, name = tars.named(row["path"]) or ("", 0, "")
    row["path"] = place.format(tar=tar, name=name)
    with pytest.raises(MediaError):
        open_clip(row)
    assert not tars.is_file(row["path"])


LINKS = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE)


@pytest.mark.parametrize(("kind", "size"), [*((kind, 0) for kind in LINKS), (tarfile.REGTYPE, 1100)])
def test_a_strangers_tar_gives_only_the_bytes_of_plain_members_within_it(
    kind: bytes, size: int, tmp_path: Path
) -> None:
    member = tarfile.TarInfo("a.mp4")
    member.type, member.linkname, member.size = kind, "/etc/passwd", size
    (tmp_path / "s0.tar").write_bytes(member.tobuf(tarfile.USTAR_FORMAT) + bytes(1024))
    assert list(tars.members(tmp_path / "s0.tar")) == []
    with pytest.raises(FileNotFoundError):
        tars.at(f"{tmp_path}/s0.tar/512/a.mp4")


def test_a_users_folder_may_be_named_like_a_tar(tmp_path: Path) -> None:
    path = tmp_path / "clips.tar/12/a.mp4"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"clip")
    assert tars.at(path) == (path, 0, 4)


# --- the format ------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(st.text(min_size=1, max_size=300), unique=True, max_size=8))
def test_keys_are_distinct_short_and_end_at_the_first_dot(ids: list[str]) -> None:
    names = [journal.member_name(item_id, ".npy.zst") for item_id in ids]
    assert len(set(names)) == len(ids)
    for name in names:
        assert name.isascii()
        assert len(name) <= tarfile.LENGTH_NAME
        assert name.partition(".")[2] == "npy.zst"
        assert "/" not in name


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=6))
def test_any_program_reads_a_tar(sizes: list[int]) -> None:
    with storage.scratch_directory() as folder:
        held = {f"{number}.mp4": Path(folder, f"file{number}") for number in range(len(sizes))}
        for (name, path), size in zip(held.items(), sizes, strict=True):
            path.write_bytes(name[:1].encode() * size)
        tar = Path(folder, "s0.tar")
        journal.write_tar(held, tar)
        assert not any(path.exists() for path in held.values())
        places = [(tars.path_in(tar, offset, name), size) for name, offset, size in tars.members(tar)]
        assert [size for _, size in places] == sizes
        with tarfile.open(tar) as opened:
            assert opened.getnames() == sorted(held)
        for place, size in places:
            with tars.opened(place) as content:
                assert content.read() == Path(place).name[:1].encode() * size
