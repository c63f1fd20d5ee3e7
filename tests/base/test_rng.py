"""Generators: what their key holds, what it leaves out, and that nothing else makes one."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import perturbations
from perturbations.base import rng

KEY = (7, "demo", "clip", "mlvp/fog")


def stream(*key: object) -> bytes:
    return rng.generator(*key).bytes(32)


def test_the_seed_is_the_hash_of_the_canonical_key() -> None:
    # printf '[7,"demo","clip","mlvp/fog",null]' | sha256sum
    digest = "672d13631b622beca2add85e88130918cb10761a3cfbe6c09112f39c9a534170"
    expected = np.random.PCG64(int(digest, 16))
    assert rng.generator(*KEY).bit_generator.state == expected.state
    # A NumPy whose generators draw otherwise makes other corpora: it must not pass unnoticed.
    generator = rng.generator(*KEY)
    assert generator.integers(0, 1 << 32, 3).tolist() == [3385811737, 46674133, 3780598019]
    assert generator.standard_normal(3, dtype=np.float32).tolist() == pytest.approx(
        [-0.132499039, -0.819596946, 0.484448612], rel=1e-6
    )
    assert generator.random(2, dtype=np.float32).tolist() == pytest.approx([0.56527555, 0.869101226], rel=1e-6)
    assert generator.random(2).tolist() == pytest.approx([0.3702626665319878, 0.17989582733818432], rel=1e-12)
    assert generator.uniform(-135, -45) == pytest.approx(-126.90443189026442, rel=1e-12)


def test_equal_keys_give_equal_streams_and_leave_the_global_generator_alone() -> None:
    assert stream(*KEY) == stream(*KEY) == stream(*KEY, None)
    before = np.random.get_state()[1].tolist()
    rng.generator(*KEY).random(100)
    assert np.random.get_state()[1].tolist() == before


@pytest.mark.parametrize(
    "other",
    [
        (8, "demo", "clip", "mlvp/fog"),
        (7, "other", "clip", "mlvp/fog"),
        (7, "demo", "clip2", "mlvp/fog"),
        (7, "demo", "clip", "mlvp/snow"),
        (7, "demo", "clip", "other/fog"),
        (7, "demo", "clip", "mlvp/fog", 0),
        (7, "democlip", "", "mlvp/fog"),
        (7, "demo", 'clip","mlvp/fog', "mlvp/fog"),
        (7, "demo", "clip\u0301", "mlvp/fog"),
    ],
)
def test_each_part_of_the_key_counts(other: tuple[object, ...]) -> None:
    assert stream(*other) != stream(*KEY)


def test_every_frame_and_any_item_has_a_stream_of_its_own() -> None:
    streams = {stream(7, "demo", str(item), "mlvp/fog", frame) for item in range(20) for frame in (None, *range(20))}
    assert len(streams) == 20 * 21
    ids = ["", "ключ", "日本", "a\nb", "a\x00b", "\udc80"]  # the last: a file name that is no UTF-8
    assert len({stream(0, "demo", item_id, "mlvp/fog") for item_id in ids}) == len(ids)


def test_generators_are_born_nowhere_else() -> None:
    package = Path(perturbations.__file__).parent
    born = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _makes_random_numbers(node)
    }
    # A scene follows from its number, and an order of frames from the number that was drawn for the clip.
    assert born == {"base/rng.py", "demo/film.py", "video/control_frames.py"}


def _makes_random_numbers(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(name.name in ("random", "secrets", "numpy.random") for name in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module in ("random", "secrets", "numpy.random")
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("np.random.", "numpy.random."))
