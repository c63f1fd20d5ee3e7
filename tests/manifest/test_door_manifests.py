"""The third door: manifests of others. Nothing in a row becomes code, a place outside, or a mark of a page."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import clips
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from looping import each
from manifest_rows import captions, edited, filled, names_of, part, stranger_s

import perturbations
from perturbations import read_manifest
from perturbations.base import shown
from perturbations.base.errors import ManifestError, MediaError, PerturbationError
from perturbations.cli.main import main
from perturbations.corpus import row_checks, verification
from perturbations.corpus.plan import caption_recipes, recipe, tiers
from perturbations.corpus.render import clean_clips
from perturbations.corpus.store import clip_rows, stored_clip
from perturbations.evaluation.result_rows import RESULTS
from perturbations.manifest import files, row_tables, sets
from perturbations.manifest.rows import (
    CAPTIONS,
    COMPLETE,
    MISSING,
    MIXES,
    QUARANTINE,
    SOURCES,
    TEXTS,
    VIDEOS,
    CompleteSource,
    MixRow,
    QuarantineRow,
    RowKind,
    SourceRow,
    VideoRow,
)
from perturbations.models.guides.guide_registry import Known
from perturbations.suites import suite_registry

# --- files that are no manifest, damaged or edited --------------------------------------------------------------------


VERSION = files.SCHEMA_VERSION
ONE = pa.table({"a": [1]})
CAPTIONS_TODAY = {"kind": "captions", "schema_version": VERSION}
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda path: None, "no such manifest: .*a.parquet"),
    "folder": (Path.mkdir, "a.parquet is a folder, not a manifest"),
    "pipe": (os.mkfifo, "a.parquet is not a regular file"),
    "empty": (Path.touch, "a.parquet cannot be read as Parquet"),
    "text": (lambda path: path.write_bytes(b"item_id,path\n"), "a.parquet cannot be read as Parquet"),
    "cut": (lambda path: path.write_bytes(part(path, "a").read_bytes()[:-9]), "a.parquet was changed"),
    "plain": (lambda path: pq.write_table(pa.table({"a": [1]}), path), "a.parquet is Parquet, but no manifest"),
    "version": (
        lambda path: stranger_s(path, ONE, {**CAPTIONS_TODAY, "schema_version": VERSION + 1}),
        f"schema version {VERSION + 1}, this package reads {VERSION}",
    ),
    "garbled": (lambda path: stranger_s(path, ONE, b"{"), "does not describe itself"),
    "list": (lambda path: stranger_s(path, ONE, []), "does not describe itself"),
    "kind": (
        lambda path: stranger_s(path, ONE, {**CAPTIONS_TODAY, "kind": "wishes"}),
        "kind 'wishes'; known: .*captions|a manifest of wishes, not of captions",
    ),
    "columns": (
        lambda path: stranger_s(path, ONE, CAPTIONS_TODAY),
        "does not have the columns of captions manifests: it does not have 'dataset'",
    ),
    "types": (
        lambda path: stranger_s(path, pa.table({name: [1] for name in names_of(CAPTIONS)}), CAPTIONS_TODAY),
        "does not have the columns of captions manifests",
    ),
}


@each("name", REFUSED)
def test_what_is_no_manifest_is_named(name: str, tmp_path: Path) -> None:
    maker, reason = REFUSED[name]
    path = tmp_path / "a.parquet"
    maker(path)
    for read in (lambda path: files.read_rows(path, CAPTIONS), read_manifest):
        with pytest.raises(ManifestError, match=reason):
            read(path)


def test_each_flipped_bit_is_noticed_before_arrow_sees_it(tmp_path: Path) -> None:
    """Arrow ends the process for some of them."""
    path = tmp_path / "a.parquet"
    files.write(path, CAPTIONS, captions("a", "b"))
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ManifestError, match=r"a\.parquet (was changed|is Parquet, but|cannot be read as Parquet)"):
            files.read_metadata(path)


@pytest.mark.parametrize(
    "cells",
    [{"item_id": ["a", "c"]}, {"error": [None, None]}, {"severity": [1, 0]}],
    ids=str,
)
def test_a_changed_cell_and_a_row_taken_out_are_noticed(cells: dict[str, Sequence[Any]], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    before = {"item_id": ["a", "b"], "error": [None, ""], "severity": [1, None], "status": ["missing", "quarantined"]}
    lines = zip(*before.values(), strict=True)
    rows = [filled(QuarantineRow, **dict(zip(before, values, strict=True))) for values in lines]
    files.write(path, QUARANTINE, rows)
    whole = pq.read_table(path)
    edited(path, **cells)
    with pytest.raises(ManifestError, match=r"a\.parquet was changed after it was written"):
        files.read_rows(path, QUARANTINE)
    pq.write_table(whole.take([1]), path)
    with pytest.raises(ManifestError, match=r"a\.parquet was changed after it was written"):
        files.read_rows(path, QUARANTINE)


EMPTY: dict[str, tuple[RowKind[Any], Any, str]] = {
    "text": (CAPTIONS, replace(captions("a")[0], text=None), "a row whose column 'text' is empty"),
    "status": (QUARANTINE, filled(QuarantineRow, status=None), "a row whose column 'status' is empty"),
    "complete": (SOURCES, filled(SourceRow, status=COMPLETE), "a complete row whose column 'path' is empty"),
    "word": (QUARANTINE, filled(QuarantineRow, status="lost"), "'status' holds 'lost'; known: complete, quarantined"),
    "stage": (SOURCES, filled(SourceRow, status=MISSING, stage="lunch"), "'stage' holds 'lunch'; known: annotation"),
    "mix": (MIXES, filled(MixRow, mix="cocktail"), "'mix' holds 'cocktail'; known: mixed_severity, mixed_types"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_cell_that_no_type_allows_is_named(name: str, tmp_path: Path) -> None:
    kind, row, reason = EMPTY[name]
    files.write(tmp_path / "a.parquet", kind, [row])
    with pytest.raises(ManifestError, match=reason):
        files.read_rows(tmp_path / "a.parquet", kind)


# --- rows -----------------------------------------------------------------------------------------------------------


class Corpus:
    """A dataset of one clip under one perturbation, with its manifests."""

    def __init__(self, root: Path, key: str = "mlvp/gaussian_noise", tier: tiers.Storage | None = None) -> None:
        self.root = root
        (root / "videos").mkdir(parents=True)
        path = clips.make(root / "videos/it.mp4")
        source = replace(clips.source_row(path), path="videos/it.mp4")
        self.recipe = recipe.make(suite_registry.get(key), 3, seed=0, storage=tier or tiers.stored_video("high"))
        self.folder = root / "corpora/data/mlvp" / self.recipe.perturbation / "3"
        target = stored_clip.target_of(self.recipe, self.folder, "it")
        row = clip_rows.expected_video(
            self.recipe, source, target.relative_to(root).as_posix() if target else None, Known()
        )
        clip = clean_clips.source_with_facts(self.recipe, replace(source, path=str(path)))
        self.row = clip_rows.complete(row, stored_clip.make_clip(self.recipe, clip, target or root))
        self.file = target
        self.path = root / "manifests/data/mlvp/videos.parquet"
        self._write(source)

    def _write(self, source: CompleteSource) -> None:
        about = {"dataset": "data", "suite": "mlvp", "tools": {}, sets.SET: sets.of_sources([source]).columns()}
        files.write(self.root / "manifests/data/sources.parquet", SOURCES, [source], {**about, "root": "../.."})
        self.change()

    def change(self, root: str = "../../..", **columns: Any) -> VideoRow:
        """Write the manifest with other cells, hashes and all."""
        row = replace(self.row, **columns)
        about = {"dataset": "data", "suite": "mlvp", "root": root}
        files.write(self.path, VIDEOS, [row], about)
        return row

    def copied(self, root: Path) -> Corpus:
        """The same corpus in another folder."""
        other = copy(self)
        other.root = Path(shutil.copytree(self.root, root))
        for name in ("folder", "file", "path"):
            place = getattr(self, name)
            setattr(other, name, place and root / place.relative_to(self.root))
        return other


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Not to be changed: use `corpus`."""
    return Corpus(tmp_path_factory.mktemp("made") / "corpus")


@pytest.fixture(scope="module")
def styled(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Of a guided perturbation. Not to be changed."""
    return Corpus(tmp_path_factory.mktemp("styled") / "corpus", "mlvp/style_transfer", tiers.UNSTORED)


@pytest.fixture
def corpus(shared: Corpus, tmp_path: Path) -> Corpus:
    return shared.copied(tmp_path / "corpus")


def refusals(corpus: Corpus) -> dict[str, str]:
    """What each way to use a manifest says: reading and opening, and verifying."""
    messages = {}
    for name, attempt in (
        ("open", lambda: perturbations.open_clip(perturbations.read_manifest(corpus.path).iloc[0])),
        ("verify", lambda: run_verify(corpus)),
    ):
        try:
            attempt()
        except PerturbationError as error:
            messages[name] = str(error)
    return messages


def run_verify(corpus: Corpus) -> None:
    """Raise what verifying finds."""
    if findings := verification.check_manifest(corpus.path, render=True, stall_limit_s=60).findings:
        raise ManifestError("; ".join(map(row_checks.line_of, findings)))


def altered(corpus: Corpus, change: Callable[[dict[str, Any]], None]) -> str:
    """The recipe's JSON with something else in it."""
    described = json.loads(corpus.recipe.text)
    change(described)
    return json.dumps(described, sort_keys=True, separators=(",", ":"))


RECIPES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a kernel": lambda fields: fields.update(kernel="os:system", params={"command": "touch pwned"}),
    "a module's name as suite": lambda fields: fields.update(suite="os", perturbation="system"),
    "another perturbation": lambda fields: fields.update(perturbation="../../os"),
    "a caption's perturbation": lambda fields: fields.update(suite="msrvtt_p", perturbation="typos", params={}),
    "a parameter more": lambda fields: fields["params"].update(command="id"),
    "a parameter less": lambda fields: fields.update(params={}),
    "a negative parameter": lambda fields: fields["params"].update(sigma=-1.0),
    "a huge parameter": lambda fields: fields["params"].update(sigma=1e300),
    "a parameter of text": lambda fields: fields["params"].update(sigma="__import__('os')"),
    "a true parameter": lambda fields: fields["params"].update(sigma=True),
    "severity 99": lambda fields: fields.update(severity=99),
    "another draw": lambda fields: fields.update(draw="frame"),
    "another version": lambda fields: fields.update(version=99),
    "a variant of nobody": lambda fields: fields.update(variant="mine"),
    "a huge seed": lambda fields: fields.update(seed=2**70),
    "a guide": lambda fields: fields.update(guide={"kind": "style", "version": 1, "backend": "offline", "files": {}}),
    "encoder options": lambda fields: fields["storage"]["options"].update({"dump": "/etc/passwd"}),
    "an encoder": lambda fields: fields["storage"].update(codec="rawvideo"),
    "no object": lambda fields: fields.clear(),
}
KERNEL = "a recipe with a kernel of a stranger's"


@each("name", RECIPES)
def test_a_recipe_is_only_what_a_declaration_allows(name: str, shared: Corpus) -> None:
    with pytest.raises(ManifestError):
        recipe.parse(altered(shared, RECIPES[name]))


def test_a_small_file_of_many_rows_is_not_decoded(corpus: Corpus) -> None:
    table = row_tables.table_of(VIDEOS, [corpus.row]).take(pa.array([0] * 200_000))
    about = {"kind": "videos", "schema_version": files.SCHEMA_VERSION, "root": "../../.."}
    stranger_s(corpus.path, table, about)
    assert corpus.path.stat().st_size < 100_000
    before = pa.total_allocated_bytes()
    for read in (files.read_rows, lambda path, _: perturbations.read_manifest(path)):
        with pytest.raises(ManifestError, match="no run writes such a file"):
            read(corpus.path, VIDEOS)
    assert pa.total_allocated_bytes() - before < 10_000_000


PATHS = ["/etc/passwd", "../../outside.mp4", "corpora/../../outside.mp4", "corpora/../..", "..", "a\0b", "/"]


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leaves_the_corpus(path: str, corpus: Corpus, tmp_path: Path) -> None:
    outside = tmp_path / "outside.mp4"
    outside.write_bytes(b"mine")
    corpus.change(path=path)
    messages = refusals(corpus)
    assert "leaves the corpus" in messages["open"]
    assert set(messages) == {"open", "verify"}
    assert outside.read_bytes() == b"mine"


def test_nothing_is_deleted_behind_a_link_of_the_corpus(corpus: Corpus, tmp_path: Path) -> None:
    assert corpus.file is not None
    outside = tmp_path / "outside"
    corpus.file.parent.rename(outside)
    corpus.file.parent.symlink_to(outside)
    (outside / corpus.file.name).write_bytes(b"mine")
    assert main(["verify", str(corpus.path), "--delete"]) == 1
    assert (outside / corpus.file.name).read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["../../elsewhere", "/etc", "a/b", "a\\b", "."])
def test_a_donors_corpus_is_a_name(name: str, tmp_path: Path) -> None:
    guided = recipe.make(
        suite_registry.get("mlvp/event_insertion"), 1, variant="paper", seed=0, storage=tiers.UNSTORED, donors="data"
    )
    assert recipe.parse(guided.text) == guided
    described = json.loads(guided.text)
    described["guide"]["corpus"] = name
    with pytest.raises(ManifestError, match="corpus"):
        recipe.parse(json.dumps(described, sort_keys=True, separators=(",", ":")))


@pytest.mark.parametrize("root", ["/", "..", "../../../..", "../../../../tmp", "../other", "corpora", "~"])
def test_a_manifest_does_not_choose_its_root(root: str, corpus: Corpus) -> None:
    corpus.change(root=root)
    with pytest.raises(ManifestError, match="root"):
        perturbations.read_manifest(corpus.path)


def test_sources_are_regular_files_of_the_hash_that_the_row_says(corpus: Corpus, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, word in (
        ("/dev/zero", "not a regular file"),
        (str(tmp_path / "pipe"), "not a regular file"),
        ("/etc/passwd", "its content changed"),
        ("/proc/self/environ", "its content changed"),
        ("nothing.mp4", "no such file"),
    ):
        corpus.change(source_path=path, storage="recipe", path=None)
        row = perturbations.read_manifest(corpus.path).iloc[0]
        with pytest.raises((MediaError, ManifestError), match=word):
            perturbations.open_clip(row.to_dict() | {"recipe": _unstored(corpus)})


def _unstored(corpus: Corpus) -> str:
    return replace(corpus.recipe, storage=tiers.UNSTORED).text


@pytest.mark.parametrize(
    "columns",
    [{"width": 10**6, "height": 10**6}, {"source_frame_count": 10**9}, {"width": 32}, {"width": -1}],
    ids=["huge picture", "huge length", "another size", "negative"],
)
def test_a_row_cannot_ask_for_more_than_its_source_has(columns: dict[str, int], corpus: Corpus) -> None:
    row = replace(corpus.row, storage="recipe", path=None, recipe=_unstored(corpus), **columns)
    source = corpus.root / corpus.row.source_path
    with pytest.raises(MediaError, match="the row says|limits.frames allows"):
        perturbations.open_clip(replace(row, source_path=str(source)))


GUIDES = ["{}", "[]", "null", '{"style":"x","files":{"image":"/etc/passwd"}}', "{" * 1000, '{"style":["a"],"files":{}}']
CUTS = [
    '{"first":-1,"num_frames":5,"video_id":"it"}',
    '{"first":0,"num_frames":99999999999,"video_id":"it"}',
    "[]",
    "{",
]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        *(("guide", text) for text in GUIDES),
        *(("cut", text) for text in CUTS),
        *(("recipe", text) for text in ("[" * 100_000, KERNEL)),
    ],
)
def test_facts_of_a_guide_a_place_in_a_video_and_a_recipe_are_checked(
    column: str, text: str, corpus: Corpus, styled: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = styled.copied(tmp_path / "styled") if column == "guide" else corpus
    changed = {} if column == "guide" else {"recipe": _unstored(corpus), "storage": "recipe", "path": None}
    tree.change(**{**changed, column: altered(corpus, RECIPES["a kernel"]) if text == KERNEL else text})
    monkeypatch.chdir(tmp_path)
    assert set(refusals(tree)) == {"open", "verify"}
    assert not (tmp_path / "pwned").exists()


# --- texts that are shown --------------------------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script></td></table>",
    "[click](http://evil.example)",
    "![x](http://evil.example/x.png)",
    "a | b | c",
    "line\nbreak\n\n# heading",
    "`code` ``` fence",
    "---\npretty_name: other",
    "\u202egnp.exe",
    "\x1b[2J\x1b]0;title\x07",
    "</svg><script>$\\frac{$",
    "&lt;b&gt;",
    "\r\n- item",
]


@each("text", HOSTILE)
def test_markdown_and_a_terminal_show_a_text_literally(text: str) -> None:
    escaped = shown.markdown(text)
    assert "\n" not in escaped
    assert not re.search("[\x00-\x1f\u202a-\u202e]", escaped)
    assert not re.search(r"(?<!\\)[<>\[\]|`*_#$&~]", escaped), "a mark without its backslash"
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown.lines(text))
    record = logging.LogRecord("x", logging.INFO, "x", 1, "quarantined %s", (text,), None)
    assert "\n" not in shown.LogFormatter("%(message)s").format(record)
    assert "\x1b" not in shown.LogFormatter("%(message)s").format(record)


def test_errors_cannot_move_a_terminals_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "\x1b[2J\u202ex.parquet")]) == 1
    output = capsys.readouterr()
    assert "\\x1b[2J\\u202ex.parquet" in output.err
    path = tmp_path / "manifests/\x1b[2J\u202e/captions.parquet"
    files.write(path, CAPTIONS, captions("a"), {"root": "../.."})
    main(["verify", str(path)])
    assert "1 row," in (printed := capsys.readouterr().out)
    assert "\x1b" not in output.err + output.out + printed


def a_video_row(dataset: str) -> VideoRow:
    wanted = recipe.make(suite_registry.get("mlvp/fog"), 1, seed=0, storage=tiers.UNSTORED)
    return clips.video_row(wanted, dataset=dataset, item_id="a", source_path=dataset)


@each("text", HOSTILE)
def test_a_card_is_what_it_says(text: str) -> None:
    from perturbations.corpus import corpus_card, tally

    listed = sets.Listed(listed=1, listed_sha256="0", complete=1, quarantined=0, missing=0)
    about = {"dataset": text, "package_version": text, "config_digest": text}
    document = corpus_card.card(suite_registry.suite("mlvp"), tally.Tally().counted([a_video_row(text)]), listed, about)
    _, front, body = document.split("---\n", 2)
    assert set(yaml.safe_load(front)) == {"pretty_name", "task_categories", "tags"}
    assert "<script" not in body.replace("\\<", "")
    assert "\x1b" not in document
    assert "](" not in body.replace("\\](", "")
    assert len([line for line in body.split("\n") if line.startswith("#")]) == 1


@each("text", HOSTILE)
def test_a_page_of_captions_in_a_browser_quotes_them(text: str, tmp_path: Path) -> None:
    from perturbations.pages.captions_page import captions_page

    wanted = caption_recipes.make(suite_registry.get("mm_robustness/keyboard"), 1)
    texts = {"source_text": f"a {text}", "text": f"b {text}"}
    row = clips.text_row(wanted, dataset=text, caption_id=text, item_id="a", **texts)
    others = [replace(row, perturbation=text, level=text), replace(row, suite=text)]
    for rows in ([row, others[0]], [others[1]]):
        files.write(tmp_path / "captions.parquet", TEXTS, rows, {"root": ".", "dataset": text})
        captions_page(tmp_path / "captions.parquet", tmp_path / "captions.html")
        page = (tmp_path / "captions.html").read_text(encoding="utf-8")
        assert page.count("<script") == page.count("</script") == 1, "its own"
        assert page.count("<article") == page.count("</article") == len(rows)
        assert not re.search("<img|[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page)
        assert "<del>a</del>" in page
        assert "<ins>b</ins>" in page


def test_the_page_escapes_what_it_lists(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from synthetic_results import result

    from perturbations.evaluation.page import evaluation_page

    rows = []
    for text in HOSTILE:
        about = {"dataset": text, "tools": json.dumps({"name": text}), "settings": json.dumps({text: text})}
        perturbed = {"suite": text, "perturbation": text, "severity": 1, "category": text}
        rows += [result("none", 2.0, setting=text, **about), result("none", 1.0, setting=text, **about, **perturbed)]
    files.write(tmp_path / "r.parquet", RESULTS, rows)
    evaluation_page.write(tmp_path / "page.html", results=[tmp_path / "r.parquet"])
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert html.count("<script") == 1, "its own"
    assert "onerror=alert" not in html or "&gt;&lt;img" in html
    assert "\u202e" not in html
    assert "\x1b" not in html
