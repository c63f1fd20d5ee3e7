"""Exports under bad luck: other names and texts, full disks, kills, two at a time, folders that were moved."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import needs
import pyarrow.parquet as pq
import pytest
from export_readers import FORMATS, contents, loaded_tasks, undecoded

from perturbations.cli.main import main
from perturbations.exports import export_folder, export_names
from perturbations.manifest import files
from perturbations.manifest.rows import CAPTIONS, MULTIMODAL, SOURCES, TEXTS, VIDEOS, CaptionRow

IDS = ["a b", "../../etc/passwd", "видео/片/🎬", "x" * 300, "nul\0", "=1+1"]
TEXTS_OF_IDS = ["", "line\nbreak\r\n", "quo\"te, 's", "🎬 \u202e right to left", "\ttab", "x" * 5000]


@pytest.fixture(scope="module")
def odd(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of one clip under many ids, with captions that are as odd."""
    root = Path(shutil.copytree(small, tmp_path_factory.mktemp("made") / "tree"))
    dataset, suite = root / "manifests/data", root / "manifests/data/mlvp"
    videos = [row for row in files.read_rows(suite / "videos.parquet", VIDEOS) if row.item_id == "video1"]
    pairs = [row for row in files.read_rows(suite / "multimodal.parquet", MULTIMODAL) if row.caption_id == "c11"]
    (source,) = (row for row in files.read_rows(dataset / "sources.parquet", SOURCES) if row.item_id == "video1")
    texts = files.read_rows(dataset / "mm_robustness/captions.parquet", TEXTS)
    above, beside = {"root": "../.."}, {"root": "../../.."}
    files.write(dataset / "sources.parquet", SOURCES, [replace(source, item_id=name) for name in IDS], above)
    captions = [
        CaptionRow(dataset="data", caption_id=f"{name}#0", item_id=name, text=text)
        for name, text in zip(IDS, TEXTS_OF_IDS, strict=True)
    ]
    files.write(dataset / "captions.parquet", CAPTIONS, captions, above)
    stored = [row for row in videos if row.storage != "recipe"]
    rows = [replace(row, item_id=name) for row in stored for name in IDS]
    files.write(suite / "videos.parquet", VIDEOS, rows, beside)
    fields: list[dict[str, Any]] = [
        {"item_id": row.item_id, "caption_id": row.caption_id, "text": row.text} for row in captions
    ]
    of_both = [replace(row, **field) for row in pairs if row.storage != "recipe" for field in fields]
    files.write(suite / "multimodal.parquet", MULTIMODAL, of_both, beside)
    of_texts = [replace(texts[0], accepted=True, source_text=row["text"], **row) for row in fields]
    files.write(dataset / "mm_robustness/captions.parquet", TEXTS, of_texts, beside)
    return root


def manifest(root: Path, kind: str) -> Path:
    place = "mm_robustness/captions" if kind == "captions" else f"mlvp/{kind}"
    return root / f"manifests/data/{place}.parquet"


def command(root: Path, kind: str, form: str, output: Path) -> list[str]:
    return ["export", str(manifest(root, kind)), "--format", form, "--clean", "-o", str(output)]


# --- names and texts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["videos", "captions", "multimodal"])
@pytest.mark.parametrize("form", FORMATS)
def test_any_id_and_any_text_is_exported(odd: Path, tmp_path: Path, form: str, kind: str) -> None:
    output = tmp_path / "deep/out"
    assert main(command(odd, kind, form, output)) == 0
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]
    for path in output.rglob("*"):
        assert path.resolve().is_relative_to(output)
        assert path.name.isascii()
        assert len(path.name) < 100
    if form in ("hub", "croissant"):
        rows = [row for path in output.glob("data/**/*.parquet") for row in pq.read_table(path).to_pylist()]
        assert {row["item"] for row in rows} == set(IDS)
        texts = {row.get("text", row.get("caption")) for row in rows}
        assert texts == set(TEXTS_OF_IDS)


def test_readers_get_any_id_and_text_from_an_export_that_was_moved(
    odd: Path, tmp_path: Path, datasets: ModuleType, mteb: ModuleType
) -> None:
    for form in FORMATS:
        assert main(command(odd, "multimodal", form, tmp_path / "here" / form)) == 0
    there, known = tmp_path / "over there", set(zip(IDS, TEXTS_OF_IDS, strict=True))
    shutil.move(tmp_path / "here", there)
    rows = undecoded(datasets, datasets.load_dataset(str(there / "hub"), split="test"))
    assert {(row["item"], row["text"]) for row in rows} == known
    assert all(Path(row["video"]["path"]).is_file() for row in rows)
    loaded = datasets.load_dataset(str(there / "webdataset"), split="test")
    samples = [row["json"] for row in undecoded(datasets, loaded, "mp4")]
    assert {(row["item"], text["text"]) for row in samples for text in row["pairs"]} == known
    (task,) = loaded_tasks(there / "mteb")
    task.load_data()
    data = task.dataset["gaussian_noise_1-typos_3"]["test"]
    assert sorted(row["text"] for row in data["queries"]) == sorted(TEXTS_OF_IDS)
    assert sorted(data["corpus"]["id"]) == sorted(IDS)
    records = needs.reader("mlcroissant").Dataset(there / "croissant/croissant.json").records("pairs")
    assert len(list(records)) == 3 * len(IDS)
    text = "".join(path.read_text("utf-8") for path in there.rglob("*") if path.suffix in (".md", ".json", ".py"))
    assert str(tmp_path) not in text


@pytest.mark.parametrize("kind", ["file", "link to nothing", "file above"])
def test_where_no_folder_can_be_is_told(
    odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    output = tmp_path / "out"
    if kind == "link to nothing":
        output.symlink_to(tmp_path / "nothing")
    else:
        output.write_text("mine", "utf-8")
    output = output / "below" if kind == "file above" else output
    assert main(command(odd, "captions", "hub", output)) == 1
    message = capsys.readouterr().err
    assert str(output) in message
    assert "Traceback" not in message
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_refused_export_leaves_no_new_folder_and_keeps_an_empty_one(odd: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for output in (tmp_path / "mine", tmp_path / "new/deep"):
        assert main(["export", str(manifest(odd, "multimodal")), "--format", "composed", "-o", str(output)]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


# --- kills, full disks, moves -----------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from perturbations.cli.main import main
from perturbations.base import storage

left, own = int(sys.argv[1]), os.getpid()
replace = os.replace

def killed(*arguments):
    global left
    left -= os.getpid() == own
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*arguments)

os.replace = killed
main(sys.argv[2:])
"""


@pytest.mark.parametrize("form", ["hub", "mteb"])
def test_an_export_that_is_killed_leaves_no_cut_file(odd: Path, tmp_path: Path, form: str) -> None:
    """It is killed when the marker, and when a table was written, before either has its name."""
    words = command(odd, "multimodal", form, tmp_path / "out")
    assert main(command(odd, "multimodal", form, tmp_path / "whole")) == 0
    whole = contents(tmp_path / "whole")
    for renamed in (0, 2):
        done = subprocess.run([sys.executable, "-c", KILLED, str(renamed), *words], capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
        written = {name: digest for name, digest in contents(tmp_path / "out").items() if ".part-" not in name}
        assert "README.md" not in written
        assert all(whole.get(name, digest) == digest for name, digest in written.items())
        assert main(words) == 1
        shutil.rmtree(tmp_path / "out")
    assert main(words) == 0
    assert contents(tmp_path / "out") == whole


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 100 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        needs.skip(needs.ROOT)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_is_told_and_leaves_no_cut_file(
    odd: Path, tmp_path: Path, small_disk: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    words = command(odd, "videos", form, small_disk / "out")
    assert main(words) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert main(command(odd, "videos", form, tmp_path / "whole")) == 0
    whole = contents(tmp_path / "whole")
    assert all(whole.get(name, digest) == digest for name, digest in contents(small_disk / "out").items())


def test_more_pairs_than_a_repository_has_files_are_rows_of_few_files(
    odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are counted, and not rows; what does not fit is refused before anything is written."""
    needed = {"FILES_PER_REPOSITORY": 2 * len(IDS) + 2 + 5, "FILES_PER_FOLDER": len(IDS)}
    for name, count in needed.items():
        monkeypatch.setattr(export_names, name, count)
    assert main(command(odd, "multimodal", "hub", tmp_path / "out")) == 0
    for name, count in needed.items():
        with monkeypatch.context() as patch:
            patch.setattr(export_names, name, count - 1)
            assert main(command(odd, "multimodal", "hub", tmp_path / "more")) == 1
        assert "take --format webdataset" in capsys.readouterr().err
    assert not (tmp_path / "more").exists()
    assert json.loads((tmp_path / "out" / export_folder.MARKER).read_text("utf-8"))["corpus"] == "data/multimodal/mlvp"
