"""The hubness memory against the formula over the whole history."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from perturbations.tta.memories import HubnessMemory


def direct(history: list, current: object) -> object:
    """Eq. 5 and 6 of HAT-VTR over every row there is; the current ones."""
    whole = torch.cat([*history, current]).double()
    popular, sure = torch.softmax(100 * whole, dim=0), torch.softmax(10 * whole, dim=1)
    return (whole * (0.5 * popular + 0.5 * sure))[-len(current) :]


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=14),
    capacity=st.integers(1, 6),
    items=st.integers(1, 7),
    scale=st.sampled_from([0.01, 0.3, 1.0]),
    seed=st.integers(0, 1000),
)
def test_exactly_the_direct_form(sizes: list[int], capacity: int, items: int, scale: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    memory = HubnessMemory(capacity)
    history: list = []
    for size in sizes:
        current = (scale * (2 * torch.rand(size, items, generator=generator, dtype=torch.float64) - 1)).double()
        expected = direct(history[-capacity:], current)
        assert torch.allclose(memory.rescore(current), expected, rtol=1e-9, atol=1e-15)
        memory.append(current)
        history.append(current)
        assert len(memory) == min(len(history), capacity)


def test_float32_keeps_its_digits_over_a_long_run_and_the_oldest_batch_is_forgotten() -> None:
    """Merging for hundreds of batches loses nothing that float32 had."""
    generator = torch.Generator().manual_seed(0)
    memory = HubnessMemory(100)
    history = [torch.rand(16, 50, generator=generator) for _ in range(450)]
    for similarity in history:
        memory.append(similarity)
    current = torch.rand(16, 50, generator=generator)
    expected = direct(history[-100:], current)
    assert torch.allclose(memory.rescore(current).double(), expected, rtol=3e-5, atol=1e-9)
    memory = HubnessMemory(2)
    batches = [torch.full((1, 3), value) for value in (0.9, 0.1, 0.1)]
    memory.append(batches[0])
    memory.append(batches[1])
    before = memory.rescore(batches[1])
    memory.append(batches[2])
    assert bool((memory.rescore(batches[1]) > before).all())  # the hub of 0.9 is gone
    with pytest.raises(ValueError, match="capacity"):
        HubnessMemory(0)
