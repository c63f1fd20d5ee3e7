"""The page of a corpus, in every storage tier and in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import clips
import needs
import numpy as np
import pytest
from test_pipeline import scene

from perturbations.base.errors import ManifestError
from perturbations.cli.main import main
from perturbations.engine import shards
from perturbations.manifest import files
from perturbations.manifest.kinds import QUARANTINE, VIDEOS, QuarantineRow, VideoRow
from perturbations.plan import recipe
from perturbations.report import corpus_page, crops, index
from perturbations.suites import registry

NAMES = ("gaussian_noise", "translate", "mpeg2", "sampling")  # translate changes the size, sampling the length
TIERS = {
    "recipe": recipe.Unstored(),
    "frames": recipe.StoredFrames(num_frames=4),
    "video": recipe.stored_video("high"),
}
ABOUT = {
    "root": "../../..",
    "dataset": "d",
    "suite": "msrvtt_p",
    "comparability": "comparable <b>",
    "config_digest": "0",
}


def corpus_of(root: Path, tier: recipe.Storage, *items: str) -> Path:
    """A corpus of clips with these ids, and its manifest."""
    rows: list[VideoRow] = []
    for seed, item in enumerate(items):
        path = clips.write_scene(root / f"{seed}.mp4", scene(8, 190, 240, seed))
        source = clips.source_row(path, item)
        for name in NAMES:
            for severity in (1, 5):
                wanted = recipe.make(registry.get(f"msrvtt_p/{name}"), severity, seed=0, storage=tier)
                folder = root / "corpora" / name / str(severity)
                journal = root / "work" / name / f"{severity}.jsonl"
                rows += shards.run_videos(wanted, [source], root=root, folder=folder, journal=journal, stall_limit_s=60)
    assert {row.status for row in rows} == {"complete"}
    manifest = root / "manifests" / "d" / "msrvtt_p" / "videos.parquet"
    files.write(manifest, VIDEOS, rows, ABOUT)
    return manifest


@pytest.fixture(scope="module", params=TIERS)
def manifest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus_of(tmp_path_factory.mktemp("corpus"), TIERS[request.param], "a <script> b", "two")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus_of(tmp_path_factory.mktemp("stored"), TIERS["video"], "a <script> b")


def page_of(manifest: Path, output: Path) -> str:
    corpus_page.write(manifest, output)
    return output.read_text(encoding="utf-8")


def test_every_perturbation_and_severity_is_shown(manifest: Path, tmp_path: Path) -> None:
    text = page_of(manifest, tmp_path / "corpus.html")
    assert len(text.encode()) < 2_000_000
    for name in NAMES:
        assert text.count(f"<h4>{name}</h4>") == 2
    assert text.count("<img ") == 2 * len(NAMES) * 3
    assert text.count('width="160" height="160"') >= 2 * 3 * 3 - 4
    assert "(of " in text, "translate changes the size"
    assert "Length, of the clean clip" in text


def test_it_loads_nothing_and_escapes_everything(stored: Path, tmp_path: Path) -> None:
    text = page_of(stored, tmp_path / "corpus.html")
    assert "a &lt;script&gt; b" in text
    assert "comparable &lt;b&gt;" in text
    assert "<script" not in text
    assert not re.search(r"src=(?!\"data:)", text)
    assert "http" not in re.sub(r"data:[^\"]*", "", text)
    assert str(stored.parents[3]) not in text


def test_its_labels_open_the_videos(manifest: Path) -> None:
    links = re.findall(r'<figcaption><a href="([^"]+)">(.*?)</a>', page_of(manifest, manifest.with_name("corpus.html")))
    targets = {(manifest.parent / unquote(href)).resolve() for href, _ in links}
    root = manifest.parents[3].resolve()
    stored = {(root / row.path).resolve() for row in files.read_rows(manifest, VIDEOS) if row.path is not None}
    assert targets == stored | {root / "0.mp4", root / "1.mp4"}
    assert all(target.is_file() for target in targets)


def test_the_index_leads_to_every_file(stored: Path, tmp_path: Path) -> None:
    root = shutil.copytree(stored.parents[3], tmp_path / "copy")
    folder = root / stored.parent.relative_to(stored.parents[3])
    page_of(folder / stored.name, folder / "corpus.html")
    bad = QuarantineRow(dataset="d", item_id="<b> 1", status="quarantined", stage="source", error="no <i>frames")
    files.write(folder / "quarantine.parquet", QUARANTINE, [bad], ABOUT)
    (root / "manifests" / "a #1 'javascript:' <x>.html").write_text("")
    (root / "manifests" / "d" / "sources.parquet").write_bytes(b"no manifest")
    text = index.write(root).read_text(encoding="utf-8")
    targets = [(root / "manifests" / unquote(href)).resolve() for href in re.findall(r'href="([^"]+)"', text)]
    lying = {path.resolve() for path in (root / "manifests").rglob("*") if path.suffix in (".html", ".md", ".parquet")}
    assert {*targets} == lying - {(root / "manifests" / "index.html").resolve()}
    assert "<code>snakemake msrvtt_p_d</code>" in text
    assert "no &lt;i&gt;frames" in text
    assert "&lt;b&gt; 1" in text
    assert "sources.parquet is not a Parquet file" in text
    assert not re.search(r"<script|src=|http", text)
    assert str(root) not in text


def test_it_is_the_same_for_the_same_manifest(stored: Path, tmp_path: Path) -> None:
    assert main(["rule", "corpus-page", str(stored), "-o", str(tmp_path / "again.html")]) == 0
    assert page_of(stored, tmp_path / "corpus.html") == (tmp_path / "again.html").read_text(encoding="utf-8")


def test_numbers_are_means_over_clips(stored: Path, tmp_path: Path) -> None:
    rows = [
        row for row in files.read_rows(stored, VIDEOS) if row.perturbation == "gaussian_noise" and row.severity == 1
    ]
    known: dict[str, Any] = {"path": None, "storage": "recipe"}
    pair = [
        replace(rows[0], item_id=name, psnr_db=value, ssim=0.25, **known) for name, value in [("a", 20.0), ("b", 21.0)]
    ]
    files.write(tmp_path / "videos.parquet", VIDEOS, pair, {"root": "."})
    text = page_of(tmp_path / "videos.parquet", tmp_path / "corpus.html")
    assert ">20.5</td>" in text
    assert ">0.250</td>" in text


def test_clips_that_failed_before_they_were_perturbed_count_as_in_the_card(stored: Path, tmp_path: Path) -> None:
    rows = files.read_rows(stored, VIDEOS)
    listed = {"listed": 3, "listed_sha256": "", "complete": 1, "quarantined": 2, "missing": 0, "scenarios": len(rows)}
    described = stored.with_name("described.parquet")
    files.write(described, VIDEOS, rows, {**ABOUT, "set": listed})
    assert f"{len(rows)} of {3 * len(rows)} videos complete" in page_of(described, tmp_path / "page.html")


def test_one_clip_that_did_not_change_does_not_make_the_mean_infinite(stored: Path, tmp_path: Path) -> None:
    known: dict[str, Any] = {"path": None, "storage": "recipe"}
    row = replace(files.read_rows(stored, VIDEOS)[0], **known)
    for values, shown_as in ([(np.inf, 24.0, 25.0), ">24.5</td>"], [(np.inf, np.inf), ">∞</td>"]):
        members = [replace(row, item_id=str(place), psnr_db=float(value)) for place, value in enumerate(values)]
        files.write(tmp_path / "videos.parquet", VIDEOS, members, {"root": "."})
        assert shown_as in page_of(tmp_path / "videos.parquet", tmp_path / "corpus.html")


def test_perturbations_that_are_not_installed_here_are_shown(stored: Path, tmp_path: Path) -> None:
    root = shutil.copytree(stored.parents[3], tmp_path / "copy")
    path = root / stored.relative_to(stored.parents[3])
    rows = files.read_rows(path, VIDEOS)
    for suite, name in (("msrvtt_p", "sepia"), ("theirs", "gaussian_noise")):
        others = [replace(row, suite=suite, perturbation=name) for row in rows if row.perturbation == "gaussian_noise"]
        files.write(path, VIDEOS, [*others, *(row for row in rows if row.perturbation == "mpeg2")], ABOUT)
        text = page_of(path, tmp_path / "corpus.html")
        assert re.findall("<h4>(.*?)</h4>", text) == (["mpeg2", name] if name == "sepia" else [name, "mpeg2"])
        assert text.count("<img ") == 2 * 3


def test_a_missing_file_costs_its_crop_only(stored: Path, tmp_path: Path) -> None:
    root = shutil.copytree(stored.parents[3], tmp_path / "copy")
    path = root / stored.relative_to(stored.parents[3])
    (row,) = [row for row in files.read_rows(path, VIDEOS) if (row.perturbation, row.severity) == ("mpeg2", 5)]
    (root / str(row.path)).unlink()
    text = page_of(path, tmp_path / "corpus.html")
    assert text.count("<img ") == len(NAMES) * 3 - 1
    assert "no such file</div>" in text


def test_everything_is_quarantined(stored: Path, tmp_path: Path) -> None:
    rows = [
        replace(
            row,
            status="quarantined",
            stage="video",
            error="no <frames>",
            path=None,
            bytes=None,
            psnr_db=None,
            ssim=None,
        )
        for row in files.read_rows(stored, VIDEOS)
    ]
    files.write(tmp_path / "videos.parquet", VIDEOS, rows, {"root": "."})
    failed = [
        QuarantineRow(
            dataset="d", item_id=f"clip {n}", status="quarantined", stage="video", severity=s, error="no <frames>"
        )
        for n in range(7)
        for s in (1, 5)
    ]
    files.write(tmp_path / "quarantine.parquet", QUARANTINE, failed, {"root": "."})
    text = page_of(tmp_path / "videos.parquet", tmp_path / "corpus.html")
    assert "no &lt;frames&gt;" in text
    assert '<th scope="row">video</th><td>7</td>' in text
    assert "clip 0, clip 1, clip 2, clip 3, clip 4, ..." in text
    assert "There is no complete clip to show." in text
    assert "Nothing was measured." in text


def test_no_rows_and_an_index_of_nothing(tmp_path: Path) -> None:
    files.write(tmp_path / "videos.parquet", VIDEOS, [], ABOUT | {"root": "."})
    text = page_of(tmp_path / "videos.parquet", tmp_path / "corpus.html")
    assert "No clip could be perturbed." in text
    assert "The corpus has no rows." in text
    assert "None." in index.write(tmp_path).read_text(encoding="utf-8")


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "videos.parquet").write_text("something else")
    with pytest.raises(ManifestError):
        corpus_page.write(tmp_path / "videos.parquet", tmp_path / "corpus.html")
    assert not (tmp_path / "corpus.html").exists()


# --- crops -----------------------------------------------------------------------------------------------------------


def test_a_crop_holds_a_frames_own_pixels() -> None:
    image = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    assert (crops.crop(image, (0.5, 0.5)) == image[70:230, 120:280]).all()
    assert (crops.crop(image, (1.0, 0.0)) == image[140:300, :160]).all()
    assert (crops.crop(image[:90], (0.5, 0.5)) == image[:90, 120:280]).all()


def test_many_noisy_crops_still_fit_the_page() -> None:
    generator = np.random.default_rng(0)
    noise = [generator.integers(0, 256, (160, 160, 3), dtype=np.uint8) for _ in range(6)]
    shown = tuple(crops.Crop(f"severity {number}", image) for number, image in enumerate(noise))
    strips = [crops.Strip("a", f"p{number}", shown) for number in range(18)]
    pictures = crops.drawn([strips, strips])
    assert sum(len(picture["source"]) for _, members in pictures for picture in members) < 1_850_000
    assert {len(members) for _, members in pictures} <= {2, 3, 4, 6}
    assert all(members[-1]["label"] == "severity 5" for _, members in pictures), "the highest severity is always shown"


# --- in a browser ----------------------------------------------------------------------------------------------------

WRAPPER = """<!doctype html><body style="margin:0"><iframe id="f" style="border:0;width:{width}px;height:900px"
src="corpus.html"></iframe><script>
document.getElementById("f").onload = function () {{
  var d = this.contentDocument, w = this.contentWindow;
  document.title = JSON.stringify({{
    wide: d.documentElement.scrollWidth, view: w.innerWidth, pictures: d.images.length,
    broken: Array.from(d.images).filter(function (i) {{ return !i.complete || !i.naturalWidth; }}).length
  }});
}};</script></body>"""


@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_desktop_and_phone(width: int, stored: Path, tmp_path: Path) -> None:
    chromium = needs.browser()
    page_of(stored, tmp_path / "corpus.html")
    (tmp_path / "wrapper.html").write_text(WRAPPER.format(width=width))
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--allow-file-access-from-files"]
    command += ["--virtual-time-budget=5000", "--dump-dom", (tmp_path / "wrapper.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr[-2000:]
    seen = json.loads(title.group(1))
    assert seen["view"] == width
    assert seen["wide"] <= width, "the page is wider than the screen"
    assert (seen["pictures"], seen["broken"]) == (len(NAMES) * 3, 0)
