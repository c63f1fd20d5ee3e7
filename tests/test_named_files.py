"""Files that pages and docstrings name are there."""

from __future__ import annotations

import re
from pathlib import Path

import needs
import pytest

ROOT = Path(__file__).parents[1]
FILE = re.compile(
    r"(?<![\w/.<-])((?:perturbations|benchmarks|workflow|docs|envs|tests)/[\w./-]+\.(?:py|md|csv|yaml|smk|json|sh))"
)
TEXTS = sorted(
    path
    for pattern in (
        "docs/**/*.md",
        "*.md",
        "manifests/README.md",
        "perturbations/**/*.py",
        "workflow/**/*.smk",
        "benchmarks/*.py",
    )
    for path in ROOT.glob(pattern)
    # What a newcomer writes is not there; a changelog tells of what was.
    if "how-to/add-" not in str(path) and path.name != "CHANGELOG.md"
)


def test_texts_are_looked_at() -> None:
    assert len(TEXTS) > 300


@needs.wings(*needs.WINGS)
@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in TEXTS}), ids=lambda path: str(path.relative_to(ROOT))
)
def test_named_files_are_there(folder: Path) -> None:
    named = {
        (path.name, name)
        for path in TEXTS
        if path.parent == folder
        for name in FILE.findall(path.read_text(encoding="utf-8"))
    }
    assert {(where, name) for where, name in named if not (ROOT / name).exists()} == set()
