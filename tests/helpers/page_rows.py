"""Rows of a small corpus for its page."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import clips
import needs
import numpy as np
import pytest
from PIL import Image

from perturbations.corpus.plan import recipe, tiers
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.corpus.store import clip_rows
from perturbations.manifest import files
from perturbations.manifest.rows import CAPTIONS, SOURCES, VIDEOS, CaptionRow, CompleteSource, VideoRow
from perturbations.suites import suite_registry

OF_VIDEOS = re.compile(r"(?i)(?<![/`])\b(?:clips?|videos?)\b(?![/.])")
"""Words that are wrong where the items are pictures; in a path or a column's name they are right."""


DRAWN = np.random.default_rng(0).integers(0, 256, (24, 40, 3), np.uint8)


def saved(path: Path, picture: Image.Image, **options: Any) -> Path:
    picture.save(path, **options)
    return path


def rows_of(
    folder: Path, storage: tiers.Storage, monkeypatch: pytest.MonkeyPatch, name: str = "photo.jpg"
) -> tuple[CompleteSource, VideoRow]:
    """The rows of a picture and of what pixelation makes of it, in manifests; no encoder of videos may start."""
    monkeypatch.setattr("av.open", lambda *_, **__: pytest.fail("PyAV was opened for a picture"))
    path = saved(folder / name, Image.fromarray(DRAWN).resize((80, 48)), quality=95)
    clip = ListedClip(item_id="photo", source_video_id="photo", path=str(path))
    source = clip_rows.source_row("pictures", clip)
    job = recipe.make(suite_registry.get("mm_robustness/pixelate"), 3, seed=0, storage=storage)
    places = {"root": folder, "folder": folder / "corpora", "part": folder / "work/j.parquet"}
    (row,) = clips.video_rows(job, [source], **places)
    about = {"root": "../.."}
    files.write(folder / "manifests/pictures/sources.parquet", SOURCES, [source], about)
    captions = [
        CaptionRow(dataset="pictures", caption_id=f"photo#{number}", item_id="photo", text=f"noise {number}")
        for number in range(5)
    ]
    files.write(folder / "manifests/pictures/captions.parquet", CAPTIONS, captions, about)
    files.write(folder / "manifests/pictures/mm_robustness/videos.parquet", VIDEOS, [row], {"root": "../../.."})
    return source, row


_QUIET = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")


def browsed(folder: Path, wrapper: str, budget_ms: int, scheme: str = "light") -> Any:
    """The JSON in the title of a page that is written to `folder`, after some time; skips without a browser."""
    (folder / "wrapper.html").write_text(wrapper)
    command = [needs.browser(), "--headless", "--no-sandbox", "--disable-gpu", *_QUIET]
    command += [f"--user-data-dir={folder / 'profile'}", "--allow-file-access-from-files"]
    command += [f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"]
    command += [f"--virtual-time-budget={budget_ms}", "--dump-dom", (folder / "wrapper.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr[-2000:]
    return json.loads(html.unescape(title.group(1)))
