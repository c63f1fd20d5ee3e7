"""The pictures of README: `python docs/screenshots.py RUN`, where RUN is the folder of a demo's run.

`docs/mlvp.webp` is a frame of the demo's first clip, clean and under perturbations of MLVP; `docs/page.webp` the page
of its corpus, in Chromium.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from perturbations import Corpus

DOCS = Path(__file__).parent
CORPUS = "manifests/demo/mlvp"
_SEVERITY, _COLUMNS, _WIDE, _TALL, _LINE, _GAP = 4, 6, 200, 150, 20, 6
_SCREEN = 1280, 860


def frames(run: Path) -> None:
    """One frame per perturbation that a single frame shows."""
    rows = Corpus(run / CORPUS).where(severity=_SEVERITY)
    clips = [clip for clip in rows if clip.item_id == rows[0].item_id and clip.perturbation != "temporal_scrambling"]
    cells = [("clean", rows[0].clean), *((clip.perturbation, clip) for clip in clips)]
    lines = -(-len(cells) // _COLUMNS)
    sheet = Image.new("RGB", (_COLUMNS * (_WIDE + _GAP) - _GAP, lines * (_TALL + _LINE + _GAP) - _GAP), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.truetype("DejaVuSans.ttf", 13)
    for index, (name, clip) in enumerate(cells):
        x, y = index % _COLUMNS * (_WIDE + _GAP), index // _COLUMNS * (_TALL + _LINE + _GAP)
        images = clip.frames()
        place = len(images) * 2 // 3 if name == "event_insertion" else len(images) // 2
        sheet.paste(Image.fromarray(np.asarray(images[place])).resize((_WIDE, _TALL), Image.Resampling.LANCZOS), (x, y))
        draw.text((x + _WIDE // 2, y + _TALL + 3), name.replace("_", " "), fill="#333", font=font, anchor="ma")
    sheet.save(DOCS / "mlvp.webp", quality=82, method=6)


def page(run: Path) -> None:
    """The first screen of the corpus's page."""
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder, "page.png")
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000")
        options += ("--force-prefers-reduced-motion",)  # stills, all of one moment
        size = f"--window-size={_SCREEN[0]},{_SCREEN[1]}"
        url = (run / CORPUS / "corpus.html").resolve().as_uri()
        subprocess.run(["chromium", *options, size, f"--screenshot={shot}", url], check=True, capture_output=True)
        Image.open(shot).convert("RGB").save(DOCS / "page.webp", quality=70, method=6)


if __name__ == "__main__":
    frames(Path(sys.argv[1]))
    page(Path(sys.argv[1]))
