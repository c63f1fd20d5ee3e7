"""Examples of pages for the site: of a corpus of one synthetic clip, and of an evaluation.

The results in docs/examples are kept from a run of `tta_demo`: 56 synthetic clips under four perturbations of MLVP.
"""

from __future__ import annotations

import json
import re
import tempfile
from functools import cache
from pathlib import Path

from perturbations.corpus.jobs import clip_jobs
from perturbations.corpus.plan import recipe, tiers
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.corpus.store import clip_rows
from perturbations.demo import train_encoder as demo
from perturbations.evaluation.page import evaluation_page
from perturbations.manifest import files
from perturbations.manifest.rows import SOURCES, VIDEOS, VideoRow
from perturbations.pages.corpus_page import corpus_page
from perturbations.suites import suite_registry

RESULTS = Path(__file__).parent / "examples"
_CLIP = "demo-0000"
_SEVERITIES = (1, 3, 5)


@cache
def pages() -> dict[str, str]:
    """The text of each file, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _corpus(root)
        evaluation_page.write(
            root / "report.html", results=[RESULTS / "results.parquet"], ranks=[RESULTS / "ranks.parquet"]
        )
        paths = [root / "corpus.html", root / "report.html", *sorted((root / "report.tables").iterdir())]
        texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    # What a run has beside its page is not part of the site.
    texts["corpus.html"] = re.sub("<nav .*?</nav>", "", texts["corpus.html"], count=1, flags=re.DOTALL)
    return texts


def _corpus(root: Path) -> None:
    """The page of a drawn clip under the perturbations of MLVP that need no guide."""
    listed = ListedClip(item_id=_CLIP, source_video_id=_CLIP, path=str(root / f"{_CLIP}.mp4"))
    demo.draw(_CLIP, Path(listed.path))
    sources = root / "sources.parquet"
    files.write(sources, SOURCES, [clip_rows.source_row("demo", listed)])
    rows: list[VideoRow] = []
    for entry in suite_registry.perturbations("mlvp", "video"):
        for severity in _SEVERITIES if entry.guide is None else ():
            wanted = recipe.make(entry, severity, seed=0, storage=tiers.UNSTORED)
            part = root / entry.name / f"{severity}.parquet"
            part.parent.mkdir(exist_ok=True)
            clip_jobs.videos(recipe=json.loads(wanted.text), sources=sources, output=[part], timeout_s=600)
            rows += files.read_rows(part, VIDEOS)
    files.write(root / "videos.parquet", VIDEOS, rows, {"root": ".", "dataset": "demo", "suite": "mlvp"})
    corpus_page(root / "videos.parquet", root / "corpus.html")
