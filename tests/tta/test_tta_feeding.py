"""How queries reach the device, and how often the program waits for it: the paths of a GPU, here on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from clips import DATASET
from tta_models import model_of, random_texts, random_videos

from perturbations import tta
from perturbations.base.errors import ConfigError
from perturbations.config import file as config_file
from perturbations.tta import frames, precision, recording

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode

from perturbations.evaluation.run import query_encoding


def byte_frames(count: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 4, 3, 32, 32), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("method", ["none", "sar", "hatvtr"])
def test_bytes_and_the_floats_made_of_them_give_the_same_bits(method: str) -> None:
    model, texts = model_of("xpool"), random_texts(9)
    pixels = [byte_frames(3, seed) for seed in (0, 1)]
    as_bytes = [tta.ByteFrames(values, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)) for values in pixels]
    as_floats = [frames.normalize(values, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)) for values in pixels]
    a, b = (torch.cat(list(tta.adapt(model, method, given, texts, direction="v2t"))) for given in (as_bytes, as_floats))
    assert torch.equal(a, b)
    of_bytes, of_floats = (tta.encode_gallery(model, iter([given[0]]), "t2v") for given in (as_bytes, as_floats))
    assert torch.equal(of_bytes.features, of_floats.features)


@pytest.mark.parametrize("values", [byte_frames(2).float(), byte_frames(2)[0], byte_frames(0)], ids=str)
def test_bytes_of_another_form_are_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="they must be uint8 B x T x 3 x H x W"):
        next(tta.adapt(model_of("clip4clip"), "none", [tta.ByteFrames(values)], random_texts(5), direction="v2t"))


def test_a_gallery_of_bytes_is_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = model_of("clip4clip"), tta.ByteFrames(byte_frames(5))
    whole = tta.encode_gallery(model, given, "t2v")
    monkeypatch.setattr("perturbations.tta.gallery.CHUNK", 2)
    assert torch.allclose(tta.encode_gallery(model, given, "t2v").features, whole.features, atol=1e-6)


# --- the thread ------------------------------------------------------------------------------------------------------


def test_items_come_in_their_order_from_another_thread_which_makes_no_more_than_is_asked_for_soon() -> None:
    """An error of the thread is raised where its item would come."""
    threads: list[int] = []

    def items(count: int) -> Iterator[int]:
        for item in range(count):
            threads.append(threading.get_ident())
            yield item
        raise OSError("the disk is gone")

    coming = query_encoding.ahead(items(2))
    assert [next(coming), next(coming)] == [0, 1]
    with pytest.raises(OSError, match="the disk is gone"):
        next(coming)
    assert {*threads} - {threading.get_ident()} == {*threads}
    threads.clear()
    coming = query_encoding.ahead(items(50))
    assert [next(coming), next(coming)] == [0, 1]
    coming.close()  # type: ignore[attr-defined]
    assert 2 <= len(threads) <= 4
    assert list(query_encoding.ahead(iter([]))) == []


# --- waiting ---------------------------------------------------------------------------------------------------------


class Waits(TorchDispatchMode):
    """Counts the operations that stop a GPU: a number is read, or a shape depends on values."""

    OPERATIONS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        self.count += operation.name() in self.OPERATIONS
        return operation(*given, **(named or {}))


def test_a_step_waits_once_for_the_gradients_of_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self: None)  # it reads its own counters, which no GPU holds
    model, texts = model_of("clip4clip"), random_texts(9)
    gallery = tta.encode_gallery(model, texts, "v2t")
    with Waits() as waits:
        list(tta.adapt(model, "tent", [random_videos(3, seed=seed) for seed in (0, 1)], gallery, direction="v2t"))
    assert waits.count == 2 * 3


class Event:
    """A point in the work of a pretended GPU, one millisecond after the one before."""

    passed: list[int] = []  # noqa: RUF012
    recorded = 0

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: object) -> None:
        Event.recorded += 1
        self.at = Event.recorded

    def synchronize(self) -> None:
        Event.passed.append(self.at)

    def elapsed_time(self, end: Event) -> float:
        assert end.at in Event.passed
        return float(end.at - self.at)


def test_the_times_of_a_gpu_are_read_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Event, "passed", [])
    monkeypatch.setattr(Event, "recorded", 0)
    for name, value in {
        "Event": Event,
        "current_stream": lambda device: None,
        "reset_peak_memory_stats": lambda device: None,
        "max_memory_allocated": lambda device: 3 * 2**20,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    times = recording.Recording()
    times.start(torch.device("cuda"))
    for _ in range(2):
        with times.part("encode"):
            pass
        with times.part("adapt"), times.part("rerank"):
            pass
        times.end_batch(2)
    assert not Event.passed
    # 1 encode 2, 3 adapt 4 rerank 5 adapt 6: each step is one millisecond.
    assert times.ms == {"encode": [0.5, 0.5], "adapt": [1.0, 1.0], "rerank": [0.5, 0.5]}
    assert times.summary() == pytest.approx(
        {f"{name}_ms_{point}": value for name, value in
         (("encode", 0.5), ("adapt", 1.0), ("rerank", 0.5), ("total", 2.0)) for point in ("p50", "p95")}
        | {"peak_memory_mib": 3.0}
    )  # fmt: skip


# --- precision -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "inside"), [("float32", False), ("tf32", True), ("bfloat16", False)])
def test_tensor_cores_are_used_where_the_setting_says_so_and_nowhere_else(name: str, inside: bool) -> None:
    """torch's own default computes convolutions of float32 in TF32."""
    flags = lambda: (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)  # noqa: E731
    before = flags()
    with precision.tensor_cores(name, torch.device("cuda")):
        assert flags() == (inside, inside)
    assert flags() == before
    with precision.tensor_cores(name, torch.device("cpu")):
        assert flags() == before


def test_tf32_is_for_a_gpu_alone_which_jobs_share() -> None:
    with pytest.raises(ConfigError, match="'tf32' needs an NVIDIA GPU, the device is cpu"):
        tta.adapt(model_of("clip4clip"), "none", [], random_texts(3), direction="v2t", precision="tf32")
    raw: dict[str, Any] = {"datasets": {"demo": DATASET}, "suites": {"mlvp": {}}}
    with pytest.raises(ConfigError, match="evaluation.precision: tf32 needs an NVIDIA GPU"):
        config_file.parse({**raw, "evaluation": {"precision": "tf32"}})
    on_gpu = config_file.parse({**raw, "evaluation": {"precision": "tf32", "device": "cuda:0", "jobs_per_gpu": 3}})
    assert (on_gpu.evaluation.gpus, on_gpu.evaluation.gpu_share) == (1, 33)
    assert config_file.parse({**raw, "evaluation": {"jobs_per_gpu": 3}}).evaluation.gpu_share == 0
