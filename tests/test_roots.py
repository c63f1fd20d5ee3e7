"""The root of a corpus: one digest of its lists, which coreutils compute as well."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from perturbations.base import storage, sums
from perturbations.base.confinement import LINKED_VARIABLE
from perturbations.manifest import roots
from perturbations.verify import record
from perturbations.verify.tree import Tree

CORPUS = (
    "d/sources.parquet",
    "d/main_object.png",
    "d/mlvp/videos.parquet",
    "d/mlvp/README.md",
    "d/whole/sources.parquet",
    "d/whole/mlvp/videos.parquet",
)
OTHERS = ("report.html", "d/msrvtt_p/captions.parquet", "d/evaluation/clip/results.parquet", "e/sources.parquet")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of two corpora, an evaluation and a page, written as runs write them."""
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    for name in (*CORPUS, *OTHERS, "index.html"):
        storage.write_text(Path("manifests", name), name)
    return tmp_path / "run"


def test_a_root_is_the_hash_of_the_list_of_a_corpus(tree: Path) -> None:
    manifest = Path("manifests/d/mlvp/videos.parquet")
    hashes = subprocess.run(["sha256sum", *sorted(CORPUS)], cwd="manifests", capture_output=True, check=True).stdout
    assert sums.text(roots.of_corpus(manifest)).encode() == hashes
    assert sums.root(roots.of_corpus(tree / manifest)) == hashlib.sha256(hashes).hexdigest()
    assert roots.roots(Path("manifests"))["d/mlvp"] == hashlib.sha256(hashes).hexdigest()
    assert roots.of_corpus(Path("manifests/d/whole/mlvp/videos.parquet")) == roots.of_corpus(manifest)
    assert roots.of_corpus(Path("videos.parquet")) == {}


def test_every_listed_file_is_part_of_the_root_of_all_and_the_index_is_not(tree: Path) -> None:
    before = roots.roots(Path("manifests"))
    assert set(before) == {"d/mlvp", "d/msrvtt_p", roots.ALL}
    assert set(roots.lines(Path("manifests"))) == {*CORPUS, *OTHERS}
    for name in (*CORPUS, *OTHERS):
        storage.write_text(Path("manifests", name), "other")
        after = roots.roots(Path("manifests"))
        assert after[roots.ALL] != before[roots.ALL], name
        assert (after["d/mlvp"] != before["d/mlvp"]) == (name in CORPUS), name
        before = after
    storage.write_text(Path("manifests/index.html"), "other")
    assert roots.roots(Path("manifests")) == before


def _unlisted(name: str) -> None:
    path = Path("manifests", name)
    path.write_text("edited")
    sums.remove(path)


def _line(change: Callable[[bytes], bytes], name: str = "d/") -> None:
    path = Path("manifests", name, sums.NAME)
    path.write_bytes(change(path.read_bytes()))


STRANGE: dict[str, tuple[Callable[[], object], str]] = {
    "an edited page": (lambda: Path("manifests/report.html").write_text("x"), "report.html: it was changed"),
    "an edited page without its line": (lambda: _unlisted("d/mlvp/README.md"), "mlvp/README.md: no list names"),
    "a deleted page": (lambda: Path("manifests/d/main_object.png").unlink(), "main_object.png: it was made, and is"),
    "a strange page": (lambda: Path("manifests/d/mlvp/more.html").write_text("x"), "more.html: no list names this"),
    "a strange page beside all": (lambda: Path("manifests/more.html").write_text("x"), "more.html: no list names"),
    "a strange list": (lambda: Path("manifests/d/mlvp", sums.NAME).write_text(""), f"mlvp/{sums.NAME}: no list names"),
    "documentation of no checkout": (lambda: Path("manifests/README.md").write_text("x"), "README.md: no list names"),
    "a deleted list of all": (lambda: Path("manifests", sums.NAME).unlink(), "report.html: no list names this file"),
    "a deleted list": (lambda: Path("manifests/d", sums.NAME).unlink(), "d/main_object.png: no list names this file"),
    "other ends of lines": (lambda: _line(lambda held: held.replace(b"\n", b"\r\n")), f"d/{sums.NAME}: line 1 is none"),
    "a line that leads out": (lambda: _line(lambda held: held + b"0" * 64 + b"  ../x\n"), f"d/{sums.NAME}: line 9 is"),
    "another order": (lambda: _line(lambda held: held[80:] + held[:80]), f"d/{sums.NAME}: line 1 is none that a run"),
    "a page that is a link": (
        lambda: (Path("manifests/report.html").rename("aside"), Path("manifests/report.html").symlink_to("../aside")),
        "report.html: it is a link",
    ),
    "a folder that is a link": (lambda: Path("manifests/d/more").symlink_to("mlvp"), "d/more: it is a link"),
    "a list that is a link": (
        lambda: (Path("manifests", sums.NAME).rename("aside"), Path("manifests", sums.NAME).symlink_to("../aside")),
        f"manifests/{sums.NAME}: it is a link",
    ),
    "a list that is a pipe": (
        lambda: (Path("manifests", sums.NAME).unlink(), os.mkfifo(Path("manifests", sums.NAME))),
        f"manifests/{sums.NAME}: it cannot be read: it is not a regular file",
    ),
    "an interrupted write": (
        lambda: Path("manifests/d/.main_object.part-0123456789ab.png").write_text("x"),
        "part-0123456789ab.png: what an interrupted write left",
    ),
}


@pytest.mark.parametrize("name", STRANGE)
def test_every_file_in_manifests_is_as_it_was_listed_or_a_finding(name: str, tree: Path) -> None:
    change, problem = STRANGE[name]
    assert findings(Path("manifests")) == []
    change()
    for folder in (Path("manifests"), tree / "manifests", tree):
        assert any(problem in text for text in findings(folder)), (folder, findings(folder))


def findings(folder: Path) -> list[str]:
    """What is wrong with the lists and files of a folder, of which no manifest is verified by itself."""
    return [str(finding) for finding in record.of_manifests(Tree([], [folder]))]


def test_a_page_that_was_edited_with_its_line_is_found_by_the_root_alone(tree: Path) -> None:
    before = roots.roots(Path("manifests"))
    storage.write_text(Path("manifests/d/mlvp/README.md"), "edited")
    looked_at = Tree([], [Path("manifests/d")])
    now = roots.roots(Path("manifests"))
    assert findings(Path("manifests")) == []
    for root in (now["d/mlvp"], now[roots.ALL], before["d/msrvtt_p"]):
        assert list(record.of_root(looked_at, root)) == []
    for name in ("d/mlvp", roots.ALL):
        (finding,) = record.of_root(looked_at, before[name])
        assert f"{now['d/mlvp']} of d/mlvp" in finding.problem
        assert f"{now[roots.ALL]} of all" in finding.problem


def test_a_user_s_disk_and_a_file_of_snakemake_s_are_no_strangers(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("manifests/d/mlvp").rename(tree.parent / "disk")
    Path("manifests/d/mlvp").symlink_to(tree.parent / "disk")
    Path("manifests/report.tables").mkdir()
    Path("manifests/report.tables/.snakemake_timestamp").touch()
    assert [text for text in findings(Path("manifests")) if "it is a link" in text]
    monkeypatch.setenv(LINKED_VARIABLE, str(tree.parent / "disk"))
    assert findings(Path("manifests")) == []
