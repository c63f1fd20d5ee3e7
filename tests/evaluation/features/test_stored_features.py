"""Features from files of others: every layout gives the same rows, matched by name, and every mistake is named."""

from __future__ import annotations

import csv
import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from looping import each

from perturbations.base.errors import AnnotationError
from perturbations.evaluation.features import feature_reading
from perturbations.evaluation.features.feature_reading import rows_of_ids

CLIPS, TEXTS = ("clip_name", "clip_embeddings"), ("text", "text_embeddings")

NAMES = ["v_0_8", "v_20_28", "v_40_48", "v_20_28"]
"""The second name stands in two rows, as 1,860 of EgoCVR's do."""
VALUES = np.arange(4 * 3 * 2, dtype=np.float32).reshape(4, 3, 2)
VALUES[3] = VALUES[1] + 100


def lists(path: Path, names: Sequence[str], values: object, columns: tuple[str, str] = CLIPS) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(columns)
        rows = [str(row) for row in np.asarray(values).tolist()] if values is not None else [""] * len(names)
        table.writerows(zip(names, rows, strict=True))
    return path


def names_only(path: Path, names: Sequence[str] = NAMES) -> None:
    path.write_text("".join(f"{name}\n" for name in ("clip_name", *names)))


def as_csv(folder: Path, values: np.ndarray) -> Path:
    return lists(folder / "x.csv", NAMES, values)


def as_npy(folder: Path, values: np.ndarray) -> Path:
    names_only(folder / "x.csv")
    np.save(folder / "x.npy", values)
    return folder / "x.npy"


def as_npz(folder: Path, values: np.ndarray) -> Path:
    np.savez(folder / "x.npz", ids=np.array(NAMES), features=values)
    return folder / "x.npz"


def as_pt(folder: Path, values: np.ndarray) -> Path:
    torch = pytest.importorskip("torch")
    names_only(folder / "x.csv")
    torch.save(torch.from_numpy(values), folder / "x.pt")
    return folder / "x.csv"  # the official code is given the CSV and takes the tensor beside it


def as_safetensors(folder: Path, values: np.ndarray) -> Path:
    saving = pytest.importorskip("safetensors.numpy")
    names_only(folder / "x.csv")
    saving.save_file({"features": values}, folder / "x.safetensors")
    return folder / "x.safetensors"


def as_pt_of_both(folder: Path, values: np.ndarray) -> Path:
    torch = pytest.importorskip("torch")
    torch.save({"ids": NAMES, "features": torch.from_numpy(values)}, folder / "x.pt")
    return folder / "x.pt"


def as_parquet(folder: Path, values: np.ndarray) -> Path:
    pd.DataFrame({"id": NAMES, "features": values.tolist()}).to_parquet(folder / "x.parquet")
    return folder / "x.parquet"


LAYOUTS = [as_csv, as_npy, as_npz, as_pt, as_pt_of_both, as_safetensors, as_parquet]


@each("layout", LAYOUTS)
@each(
    ("values", "frames", "expected"),
    [
        (VALUES, "mean", VALUES.mean(axis=1)),
        (VALUES, "middle", VALUES[:, 1]),
        (VALUES[:, 2], "mean", VALUES[:, 2]),
        (VALUES[:, :1], "middle", VALUES[:, 0]),
    ],
)
def test_every_layout_gives_the_same_rows(
    tmp_path: Path,
    layout: Callable[[Path, np.ndarray], Path],
    values: np.ndarray,
    frames: feature_reading.PooledAs,
    expected: np.ndarray,
) -> None:
    held = feature_reading.read(layout(tmp_path, np.ascontiguousarray(values)), frames=frames)
    assert held.rows.dtype == np.float32
    assert np.array_equal(rows_of_ids(held, NAMES), expected)


def test_what_is_written_is_read_and_ids_repeat_only_where_that_is_told(tmp_path: Path) -> None:
    feature_reading.write(tmp_path / "x.npz", ["a", "b\n'ü"], VALUES[:2, 0])
    held = feature_reading.read(tmp_path / "x.npz").unique()
    assert held.ids == ("a", "b\n'ü")
    assert np.array_equal(held.rows, VALUES[:2, 0])
    saving = pytest.importorskip("safetensors.numpy")
    for ids, message in (
        (NAMES, "has ids in two rows: 'v_20_28'"),
        (["a"], "there are 1 ids"),
        (4, "no list of texts"),
    ):
        saving.save_file({"features": VALUES}, tmp_path / "x.safetensors", metadata={"ids": json.dumps(ids)})
        with pytest.raises(AnnotationError, match=message):
            feature_reading.read(tmp_path / "x.safetensors").unique()


def test_rows_are_found_by_name_and_refused_where_that_is_not_enough(tmp_path: Path) -> None:
    held = feature_reading.read(as_npz(tmp_path, VALUES[:, 0]))
    turned = ["v_20_28", "v_40_48", "v_20_28", "v_0_8"]
    assert np.array_equal(rows_of_ids(held, turned), VALUES[[1, 2, 3, 0], 0])
    fewer = feature_reading.StoredFeatures(held.path, ("more", *held.ids[:3]), held.rows)
    assert np.array_equal(rows_of_ids(fewer, NAMES), held.rows[[1, 2, 3, 2]])
    with pytest.raises(AnnotationError, match=r"x.npz has 2 rows of 'v_20_28' with different features"):
        rows_of_ids(held, NAMES[:3])
    held.rows[3] = held.rows[1] * 1.0001
    assert np.array_equal(rows_of_ids(held, NAMES[:3]), held.rows[:3])
    with pytest.raises(AnnotationError, match=r"x.npz does not have 2 of 3 clips: 'w_1_2', 'w_3_4'"):
        rows_of_ids(held, ["v_0_8", "w_1_2", "w_3_4"], "clips")


def test_the_file_that_is_named_is_read_whatever_lies_beside_it(tmp_path: Path) -> None:
    """A tensor belongs to a CSV of ids alone; where either could be meant, both are named."""
    beside = {"npz": as_npz(tmp_path, VALUES + 1), "csv": lists(tmp_path / "x.csv", NAMES, VALUES)}
    np.save(tmp_path / "x.npy", VALUES + 2)
    assert np.array_equal(feature_reading.read(beside["csv"]).rows, VALUES.mean(axis=1))
    assert np.array_equal(feature_reading.read(beside["npz"]).rows, (VALUES + 1).mean(axis=1))
    with pytest.raises(AnnotationError, match=r"x.npy has no ids, and .*x.csv has features of its own"):
        feature_reading.read(tmp_path / "x.npy")
    for listed in (NAMES, [f" {name}" for name in NAMES]):
        lists(tmp_path / "x.csv", listed, None)  # a column of features that is empty
        assert np.array_equal(feature_reading.read(tmp_path / "x.npy").rows, (VALUES + 2).mean(axis=1))
    names_only(tmp_path / "x.csv")
    (tmp_path / "x.npy").unlink()
    with pytest.raises(AnnotationError, match=r"x.csv has no features, and .*x.npz beside it has ids of its own"):
        feature_reading.read(tmp_path / "x.csv")
    beside["npz"].rename(tmp_path / "x.NPZ")
    assert np.array_equal(feature_reading.read(tmp_path / "x.NPZ").rows, (VALUES + 1).mean(axis=1))


def test_texts_are_found_by_themselves(tmp_path: Path) -> None:
    path = lists(tmp_path / "t.csv", ["Shake it.", " Take it, now.", "Shake it."], [[1, 2], [3, 4], [1, 2]], TEXTS)
    held = feature_reading.read(path)
    assert rows_of_ids(held, ["Take it, now.", *["Shake it."] * 3]).tolist() == [[3, 4], *[[1, 2]] * 3]
    with pytest.raises(AnnotationError, match=r"does not have 1 of 1 texts: 'Drop it.'"):
        rows_of_ids(held, ["Drop it."], "texts")
    again = lists(tmp_path / "u.csv", ["Shake it.", "Shake it."], [[1, 2], [1, 3]], TEXTS)
    with pytest.raises(AnnotationError, match="different features"):
        rows_of_ids(feature_reading.read(again), ["Shake it."])


@each(
    ("second", "message"),
    [
        ("[1.0, 2.0, 3.0]", r"line 3 \('v_20_28'\): 3 values, the rows before have 2"),
        ("[1.0, nan]", "no list of numbers"),
        ("[1.0, NaN]", "NaN, infinity"),
        ("[1.0, 1e39]", "NaN, infinity, or numbers that float32 cannot hold"),
        ("[1.0, 2.", "cut short"),
        ("", "cut short"),
        ("['a', 'b']", "no list of numbers"),
        ('["a", "b"]', "not numbers"),
        ("[true, false]", "not numbers"),
        ("[[1.0], [2.0, 3.0]]", "no list of numbers"),
        ("[]", "expected N x D"),
        ("[[[1.0, 2.0]]]", "expected N x D"),
        ("3", "expected N x D"),
        ("__import__('os')", "no list of numbers"),
        ("[" * 100_000, "no list of numbers"),
    ],
)
def test_wrong_lists_are_named_with_their_line(tmp_path: Path, second: str, message: str) -> None:
    path = tmp_path / "x.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([CLIPS, ("v_0_8", "[1.0, 2.0]"), ("v_20_28", second)])
    with pytest.raises(AnnotationError, match=message) as caught:
        feature_reading.read(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400


def test_tables_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for text, message in (
        ('clip_name,clip_embeddings\nv_0_8,"[1.0, 2.0]"\nv_20', "line 3: fields do not fit the header; .* cut short"),
        ("clip_name,features\na,[1]\n", "no column 'clip_embeddings'"),
        ("name,x\na,[1]\n", r"no column 'id' or 'clip_name' or 'text'; its header is \['name', 'x'\]"),
        ("x" * 200_000, "no column 'id'"),
        ("clip_name,clip_embeddings\n", "lists nothing"),
    ):
        path.write_text(text)
        with pytest.raises(AnnotationError, match=message):
            feature_reading.read(path)


def test_what_lacks_ids_or_lists_brings_the_form(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", features=VALUES)
    with pytest.raises(AnnotationError, match=r"numpy.savez\('x.npz', ids=ids, features=features\)"):
        feature_reading.read(tmp_path / "x.npz")
    (tmp_path / "y.csv").write_text("id,f0,f1\none,1,2\n")
    with pytest.raises(AnnotationError, match=r'A row is an id and a list of numbers, such as one,"\[0.1, 0.2\]"'):
        feature_reading.read(tmp_path / "y.csv")


def test_tensors_that_do_not_fit_their_names_are_refused(tmp_path: Path) -> None:
    path = as_npy(tmp_path, VALUES[:3])
    with pytest.raises(AnnotationError, match=r"x.npy has 3 rows, and there are 4 ids: one of them is cut short"):
        feature_reading.read(path)
    np.save(path, np.ones((7, 4)))
    with pytest.raises(AnnotationError, match=r"x.npy has 7 rows, and there are 4 ids: transpose its features"):
        feature_reading.read(path)
    (tmp_path / "x.csv").unlink()
    with pytest.raises(AnnotationError, match=r"x.npy has no ids: .*x.csv must list them, in the column id$"):
        feature_reading.read(path)
    names_only(tmp_path / "x.csv")
    (tmp_path / "x.npz").write_bytes(b"")
    with pytest.raises(AnnotationError, match="name one of the tensors beside it"):
        feature_reading.read(tmp_path / "x.csv")
    for name, message in (("x.pkl", "features are read from .csv, .parquet, .pt"), ("none.npz", "no such file")):
        (tmp_path / "x.pkl").write_bytes(b"")
        with pytest.raises(AnnotationError, match=message):
            feature_reading.read(tmp_path / name)
    for ids in (np.arange(4), np.array(NAMES, object), np.array([NAMES])):
        np.savez(tmp_path / "x.npz", ids=ids, features=VALUES)
        with pytest.raises(AnnotationError, match=r"x.npz cannot be read as features: .*save .*np.array\(ids, str\)"):
            feature_reading.read(tmp_path / "x.npz")
    pd.DataFrame({"id": [1, 2], "features": [[1.0], [2.0]]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(AnnotationError, match="x.parquet, row 0: the id is 1, not a text"):
        feature_reading.read(tmp_path / "x.parquet")


@pytest.mark.parametrize("values", [np.full((4, 2), np.nan), np.full((4, 2), "a"), np.ones(4), np.ones((4, 0))])
def test_values_that_are_no_features_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    with pytest.raises(AnnotationError, match=r"x.npy"):
        feature_reading.read(as_npy(tmp_path, values))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_that_are_cut_short_are_refused(tmp_path: Path, layout: Callable[[Path, np.ndarray], Path]) -> None:
    path = layout(tmp_path, VALUES)
    for file in tmp_path.glob("x.*"):
        if file.suffix != ".csv" or path == file:
            file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])
    with pytest.raises(AnnotationError):
        feature_reading.read(path)


def test_no_code_of_a_file_runs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    names_only(tmp_path / "x.csv")

    class Bad:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (tmp_path / "ran",)  # type: ignore[return-value]

    torch.save(Bad(), tmp_path / "x.pt")
    np.save(tmp_path / "x.npy", np.array([Bad()]), allow_pickle=True)
    np.savez(tmp_path / "x.npz", ids=np.array(NAMES), features=np.array([Bad()] * 4))
    for suffix in ("pt", "npy", "npz"):
        with pytest.raises(AnnotationError, match="cannot be read as features"):
            feature_reading.read(tmp_path / f"x.{suffix}")
    assert not (tmp_path / "ran").exists()


def test_torch_files_of_more_than_tensors_and_texts_are_told_what_to_save(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    rows, path = torch.zeros(4, 2), tmp_path / "x.pt"
    names = np.array(NAMES)
    for value in ({"ids": list(names), "features": rows}, {"ids": names, "features": rows}, VALUES, tmp_path):
        torch.save(value, path)
        with pytest.raises(AnnotationError, match=r"it holds Python objects, .*\[str\(name\) for name in ids\]$"):
            feature_reading.read(path)
    path.write_bytes(pickle.dumps({"ids": NAMES, "features": VALUES}))
    with pytest.raises(AnnotationError, match="it holds Python objects, which can be code"):
        feature_reading.read(path)
    torch.save({"ids": torch.arange(4), "features": rows}, path)
    with pytest.raises(AnnotationError, match=r"`ids` is no list of texts; save .*\[str\(name\) for name in ids\]$"):
        feature_reading.read(path)


def test_torch_files_that_would_grow_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    names_only(tmp_path / "x.csv")
    path = tmp_path / "x.pt"
    for value, message in (
        (torch.zeros(1, 1).expand(4, 10**12), "expected N x D"),
        (
            {"embeddings": torch.zeros(4, 2)},
            r"it holds a dict of \['embeddings'\]; save a plain tensor, or a dictionary",
        ),
        (torch.zeros(4, 2).to_sparse(), "it holds a sparse or quantized tensor; save a plain tensor"),
    ):
        torch.save(value, path)
        with pytest.raises(AnnotationError, match=message):
            feature_reading.read(path)


def test_lists_of_the_official_code_older_torch_files_and_half_precision_are_read(tmp_path: Path) -> None:
    """Its CSVs hold Python's text of nested lists, which is JSON for finite numbers."""
    values = [[1e-07, -3.0], [12345678.9, 5e20]]
    assert json.loads(str(values)) == values
    held = feature_reading.read(lists(tmp_path / "x.csv", ["a", "b"], values))
    assert held.rows.tolist() == np.float32(values).tolist()
    torch = pytest.importorskip("torch")
    names_only(tmp_path / "x.csv")
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        torch.save(torch.from_numpy(VALUES).to(dtype), tmp_path / "x.pt", _use_new_zipfile_serialization=False)
        assert np.array_equal(feature_reading.read(tmp_path / "x.pt", frames="middle").rows, VALUES[:, 1])
