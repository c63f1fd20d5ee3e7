"""The page of a corpus, in every storage tier and in a browser."""

from __future__ import annotations

import base64
import html
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import clips
import needs
import numpy as np
import pytest
from page_rows import OF_VIDEOS, browsed, rows_of
from PIL import Image
from pipeline_rows import scene
from synthetic_results import B32, of_model

from perturbations.base import storage
from perturbations.base.errors import ManifestError
from perturbations.cli.main import main
from perturbations.corpus.plan import caption_recipes, recipe, tiers
from perturbations.evaluation.result_rows import RESULTS
from perturbations.manifest import files, locations, sets
from perturbations.manifest.rows import CAPTIONS, QUARANTINE, TEXTS, VIDEOS, CaptionRow, QuarantineRow, VideoRow
from perturbations.media import decoding, probing
from perturbations.media.clip import MediaClip, uniform_indices
from perturbations.pages import clip_previews, preview_sheet
from perturbations.pages.captions_page import captions_page, compared
from perturbations.pages.corpus_page import corpus_page
from perturbations.pages.index import index
from perturbations.suites import suite_registry

NAMES = ("gaussian_noise", "translate", "mpeg2", "sampling")  # translate changes the size, sampling the length
TIERS = {
    "recipe": tiers.UNSTORED,
    "frames": tiers.stored_frames(4),
    "video": tiers.stored_video("high"),
}
ABOUT = {
    "root": "../../..",
    "dataset": "d",
    "suite": "msrvtt_p",
    "comparability": "comparable <b>",
    "config_digest": "0",
}


def corpus_of(root: Path, tier: tiers.Storage, *items: str) -> Path:
    """A corpus of clips with these ids, and its manifest."""
    rows: list[VideoRow] = []
    for seed, item in enumerate(items):
        path = clips.write_scene(root / f"{seed}.mp4", scene(8, 190, 240, seed))
        source = clips.source_row(path, item)
        for name in NAMES:
            for severity in (1, 5):
                wanted = recipe.make(suite_registry.get(f"msrvtt_p/{name}"), severity, seed=0, storage=tier)
                folder = root / "corpora" / name / str(severity)
                part = root / "work" / name / f"{severity}.parquet"
                rows += clips.video_rows(wanted, [source], root=root, folder=folder, part=part)
    assert {row.status for row in rows} == {"complete"}
    manifest = root / "manifests" / "d" / "msrvtt_p" / "videos.parquet"
    files.write(manifest, VIDEOS, rows, ABOUT)
    return manifest


@pytest.fixture(scope="module", params=TIERS)
def manifest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus_of(tmp_path_factory.mktemp("corpus"), TIERS[request.param], "a <script> b", "two")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For a browser: where there is none, nothing is made."""
    needs.browser()
    return corpus_of(tmp_path_factory.mktemp("played"), TIERS["recipe"], "a <script> b", "two")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus_of(tmp_path_factory.mktemp("stored"), TIERS["video"], "a <script> b")


def copy_of(manifest: Path, folder: Path) -> Path:
    """The manifest of a copy of its corpus."""
    root = manifest.parents[3]
    return Path(shutil.copytree(root, folder / "copy")) / manifest.relative_to(root)


def page_of(manifest: Path, output: Path) -> str:
    corpus_page(manifest, output)
    return output.read_text(encoding="utf-8")


def shown_clips(text: str) -> list[tuple[str, str]]:
    """The perturbation of each preview of a perturbed clip, and its severity."""
    cards = re.findall(r'<article class="card" data-name="([^"]*)"(.*?)</article>', text, re.DOTALL)
    return [
        (name, severity) for name, card in cards for severity in re.findall(r'data-severity="(\d)"[^>]*><video', card)
    ]


def texts_of(page: str, tag: str) -> list[str]:
    return [html.unescape(text) for text in re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)]


def test_every_perturbation_and_severity_plays_beside_the_clean_clip(manifest: Path, tmp_path: Path) -> None:
    text = page_of(manifest, tmp_path / "corpus.html")
    assert len(text.encode()) < 1_000_000
    assert sorted(shown_clips(text)) == sorted([(name, severity) for name in NAMES for severity in "15"] * 2)
    assert (
        re.findall(r"<h3>(clean.?)</h3>\n<figure><video[^>]*></video><figcaption>(.*?)</figcaption>", text)
        == [
            ("clean", "the beginning of the clip"),
            ("clean*", "* perturbs time: compare with this clip, shown from beginning to end"),
        ]
        * 2
    )
    assert re.findall(r"<h3>(\w+)[*] ", text) == ["translate", "sampling"] * 2
    assert re.search("PSNR\xa0[0-9.]+\xa0dB&nbsp;· SSIM\xa0[0-9.]+", text)
    assert not re.search(r"(SSIM|PSNR) \d", text), "a number on another line than its name"
    films = [base64.b64decode(data) for data in re.findall(r'src="data:video/mp4;base64,([^"]*)"', text)]
    (tmp_path / "film.mp4").write_bytes(films[0])
    about = probing.probe(tmp_path / "film.mp4")
    assert (about.codec, about.pix_fmt) == ("h264", "yuv420p")
    seconds = set()
    for film in films:
        (tmp_path / "film.mp4").write_bytes(film)
        seconds.add(decoding.frame_times(MediaClip(tmp_path / "film.mp4"), 16)[-1])
    assert len(seconds) == 1, "clips side by side are equally long"


def test_a_clean_frame_is_the_source_of_the_frame_beside_it(manifest: Path) -> None:
    row = locations.located(files.read_rows(manifest, VIDEOS)[0], manifest.parents[3])
    frames = [frame.image for frame in decoding.decode(MediaClip(Path(row.source_path)))]
    places = uniform_indices(row.stored_frames, len(frames)) if row.stored_frames else range(len(frames))
    for held, own in ((0, places[0]), (-1, places[-1])):
        (clean,) = preview_sheet.clean_frames(row, lambda count, held=held: [held % count])
        np.testing.assert_array_equal(clean, frames[own])


def test_it_loads_nothing_and_escapes_everything(stored: Path, tmp_path: Path) -> None:
    text = page_of(stored, tmp_path / "corpus.html")
    assert "a &lt;script&gt; b" in text
    assert "comparable &lt;b&gt;" in text
    assert text.count("<script") == 1, "its own"
    assert not re.search(r"(src|poster)=(?!\"data:)", text.partition("<script")[0])
    assert "http" not in re.sub(r"data:[^\"]*", "", text)
    assert str(stored.parents[3]) not in text


def test_it_links_the_stored_videos_and_says_how_to_load_them(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = manifest.parents[3].resolve()
    captions = [CaptionRow(dataset="d", caption_id=f"two#{n}", item_id="two", text=f"<{n}>") for n in (10, 2)]
    files.write(manifest.parents[1] / "captions.parquet", CAPTIONS, captions, {"root": "../.."})
    text = page_of(manifest, manifest.with_name("corpus.html"))
    assert "<li>&lt;2&gt;</li><li>&lt;10&gt;</li></ul>" in text
    links = set(re.findall(r'<a href="([^"]+)">stored file', text))
    rows = files.read_rows(manifest, VIDEOS)
    stored = {(root / row.path).resolve() for row in rows if row.path is not None and row.storage.startswith("video/")}
    assert {(manifest.parent / unquote(href)).resolve() for href in links} == stored
    monkeypatch.chdir(root)
    (lines,) = texts_of(text, "pre")
    known: dict[str, Any] = {}
    exec(lines, known)  # as a reader does
    assert known["frames"].dtype == np.uint8
    assert {clip.perturbation for clip in known["clips"]} == {"translate"}
    assert f"the hash of every file: {storage.sha256(manifest)}." in text


def test_the_index_leads_to_every_file(stored: Path, tmp_path: Path) -> None:
    copied = copy_of(stored, tmp_path)
    root, folder = copied.parents[3], copied.parent
    page_of(copied, folder / "corpus.html")
    bad = QuarantineRow(dataset="d", item_id="<b> 1", status="quarantined", stage="source", error="no <i>frames")
    files.write(folder / "quarantine.parquet", QUARANTINE, [bad], ABOUT)
    (root / "manifests" / "a #1 'javascript:' <x>.html").write_text("")
    (root / "manifests" / "d" / "sources.parquet").write_bytes(b"no manifest")
    results = of_model(B32, {"none": 40.0, "tcr": 42.0})
    labelled = [replace(row, label=row.method) for row in results]
    files.write(root / "manifests/d/adaptation/m/results.parquet", RESULTS, labelled, {})
    clean = [row for row in labelled if row.suite == "clean"]
    files.write(root / "manifests/d/composed/m/results.parquet", RESULTS, clean, {})
    hostile = {"listed": "<i>", "listed_sha256": "", "complete": 1, "quarantined": 0, "missing": 0, "scenarios": 1}
    files.write(root / "manifests/theirs/x/videos.parquet", VIDEOS, [], {sets.SET: hostile})
    files.write(root / "manifests/theirs/y/videos.parquet", VIDEOS, [], {sets.SET: {**hostile, "listed": 2}})
    text = index(root).read_text(encoding="utf-8")
    assert "videos.parquet does not say, as manifests do, what was listed" in text
    assert "<p>1 of 2 clips, 1 scenario</p>" in text
    assert "<p>R@1 32.0 perturbed, 42.0 clean: tcr, v2t, the best of 2 methods</p>" in text
    assert "<p>R@1 42.0 clean: tcr, v2t, the best of 2 methods</p>" in text
    assert not re.search(r"\b0 B\b", text)
    assert "<code>snakemake tta_d</code>" in text
    targets = [(root / "manifests" / unquote(href)).resolve() for href in re.findall(r'href="([^"]+)"', text)]
    lying = {path.resolve() for path in (root / "manifests").rglob("*") if path.suffix in (".html", ".md", ".parquet")}
    assert {*targets} == lying - {(root / "manifests" / "index.html").resolve()}
    assert "<code>snakemake msrvtt_p_d</code>" in text
    assert "no &lt;i&gt;frames" in text
    assert "&lt;b&gt; 1" in text
    assert "sources.parquet cannot be read" in text
    assert not re.search(r"<script|src=|http", text)
    assert str(root) not in text


def test_it_is_the_same_for_the_same_manifest(stored: Path, tmp_path: Path) -> None:
    assert main(["rule", "corpus_page", "--videos", str(stored), "--page", str(tmp_path / "again.html")]) == 0
    assert page_of(stored, tmp_path / "corpus.html") == (tmp_path / "again.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("psnr", "ssim", "cells"),
    [
        ((20.0, 21.0), (0.25, 0.25), ["20.5", "0.250"]),
        ((np.inf, 24.0, 25.0), (1.0, 0.5, 0.6), ["24.5", "0.700"]),  # one that did not change: no infinite mean
        ((np.inf, np.inf), (1.0, 1.0), ["∞", "1.000"]),
        ((np.nan, np.nan), (None, None), []),
    ],
)
def test_numbers_are_means_over_clips(
    psnr: tuple[float, ...], ssim: tuple[float, ...], cells: list[str], stored: Path, tmp_path: Path
) -> None:
    known: dict[str, Any] = {"path": None, "storage": "recipe", "bytes": None}
    row = replace(files.read_rows(stored, VIDEOS)[0], **known)
    values = enumerate(zip(psnr, ssim, strict=True))
    members = [replace(row, item_id=str(place), psnr_db=db, ssim=share) for place, (db, share) in values]
    files.write(tmp_path / "videos.parquet", VIDEOS, members, {"root": "."})
    measured = page_of(tmp_path / "videos.parquet", tmp_path / "corpus.html").partition("About this corpus")[0]
    assert re.findall('<td(?: style="background[^"]*")?>(.*?)</td>', measured) == cells


def test_clips_that_failed_before_they_were_perturbed_count_as_in_the_card(stored: Path, tmp_path: Path) -> None:
    rows = files.read_rows(stored, VIDEOS)
    listed = {"listed": 3, "listed_sha256": "", "complete": 1, "quarantined": 2, "missing": 0, "scenarios": len(rows)}
    described = stored.with_name("described.parquet")
    files.write(described, VIDEOS, rows, {**ABOUT, sets.SET: listed})
    text = page_of(described, tmp_path / "page.html")
    assert f"<dt>videos complete</dt><dd>{len(rows)} of {3 * len(rows)}</dd>" in text


def test_perturbations_that_are_not_installed_here_are_shown(stored: Path, tmp_path: Path) -> None:
    path = copy_of(stored, tmp_path)
    rows = files.read_rows(path, VIDEOS)
    for suite, name in (("msrvtt_p", "sepia"), ("theirs", "gaussian_noise")):
        others = [replace(row, suite=suite, perturbation=name) for row in rows if row.perturbation == "gaussian_noise"]
        files.write(path, VIDEOS, [*others, *(row for row in rows if row.perturbation == "mpeg2")], ABOUT)
        text = page_of(path, tmp_path / "corpus.html")
        in_order = ["mpeg2", name] if name == "sepia" else [name, "mpeg2"]
        assert shown_clips(text) == [(of, severity) for of in in_order for severity in "15"]


def test_a_missing_file_costs_its_preview_only(stored: Path, tmp_path: Path) -> None:
    path = copy_of(stored, tmp_path)
    (row,) = [row for row in files.read_rows(path, VIDEOS) if (row.perturbation, row.severity) == ("mpeg2", 5)]
    (path.parents[3] / str(row.path)).unlink()
    text = page_of(path, tmp_path / "corpus.html")
    assert len(shown_clips(text)) == len(NAMES) * 2 - 1
    assert "no such file</p>" in text


def test_everything_is_quarantined(stored: Path, tmp_path: Path) -> None:
    failure: dict[str, Any] = {"status": "quarantined", "stage": "video", "error": "no <frames>"}
    nothing: dict[str, Any] = dict.fromkeys(("path", "bytes", "psnr_db", "ssim"))
    rows = [replace(row, **failure, **nothing) for row in files.read_rows(stored, VIDEOS)]
    files.write(tmp_path / "videos.parquet", VIDEOS, rows, {"root": "."})
    failed = [
        QuarantineRow(dataset="d", item_id=f"clip {n}", severity=severity, **failure)
        for n in range(7)
        for severity in (1, 5)
    ]
    files.write(tmp_path / "quarantine.parquet", QUARANTINE, failed, {"root": "."})
    text = page_of(tmp_path / "videos.parquet", tmp_path / "corpus.html")
    assert "no &lt;frames&gt;" in text
    assert '<th scope="row">video</th><td>7</td>' in text
    assert "clip 0, clip 1, clip 2, clip 3, clip 4, ..." in text
    assert texts_of(text, "h2") == ["Missing and quarantined", "About this corpus"]
    assert "<video" not in text


def test_no_rows_and_an_index_of_nothing(tmp_path: Path) -> None:
    files.write(tmp_path / "videos.parquet", VIDEOS, [], ABOUT | {"root": "."})
    text = page_of(tmp_path / "videos.parquet", tmp_path / "corpus.html")
    assert "No clip could be perturbed." in text
    assert texts_of(text, "h2") == ["About this corpus"]
    assert texts_of(index(tmp_path).read_text(encoding="utf-8"), "h2") == ["Disk space and checksums"]


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "videos.parquet").write_text("something else")
    with pytest.raises(ManifestError):
        corpus_page(tmp_path / "videos.parquet", tmp_path / "corpus.html")
    assert not (tmp_path / "corpus.html").exists()


def test_a_large_corpus_is_shown_by_a_sample() -> None:
    counts = {f"{number:05d}": 2 for number in range(5000)} | {"part": 1}
    assert clip_previews.chosen(counts) == ["00000", "02500"]
    assert clip_previews.chosen({"b": 1, "a": 1}) == ["a", "b"]
    assert clip_previews.chosen({}) == []


# --- perturbed captions -----------------------------------------------------------------------------------------------


def test_captions_are_compared_word_by_word() -> None:
    assert compared("a red ball rolls", "a blue ball") == (
        [("a", False), ("red", True), ("ball", False), ("rolls", True)],
        [("a", False), ("blue", True), ("ball", False)],
    )
    assert compared("", "new") == ([], [("new", True)])


def test_the_page_of_captions_shows_a_sample_at_every_severity(tmp_path: Path) -> None:
    path = tmp_path / "manifests" / "d" / "mm_robustness" / "captions.parquet"
    rows = []
    for severity in (1, 7):
        wanted = caption_recipes.make(suite_registry.get("mm_robustness/keyboard"), severity)
        for number in range(60):
            texts = {"source_text": f"ball {number}", "text": f"bsll {severity}", "changed": number % 4 == 0}
            rows.append(clips.text_row(wanted, caption_id=f"{number:02d}", item_id="a", **texts))
    files.write(path, TEXTS, rows, {"root": "../../..", "dataset": "d"})
    assert main(["rule", "captions_page", "--captions", str(path), "--page", str(path.with_suffix(".html"))]) == 0
    text = path.with_suffix(".html").read_text(encoding="utf-8")
    assert re.findall(r'data-severity="(\d)"><p[^>]*>(.*?)</p>', text) == [
        (severity, f"severity {severity}: 25% of the captions change") for severity in "17"
    ]
    assert re.findall("<dt><del>ball (.*?)</del></dt>", text) == ["0", "10", "20", "30", "40", "50"] * 2
    assert text.count("<ins>bsll 7</ins>") == 6
    assert "mm_robustness/captions.html" in index(tmp_path).read_text(encoding="utf-8")


def test_no_captions_are_a_page(tmp_path: Path) -> None:
    files.write(tmp_path / "captions.parquet", TEXTS, [], {"root": ".", "dataset": "d"})
    captions_page(tmp_path / "captions.parquet", tmp_path / "captions.html")
    assert "<script" not in (tmp_path / "captions.html").read_text(encoding="utf-8")


# What a reader does: moves the slider, chooses a perturbation, another clip, pauses.
WRAPPER = """<!doctype html><body style="margin:0"><iframe id="f" style="border:0;width:{width}px;height:900px"
src="corpus.html"></iframe><script>
var errors = [];
document.getElementById("f").onload = function () {{
  var d = this.contentDocument, w = this.contentWindow, get = id => d.getElementById(id);
  w.addEventListener("error", e => errors.push(e.message));
  var see = () => Array.from(d.querySelectorAll("[data-name]")).filter(c => c.checkVisibility()).map(
    c => [c.dataset.name, ...Array.from(c.querySelectorAll("figure[data-severity]")).filter(
      s => s.checkVisibility()).map(s => s.dataset.severity)].join(" "));
  var choose = (id, value) => {{ get(id).value = value; get(id).dispatchEvent(new Event("input")); return see(); }};
  var seen = {{wide: d.documentElement.scrollWidth, view: w.innerWidth, first: see()}};
  seen.cut = Array.from(d.querySelectorAll(".scroll, pre")).filter(b => b.scrollWidth > b.clientWidth).length;
  seen.low = choose("severity", 3);
  var whole = () => Array.from(d.querySelectorAll(".item:not([hidden]) .clean")).map(c => c.checkVisibility());
  seen.whole = [whole()];
  seen.one = choose("name", "mpeg2");
  seen.whole.push(whole());
  choose("name", "sampling");
  seen.whole.push(whole());
  seen.category = choose("name", get("name").options[1].value).length;
  seen.group = get("name").options[1].value.slice(1);
  choose("item", "1");
  seen.item = d.querySelector(".item:not([hidden])").getAttribute("aria-label");
  get("play").click();
  seen.play = get("play").textContent;
  seen.address = w.location.hash;
  w.location.hash = "#mpeg2/3";
  w.dispatchEvent(new HashChangeEvent("hashchange"));
  seen.linked = see();
  for (const odd of ["#nothing/5", "#mpeg2/x", "#%", "#"]) {{
    w.location.hash = odd;
    w.dispatchEvent(new HashChangeEvent("hashchange"));
  }}
  seen.kept = see();
  seen.dark = w.getComputedStyle(d.body).backgroundColor;
  seen.errors = errors;
  document.title = JSON.stringify(seen);
}};</script></body>"""


OPENED = """<!doctype html><body><iframe id="f" style="border:0;width:1280px;height:600px"
src="corpus.html#{address}"></iframe><script>
document.getElementById("f").onload = function () {{
  var d = this.contentDocument, controls = d.querySelector(".controls"), cards = d.querySelectorAll("[data-name]");
  document.title = JSON.stringify({{
    names: Array.from(cards).filter(c => c.checkVisibility()).map(c => c.dataset.name),
    severity: d.getElementById("severity").value,
    scrolled: this.contentWindow.scrollY > 0 && Math.abs(controls.getBoundingClientRect().top) < 2,
  }});
}};</script>"""


@pytest.mark.parametrize(
    ("address", "names", "severity"), [("mpeg2/3", ["mpeg2"], "3"), ("mpeg2", ["mpeg2"], "5"), ("/2", list(NAMES), "2")]
)
def test_a_link_opens_the_page_at_a_perturbation_and_a_severity(
    address: str, names: list[str], severity: str, played: Path, tmp_path: Path
) -> None:
    page_of(played, tmp_path / "corpus.html")
    seen = browsed(tmp_path, OPENED.format(address=address), 3000)
    assert (sorted(seen["names"]), seen["severity"], seen["scrolled"]) == (sorted(names), severity, True)


@pytest.mark.parametrize(("width", "scheme"), [(1920, "light"), (1024, "light"), (390, "dark")])
def test_it_fits_the_screen_and_its_choices_work(width: int, scheme: str, played: Path, tmp_path: Path) -> None:
    page_of(played, tmp_path / "corpus.html")
    seen = browsed(tmp_path, WRAPPER.format(width=width), 5000, scheme)
    assert seen["view"] == width
    assert seen["wide"] <= width, "the page is wider than the screen"
    assert not seen["cut"], "a column is cut"
    assert not seen["errors"]
    assert sorted(seen["first"]) == sorted(f"{name} 5" for name in NAMES)
    assert sorted(seen["low"]) == sorted(f"{name} 1" for name in NAMES), "the next lower severity"
    assert seen["one"] == ["mpeg2 1"]
    assert seen["whole"] == [[True, True], [True, False], [False, True]], "all of the clean clip, beside what moves it"
    assert seen["address"] == "#/" + seen["group"] + "/3"
    assert seen["linked"] == seen["kept"] == ["mpeg2 1"], "what the page does not have changes nothing"
    assert 1 <= seen["category"] < len(NAMES)
    assert (seen["item"], seen["play"]) == ("two", "Play")
    assert (seen["dark"] == "rgb(255, 255, 255)") == (scheme == "light")


# --- of pictures -----------------------------------------------------------------------------------------------------


def test_pages_of_pictures_show_stills_and_speak_of_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, row = rows_of(tmp_path, tiers.stored_video("png"), monkeypatch)  # which lets no encoder of videos start
    manifest = tmp_path / "manifests/pictures/mm_robustness/videos.parquet"
    page = page_of(manifest, manifest.with_name("corpus.html"))
    for text in (page, index(tmp_path).read_text()):
        shown = re.sub(r"(?s)<(style|script|pre).*?</\1>|<[^>]*>", " ", text)
        assert "ictures" in shown
        assert not OF_VIDEOS.findall(shown), shown
    assert page.count("<img") == 2
    assert f'<a href="../../../{row.path}">' in page


def test_a_preview_of_a_picture_leaves_out_what_needs_several_frames(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(scene(1, 60, 80, 0)[0]).save(path)
    command = ["preview", str(path), "-p", "msrvtt_p", "-s", "1", "-o", str(tmp_path / "sheet.png")]
    assert main(command) == 0
    left_out = ["mpeg1", "mpeg2", "jumble", "box_jumble", "sampling", "reverse_sampling", "freeze"]
    assert ", ".join(f"msrvtt_p/{name}" for name in left_out) in capsys.readouterr().out
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert sheet.shape[0] > 11 * 60, "a row for each of the others"
