"""A tiny CLIP with X-Pool's pooling: that of the golden file, or one of random weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    from perturbations.tta.pooling import XPool

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


SHIPPED = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Golden:
    """Weights, inputs and the recorded similarities, and how near ours come to them in float32."""

    arrays: Mapping[str, np.ndarray]
    tolerance: Mapping[str, float]

    def _under(self, prefix: str) -> dict[str, Any]:
        members = {name: value for name, value in self.arrays.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): torch.from_numpy(value) for name, value in members.items()}

    def model(self, pooling: str) -> tta.DualEncoder:
        clip = tiny_clip()
        clip.load_state_dict(self._under("clip/"))
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
        return self.arrays[f"sims/{pooling}/{direction}/{'mock' if method == 'none' else method}"]


def golden_data(reference: Path | None) -> Golden:
    """The float32 record of the reference data, or the float64 record that the repository holds."""
    with np.load((SHIPPED if reference is None else reference / "golden") / "tta.npz") as held:
        arrays = {name: held[name] for name in held.files}
    if reference is not None:
        return Golden(arrays, dict.fromkeys(METHODS, 1e-5))
    for name in ("gallery_ids", "query_ids"):
        arrays[name] = arrays[name].astype(np.int64)
    # In float32 the reference's own TCR is 1.3e-5 from its float64 record: rounding grows from step to step.
    return Golden({**arrays, **golden_inputs()}, {**dict.fromkeys(METHODS, 5e-6), "tcr": 3e-5})


def golden_inputs() -> dict[str, np.ndarray]:
    """Videos and the queries made of them: random numbers of one generator, as the record's inputs were."""
    generator = torch.Generator().manual_seed(22)

    def normal(items: int, frames: int) -> Any:
        return torch.randn(items, frames, 3, 32, 32, generator=generator)

    videos = normal(60, 4) + normal(60, 1)
    queries = videos[torch.arange(64) % 60] + 0.7 * normal(64, 4)
    return {"videos": videos.numpy(), "queries_video": queries.numpy()}
