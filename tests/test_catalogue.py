"""The catalogue in docs/catalogue: up to date, complete, and its pictures those of the kernels."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import catalogue_pages as catalogue
import numpy as np
import pytest

from perturbations.suites import registry
from perturbations.suites.registry import Perturbation

REPOSITORY = Path(__file__).parents[1]
FOLDER = REPOSITORY / "docs" / "catalogue"
VIDEO = registry.perturbations(kind="video")
PAGES = sorted(path.name for path in FOLDER.glob("*.md"))

each_page = pytest.mark.parametrize("name", PAGES)
each_picture = pytest.mark.parametrize("entry", VIDEO, ids=lambda entry: entry.key)


def test_the_catalogue_is_up_to_date() -> None:
    assert not catalogue.stale(FOLDER), "run: python docs/generate.py"


# --- the text --------------------------------------------------------------------------------------------------------


def test_every_perturbation_is_on_its_suite_s_page_and_every_page_in_the_index() -> None:
    index = (FOLDER / "README.md").read_text("utf-8")
    for suite in registry.suites().values():
        assert f"]({suite.name}.md)" in index
        for entry in suite.perturbations:
            page = FOLDER / (f"{suite.name}.md" if entry.kind == "video" else "../catalogue_text.md")
            assert f"\n### {entry.name}\n" in page.read_text("utf-8")


@each_picture
def test_a_section_says_what_the_declaration_says(entry: Perturbation) -> None:
    section = section_of(entry)
    head = (FOLDER / f"{entry.suite}.md").read_text("utf-8").partition("\n## ")[0]  # what all sections share
    assert entry.source in head + section
    assert catalogue.picture_path(entry) in section
    for form in entry.forms():
        assert form.differences in section
        for severity in form.severities:
            for name, value in form.parameters(severity).items():
                assert cells(section, name, form.variant)[severity - 1] == pytest.approx(value)


def section_of(entry: Perturbation) -> str:
    page = (FOLDER / f"{entry.suite}.md").read_text("utf-8")
    return page.partition(f"\n### {entry.name}\n")[2].partition("\n### ")[0]


def cells(section: str, name: str, variant: str) -> list[str | float]:
    """A parameter's row, of the variant where the variants differ."""
    rows = dict(line.removeprefix("- ").split(": ", 1) for line in section.splitlines() if line.startswith("- `"))
    row = rows.get(f"`{name}`, {variant}") or rows[f"`{name}`"]
    return [as_number(cell) for cell in row.split()]


def as_number(cell: str) -> str | float:
    return float(cell) if re.fullmatch(r"-?[\d.]+(e-?\d+)?", cell) else cell


@each_page
def test_tables_have_as_many_cells_in_every_line(name: str) -> None:
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    for line, following in pairwise(lines):
        if line.startswith("|") and following.startswith("|"):
            assert line.count("|") == following.count("|"), following


# --- the pictures ----------------------------------------------------------------------------------------------------


@each_picture
def test_a_picture_shows_every_severity(entry: Perturbation) -> None:
    path = FOLDER / catalogue.picture_path(entry)
    image = catalogue.decoded(path)
    assert image is not None
    # Six frames of 106 x 120 pixels a cell, two lines of three; or a frame, and a detail of it below.
    widest, tallest = (238, 120) if entry.method == "temporal" else (160, 2 * 120 + 3)
    header, border, gap, columns = 22, 8, 3, 1 + len(entry.severities)
    assert image.shape == (tallest + header + 2 * border, columns * (widest + gap) - gap + 2 * border, 3)
    assert path.stat().st_size <= 35_000


def test_the_folder_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 1_800_000


REDRAWN = ["mlvp/fog", "mlvp/temporal_scrambling", "msrvtt_p/rotate", "msrvtt_p/mpeg2", "mm_robustness/pixelate"]


@pytest.mark.parametrize("key", REDRAWN)
def test_a_picture_is_what_the_kernels_make(key: str, clips: list[dict[str, object]], tmp_path: Path) -> None:
    entry = registry.get(key)
    drawn = tmp_path / "drawn.webp"
    drawn.write_bytes(catalogue.encoded(catalogue.strip(entry, clips)))
    ours, committed = catalogue.decoded(drawn), catalogue.decoded(FOLDER / catalogue.picture_path(entry))
    assert ours is not None
    assert committed is not None
    assert psnr(ours, committed) > 30


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    return catalogue.clips(tmp_path_factory.mktemp("clips"))


def psnr(first: np.ndarray, second: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / max(np.mean((first.astype(float) - second) ** 2), 1e-9)))


# --- what goes stale, and how it is mended ---------------------------------------------------------------------------


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Leaves two perturbations in the registry, the first with these attributes."""

    first, second = registry.get("mlvp/impulse_noise"), registry.get("msrvtt_p/freeze")
    known = dict(registry.suites())

    def declare(**changed: object) -> None:
        shown = [dataclasses.replace(first, **changed), second]  # type: ignore[arg-type]
        suites = {entry.suite: dataclasses.replace(known[entry.suite], perturbations=(entry,)) for entry in shown}
        monkeypatch.setattr(registry, "suites", lambda: suites)

    declare()
    return declare


def test_a_change_is_found_and_only_what_it_concerns_is_written(tmp_path: Path, two: Callable[..., None]) -> None:
    folder = tmp_path / "catalogue"
    assert catalogue.stale(folder)
    assert not folder.exists()
    assert set(catalogue.write(folder)) >= {"mlvp.md", "pictures/mlvp/impulse_noise.webp"}
    assert catalogue.stale(folder) == []
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    picture, other = folder / "pictures/mlvp/impulse_noise.webp", folder / "pictures/msrvtt_p/freeze.webp"
    assert {picture, other} <= set(before)

    two(summary="pepper and salt")
    assert catalogue.stale(folder)
    assert list(catalogue.write(folder)) == ["mlvp.md"]

    two(summary="pepper and salt", version=2)
    assert "pictures/mlvp/impulse_noise.webp: must be drawn again" in catalogue.stale(folder)
    assert list(catalogue.write(folder)) == ["mlvp.md", "pictures/mlvp/impulse_noise.webp"]
    assert picture.read_bytes() == before[picture]  # the version is new, the kernel is not

    two(by_severity=tuple({"amount": amount} for amount in (0.1, 0.2, 0.3, 0.4, 0.5)))
    list(catalogue.write(folder))
    assert picture.read_bytes() != before[picture]
    assert other.read_bytes() == before[other]
    assert catalogue.stale(folder) == []


def test_what_is_damaged_or_left_over_is_found_and_mended(tmp_path: Path, two: Callable[..., None]) -> None:
    list(catalogue.write(tmp_path))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    picture = tmp_path / "pictures/mlvp/impulse_noise.webp"
    picture.write_bytes(b"")
    old = picture.with_name("rain.webp")
    old.write_bytes(before[picture])
    kept = tmp_path / "notes.md"
    kept.write_text("not the catalogue's\n")
    with (tmp_path / "mlvp.md").open("a") as page:
        page.write("a word by hand\n")
    output = "\n".join(catalogue.stale(tmp_path))
    assert all(name in output for name in ("impulse_noise.webp", "rain.webp", "mlvp.md"))
    assert "notes.md" not in output
    list(catalogue.write(tmp_path))
    kept.unlink()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
