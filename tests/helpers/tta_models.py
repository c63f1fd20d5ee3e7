"""A tiny CLIP with X-Pool's pooling: that of the golden file, or one of random weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from copies import ROOT

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from perturbations import tta

BATCH = 16
METHODS = ("none", "tent", "read", "sar", "eata", "tcr", "hatvtr")
TOWER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def tiny_clip(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    text = {"vocab_size": 64, "max_position_embeddings": 16, "bos_token_id": 62, "eos_token_id": 63, "pad_token_id": 1}
    vision = {"image_size": 32, "patch_size": 8}
    config = transformers.CLIPConfig(
        text_config={**TOWER, **text}, vision_config={**TOWER, **vision}, projection_dim=32
    )
    return transformers.CLIPModel(config).eval()


def pooling_state(seed: int = 0, dim: int = 32) -> dict[str, Any]:
    from perturbations.tta.encoders import XPool

    torch.manual_seed(seed)
    return XPool(dim).state_dict()


def random_texts(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Token ids with padding, and their mask."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, 62, (count, 10), generator=generator)
    ends = torch.randint(4, 10, (count,), generator=generator)
    places = torch.arange(10)
    ids[places == ends[:, None]] = 63
    mask = (places <= ends[:, None]).long()
    return torch.where(mask == 1, ids, 1), mask


def random_videos(count: int, frames: int = 4, seed: int = 0) -> Any:
    return torch.randn(count, frames, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def model_of(pooling: str, clip: Any = None) -> tta.DualEncoder:
    clip = tiny_clip() if clip is None else clip
    return tta.clip4clip(clip) if pooling == "clip4clip" else tta.xpool(clip, pooling_state())


def queries_and_gallery(direction: str, sizes: list[int], items: int = 20) -> tuple[list[Any], Any]:
    """Batches of these sizes, and a gallery."""
    if direction == "v2t":
        return [random_videos(size, seed=i) for i, size in enumerate(sizes)], random_texts(items)
    return [random_texts(size, seed=i) for i, size in enumerate(sizes)], random_videos(items)


SHIPPED = ROOT / "tests" / "golden"


@dataclass(frozen=True)
class Golden:
    """Weights, inputs, and the similarities that the reference recorded in float64.

    Attributes:
        exact: the largest difference in float64, of the largest similarity.
        float32: per combination, how far the reference in float32 is from its own float64 record.
    """

    arrays: Mapping[str, np.ndarray]
    exact: float
    float32: Mapping[str, float]

    def _under(self, prefix: str) -> dict[str, Any]:
        members = {name: value for name, value in self.arrays.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): torch.from_numpy(value) for name, value in members.items()}

    def model(self, pooling: str, dtype: Any = torch.float32) -> tta.DualEncoder:
        clip = tiny_clip()
        clip.load_state_dict(self._under("clip/"))
        clip.to(dtype)
        return tta.clip4clip(clip) if pooling == "clip4clip" else tta.xpool(clip, self._under("xpool/"))

    def batches(self, direction: str) -> list[Any]:
        if direction == "v2t":
            return list(torch.from_numpy(self.arrays["queries_video"]).split(BATCH))
        return [(ids, torch.ones_like(ids)) for ids in torch.from_numpy(self.arrays["query_ids"]).split(BATCH)]

    def gallery(self, direction: str) -> Any:
        if direction == "t2v":
            return torch.from_numpy(self.arrays["videos"])
        ids = torch.from_numpy(self.arrays["gallery_ids"])
        return ids, torch.ones_like(ids)

    def similarities(self, pooling: str, direction: str, method: str) -> np.ndarray:
        return self.arrays[f"sims/{recorded_name(pooling, direction, method)}"]

    def bound(self, pooling: str, direction: str, method: str, dtype: Any) -> float:
        """The largest difference from the record, of the largest similarity.

        In float32, rounding grows from step to step: AdamW's first steps are as long for a tiny gradient as for a large
        one. Three times as much as the reference's own is allowed, and 2e-6 for other processors' instructions.
        """
        if dtype == torch.float64:
            return self.exact
        return 3 * self.float32[recorded_name(pooling, direction, method)] + 2e-6


def recorded_name(pooling: str, direction: str, method: str) -> str:
    return f"{pooling}/{direction}/{'mock' if method == 'none' else method}"


EXACT = 1e-12


def golden_data(reference: Path | None) -> Golden:
    """What the reference data hold, or what the repository does."""
    if reference is not None:
        with np.load(reference / "golden" / "tta.npz") as held, np.load(reference / "golden" / "tta_f64.npz") as exact:
            arrays = {name: held[name] for name in held.files}
            recorded = {name: exact[name] for name in exact.files}
        far = {name.removeprefix("sims/"): relative(arrays[name], recorded[name]) for name in recorded}
        return Golden({**arrays, **recorded}, EXACT, far)
    with np.load(SHIPPED / "tta.npz") as held:
        arrays = {name: held[name] for name in held.files}
    for name in ("gallery_ids", "query_ids"):
        arrays[name] = arrays[name].astype(np.int64)
    inputs = golden_inputs()
    same = all(np.array_equal(array[..., :1, :2], arrays[f"corner/{name}"]) for name, array in inputs.items())
    settings = json.loads((SHIPPED / "tta.json").read_text())
    far = {name: setting["float32"] for name, setting in settings.items()}
    # Without AVX2 torch's generator gives the inputs with an error of up to 3e-6.
    return Golden({**arrays, **inputs}, EXACT if same else 2e-5, far)


def relative(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, of the largest expected value."""
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def golden_inputs() -> dict[str, np.ndarray]:
    """Videos and the queries made of them: random numbers of one generator, as the record's inputs were."""
    generator = torch.Generator().manual_seed(22)

    def normal(items: int, frames: int) -> Any:
        return torch.randn(items, frames, 3, 32, 32, generator=generator)

    videos = normal(60, 4) + normal(60, 1)
    queries = videos[torch.arange(64) % 60] + 0.7 * normal(64, 4)
    return {"videos": videos.numpy(), "queries_video": queries.numpy()}
