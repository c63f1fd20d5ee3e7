"""Kinds of manifests: declared once, in one file; whoever lists manifests knows them from there."""

from __future__ import annotations

from pathlib import Path

import shelves

from perturbations.manifest.kinds import FILES

NEW = '''
"""The names of clips."""
from dataclasses import dataclass

from perturbations.manifest.kind import ManifestFile, RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleRow:
    """A clip's name."""

    item_id: str
    title: str | None = None


def of_sources(sources):
    """A name for each clip."""
    return [TitleRow(item_id=row.item_id, title=f"the clip {row.item_id}") for row in sources]


KIND = RowKind(
    "titles",
    TitleRow,
    ("item_id",),
    files={
        "titles": ManifestFile(
            path="manifests/{dataset}/titles.parquet",
            exported=True,
        )
    },
)
'''

USED = """
from pathlib import Path
from perturbations.exports import recipe_tables
from perturbations.manifest import files, layout, schemas
from perturbations.manifest.kinds import KINDS, SOURCES, SourceRow
from perturbations.manifest.kinds.titles import KIND, TitleRow
from perturbations.verify import checking

path = Path(layout.at("titles", dataset="d"))
sources = path.with_name(layout.name("sources"))
assert layout.place_of(str(path)) == layout.Place("titles", {"dataset": "d"})
assert schemas.schema_of(KINDS["titles"]).names == ["item_id", "title"]
rows = [SourceRow(dataset="d", split="", item_id=name, status="missing") for name in "ab"]
files.write(sources, SOURCES, rows, {"root": "../.."})
files.write(path, KIND, [TitleRow(item_id="a", title="the clip a")] * 2, {"root": "../.."})
checked = checking.check_manifest(path, checking.Options())
assert [str(finding) for finding in checked.findings] == [f"{path}: a: the row is there twice"]
assert "titles.parquet" in recipe_tables.near(path.parent / "mlvp" / layout.name("videos"), Path(), [])
print("known")
"""


def test_a_new_kind_of_manifest_is_one_file(tmp_path: Path) -> None:
    root = shelves.copy_with(tmp_path / "copy", {"perturbations/manifest/kinds/titles.py": NEW})
    (folder := tmp_path / "run").mkdir()
    assert shelves.run(root, "-c", USED, folder=folder) == "known\n"


def test_every_manifest_is_explained() -> None:
    page = (shelves.ROOT / "manifests/README.md").read_text(encoding="utf-8")
    names = {Path(file.path).name for file in FILES.values()} - {"{analysis}.parquet"}
    assert not [name for name in names if name not in page and f"`{Path(name).stem}`" not in page]
