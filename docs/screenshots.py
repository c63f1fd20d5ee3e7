"""The screenshots of README: `python docs/screenshots.py RUN LOG`, after a run whose lines went to the file LOG.

`docs/page.webp` is the page of the demo's corpus below RUN, in Chromium; `docs/terminal.svg` the lines as they were
printed. Nothing else is drawn, so that both show what a reader will see.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

from PIL import Image

DOCS = Path(__file__).parent
PAGE = "manifests/demo/mlvp/corpus.html"
_SIZE = 1280, 860
_COLUMNS, _LINE = 104, 17


def page(run: Path) -> None:
    """The first screen of the corpus's page."""
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder, "page.png")
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000")
        size = f"--window-size={_SIZE[0]},{_SIZE[1]}"
        url = (run / PAGE).resolve().as_uri()
        subprocess.run(["chromium", *options, size, f"--screenshot={shot}", url], check=True, capture_output=True)
        Image.open(shot).convert("RGB").save(DOCS / "page.webp", quality=70, method=6)


def terminal(log: Path) -> None:
    """The lines of a run, cut at the width of a terminal."""
    lines = [line[:_COLUMNS] for line in log.read_text(encoding="utf-8").splitlines()]
    height = _LINE * len(lines) + 24
    rows = [
        f'<text x="14" y="{24 + _LINE * number}" xml:space="preserve">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {8 * _COLUMNS + 20} {height}" font-size="13" '
        'font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" fill="#e6e6e6">',
        "<title>What a run prints</title>",
        f'<rect width="{8 * _COLUMNS + 20}" height="{height}" rx="6" fill="#1e1e24"/>',
    ]
    (DOCS / "terminal.svg").write_text("\n".join([*head, *rows, "</svg>"]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    page(Path(sys.argv[1]))
    terminal(Path(sys.argv[2]))
