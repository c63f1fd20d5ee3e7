"""The catalogue: complete, true to the declarations, and its pictures those of the kernels."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import catalogue_pages as catalogue
import cv2
import pytest

from perturbations.suites import suite_registry
from perturbations.suites.suite_registry import Perturbation

PAGES = catalogue.pages()
VIDEO = suite_registry.perturbations(kind="video")


def test_every_perturbation_is_on_its_suite_s_page_and_every_page_in_the_index() -> None:
    for suite in suite_registry.suites().values():
        page = PAGES[f"{suite.name}.md"]
        assert f"]({suite.name}.md)" in PAGES["README.md"]
        for entry in suite.perturbations:
            assert f"\n### {entry.name}\n" in page or f"\n|{entry.name}|{entry.category}|" in page
            assert entry.source in page
            assert all(form.differences in page for form in entry.forms())


@pytest.mark.parametrize("entry", VIDEO, ids=lambda entry: entry.key)
def test_a_section_has_the_numbers_of_each_variant(entry: Perturbation) -> None:
    section = PAGES[f"{entry.suite}.md"].partition(f"\n### {entry.name}\n")[2].partition("\n### ")[0]
    rows = dict(line.removeprefix("- ").split(": ", 1) for line in section.splitlines() if line.startswith("- `"))
    for form in entry.forms():
        for severity in form.severities:
            for name, value in form.parameters(severity).items():
                shown = (rows.get(f"`{name}`, `{form.variant}`") or rows[f"`{name}`"]).split()
                cell = shown[0] if len(shown) == 1 else shown[severity - 1]
                assert float(cell) == pytest.approx(value) if isinstance(value, float) else cell == str(value)


@pytest.mark.parametrize("name", PAGES)
def test_tables_have_as_many_cells_in_every_line(name: str) -> None:
    for line, following in pairwise(PAGES[name].replace("\\|", "").splitlines()):
        if line.startswith("|") and following.startswith("|"):
            assert line.count("|") == following.count("|"), following


def test_pictures_are_drawn_once_and_again_for_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "PICTURES", tmp_path)
    frames, order = suite_registry.get("mlvp/impulse_noise"), suite_registry.get("msrvtt_p/freeze")
    drawn = list(catalogue.draw([frames, order]))
    assert drawn == [catalogue.picture_of(frames), catalogue.picture_of(order)]
    assert list(catalogue.draw([frames, order])) == []
    assert f"]({drawn[0].name})" in catalogue.pages()["mlvp.md"]
    for path, cell in zip(drawn, (160, 240), strict=True):  # six frames of 80 x 60 pixels, two lines of three
        height, width, _ = cv2.imread(str(path)).shape
        assert (height > 120, 6 * cell < width < 7 * cell) == (True, True)
    object.__setattr__(frames, "version", frames.version + 1)
    try:
        assert not catalogue.picture_of(frames).exists()
    finally:
        object.__setattr__(frames, "version", frames.version - 1)
