"""Contact sheets: where the pictures and words are, and PNG files that are whole or absent."""

from __future__ import annotations

import resource
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from perturbations.base.errors import OutputError
from perturbations.manifest import files
from perturbations.manifest.rows import VIDEOS
from perturbations.pages import preview_sheet
from perturbations.pages.contact_sheet import contact_sheet, write_picture

Image = NDArray[np.uint8]
RED, GREEN, BLUE = (200, 0, 0), (0, 180, 0), (0, 0, 190)


def _plain(height: int, width: int, colour: tuple[int, int, int] = RED) -> Image:
    return np.full((height, width, 3), colour, np.uint8)


def _read(path: Path) -> Image:
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    assert image is not None
    return np.asarray(image[:, :, ::-1], np.uint8)


def _box(sheet: Image, colour: tuple[int, int, int]) -> tuple[int, int, int, int]:
    """(top, left, height, width) of the pixels of that colour, which must fill their rectangle."""
    rows, columns = np.nonzero((sheet == colour).all(axis=2))
    top, left, height, width = int(rows.min()), int(columns.min()), int(np.ptp(rows)) + 1, int(np.ptp(columns)) + 1
    assert rows.size == height * width
    return top, left, height, width


def test_cells_line_up_in_rows_and_columns() -> None:
    colours = [[(200, 10 * row, 10 * column) for column in range(3)] for row in range(2)]
    rows = [(f"row {number}", [_plain(60, 80, colour) for colour in line]) for number, line in enumerate(colours)]
    sheet = contact_sheet(rows, ["a", "b", "c"], cell_height=60)
    places = np.array([[_box(sheet, colour) for colour in line] for line in colours])
    assert np.all(places[..., 2:] == (60, 80))
    assert np.all(np.ptp(places[..., 0], axis=1) == 0)
    assert np.all(np.ptp(places[..., 1], axis=0) == 0)
    assert len(set(np.diff(places[0, :, 1]))) == 1
    assert places[1, 0, 0] >= places[0, 0, 0] + 60
    assert places[0, 1, 1] >= places[0, 0, 1] + 80
    assert np.all(sheet[[0, -1]] == 255)
    assert np.all(sheet[:, [0, -1]] == 255)


def test_images_keep_their_shape_in_a_common_cell() -> None:
    images = [_plain(100, 200, RED), _plain(100, 50, GREEN), _plain(37, 37, BLUE), None]
    sheet = contact_sheet([("x", images)], ["a", "b", "c", "d"], cell_height=50)
    boxes = [_box(sheet, colour) for colour in (RED, GREEN, BLUE)]
    assert [box[2:] for box in boxes] == [(50, 100), (50, 25), (50, 50)]
    middles = [left + width / 2 for _, left, _, width in boxes]
    assert np.diff(middles) == pytest.approx([103, 103], abs=1)
    image = np.random.default_rng(0).integers(0, 256, (40, 53, 3), np.uint8)
    sheet = contact_sheet([("", [image])], [""], cell_height=40)
    assert np.array_equal(sheet[8:48, 8:61], image), "of the cell's size, it is not scaled"
    assert _box(contact_sheet([("", [_plain(10, 1000)])], [""], cell_height=40), RED)[2:] == (2, 160)


def test_every_text_is_drawn_in_its_own_place() -> None:
    def drawn(label: str = "one", column: str = "clean", title: str = "demo") -> Image:
        rows = [(label, [_plain(60, 80)]), ("two", [_plain(60, 80)])]
        return contact_sheet(rows, [column], cell_height=60, title=title)

    plain = drawn()
    top, left, *_ = _box(plain[:100], RED)
    for changed, place in (
        (drawn(label="eno"), np.s_[top : top + 60, :left]),
        (drawn(column="cloan"), np.s_[28:top, left:]),
        (drawn(title="dema"), np.s_[:28]),
    ):
        assert changed.shape == plain.shape
        difference = (changed != plain).any(axis=2)
        assert 3 < difference.sum() == difference[place].sum()


@settings(max_examples=60)
@example(label="a\udcffb\x00\x1b\n", title="\ud800")
@given(label=st.text(st.characters(), max_size=40), title=st.text(st.characters(), max_size=40))
def test_no_text_breaks_the_sheet(label: str, title: str) -> None:
    """Lone surrogates are in file names that are not UTF-8."""
    sheet = contact_sheet([(label, [_plain(30, 40)])], [title], cell_height=30, title=title)
    assert _box(sheet, RED)[2:] == (30, 40)


def test_long_texts_are_wrapped_and_cut() -> None:
    short = contact_sheet([("a", [_plain(90, 120)])], ["a"], cell_height=90)
    long = contact_sheet([("word " * 500, [_plain(90, 120)])], ["name" * 500], cell_height=90, title="title" * 500)
    top, left, *size = _box(long, RED)
    assert tuple(size) == _box(short, RED)[2:]
    assert long.shape[1] <= short.shape[1] + 800
    assert long.shape[0] <= short.shape[0] + 120, "three lines of a title, and of names"
    dark_rows = np.nonzero((long[top : top + 90, :left] < 128).any(axis=(1, 2)))[0]
    assert np.ptp(dark_rows) > 50  # several lines
    assert np.all(long[:, -8:] == 255)
    assert np.all(long[:, :8] == 255)


def test_nothing_to_show_is_still_a_sheet(tmp_path: Path) -> None:
    assert np.all(contact_sheet([], []) == 255)
    files.write(tmp_path / "x.parquet", VIDEOS, [], {"dataset": "d"})
    preview_sheet.preview(tmp_path / "x.parquet", tmp_path / "sheet.png")
    picture = _read(tmp_path / "sheet.png")
    assert picture.shape[1] > 300
    assert picture.min() < 100, "there is text on it"


def test_png_round_trip_is_exact(tmp_path: Path) -> None:
    image = np.random.default_rng(1).integers(0, 256, (33, 47, 3), np.uint8)
    path = tmp_path / "new" / "folder" / "sheet.png"
    write_picture(image, path)
    assert np.array_equal(_read(path), image)
    assert [entry.name for entry in path.parent.iterdir()] == ["sheet.png"]
    write_picture(image[::2, ::-1], path)
    assert np.array_equal(_read(path), image[::2, ::-1]), "a view, over a file"


@pytest.mark.parametrize("in_the_way", ["sheet.png/inside", "file"])
def test_what_is_in_the_way_is_an_output_error(in_the_way: str, tmp_path: Path) -> None:
    (tmp_path / in_the_way).parent.mkdir(exist_ok=True)
    (tmp_path / in_the_way).touch()
    path = tmp_path / "file" / "sub" / "sheet.png" if in_the_way == "file" else tmp_path / "sheet.png"
    with pytest.raises(OutputError) as raised:
        write_picture(_plain(4, 4), path)
    assert str(path) in str(raised.value)
    assert [str(entry.relative_to(tmp_path)) for entry in tmp_path.rglob("*") if entry.is_file()] == [in_the_way]


@pytest.mark.parametrize("ending", [".jpg", ".png", ".webp"])
def test_a_picture_that_the_disk_takes_a_part_of_is_an_error(ending: str, tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (100, 100, 3), np.uint8)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # of a file, as a full disk
    try:
        with pytest.raises(OutputError, match=f"cannot write .*x{ending}"):
            write_picture(image, tmp_path / f"x{ending}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
