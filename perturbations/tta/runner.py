"""Scenarios of evaluation: queries of one perturbation at one severity, every method, rows out.

A scenario asks a clean gallery perturbed queries: videos (v2t) or captions (t2v). Its rows are kept in a journal as they
are finished, so that an interrupted job goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from perturbations import manifest, media, retrieval, storage
from perturbations.api import open_clip, plain_row
from perturbations.errors import ManifestError
from perturbations.progress import logged
from perturbations.recipe import canonical, digest
from perturbations.tta import adapt, encode_gallery, frames
from perturbations.tta.backbones import Backbone
from perturbations.tta.gallery import Gallery
from perturbations.tta.inputs import Direction
from perturbations.tta.recording import Counts, Timings

log = logging.getLogger("perturbations")

Row = dict[str, Any]

_CHUNK = 32  # clips encoded at once for a gallery


@dataclass(frozen=True)
class Scenario:
    """What is asked of whom.

    Attributes:
        dataset, suite, perturbation, severity: of the queries; "clean" and 0 for unperturbed ones.
        mix, share: of a mixed manifest, else None.
        direction: "v2t", queries are videos, or "t2v", queries are captions.
        setting: "qs", "qgs_cross" or "qgs_zero_shot": where the model comes from, for the tables.
    """

    dataset: str
    suite: str
    perturbation: str
    severity: int | None
    direction: Direction
    setting: str
    mix: str | None = None
    share: float | None = None


@dataclass(frozen=True)
class Retrieval:
    """Queries, a gallery, and which of its items answer which query."""

    query_ids: tuple[str, ...]
    gallery_ids: tuple[str, ...]
    relevant: tuple[tuple[int, ...], ...]
    rows: tuple[Row, ...]  # of the queries, in their order
    missing: int  # queries that were quarantined or not accepted


def of_videos(videos: Sequence[Row], captions: Sequence[Row], sources: Sequence[Row]) -> Retrieval:
    """Videos ask for their captions. The gallery holds the captions of every complete clip.

    Raises `ManifestError` when no query is left.
    """
    complete = {row["item_id"] for row in sources if row["status"] == manifest.COMPLETE}
    texts = sorted((row for row in captions if row["item_id"] in complete), key=lambda row: row["caption_id"])
    of_item = defaultdict(list)
    for place, row in enumerate(texts):
        of_item[row["item_id"]].append(place)
    asked = sorted((row for row in videos if row["status"] == manifest.COMPLETE), key=lambda row: row["item_id"])
    asked = [row for row in asked if of_item[row["item_id"]]]
    return _retrieval(
        [row["item_id"] for row in asked],
        [row["caption_id"] for row in texts],
        [of_item[row["item_id"]] for row in asked],
        asked,
        len(videos) - len(asked),
    )


def of_captions(captions: Sequence[Row], sources: Sequence[Row]) -> Retrieval:
    """Captions ask for their clips. The gallery holds every complete clip; captions that did not pass the gate are out.

    Raises `ManifestError` when no query is left.
    """
    clips = sorted((row for row in sources if row["status"] == manifest.COMPLETE), key=lambda row: row["item_id"])
    places = {row["item_id"]: place for place, row in enumerate(clips)}
    asked = [row for row in captions if row["item_id"] in places and row.get("accepted") is not False]
    asked.sort(key=lambda row: row["caption_id"])
    return _retrieval(
        [row["caption_id"] for row in asked],
        [row["item_id"] for row in clips],
        [[places[row["item_id"]]] for row in asked],
        asked,
        len(captions) - len(asked),
    )


def _retrieval(
    query_ids: Sequence[str],
    gallery_ids: Sequence[str],
    relevant: Sequence[Sequence[int]],
    rows: Sequence[Row],
    missing: int,
) -> Retrieval:
    if not query_ids:
        raise ManifestError("no query is left: every clip is quarantined, or none has a caption")
    return Retrieval(tuple(query_ids), tuple(gallery_ids), tuple(map(tuple, relevant)), tuple(rows), missing)


# --- what the model sees ---------------------------------------------------------------------------------------------


class Clips:
    """The sampled frames of clips, as the model takes them, read once and kept on disk: uint8 N x T x 3 x S x S."""

    def __init__(self, rows: Sequence[Row], num_frames: int, size: int, folder: Path) -> None:
        shape = len(rows), num_frames, 3, size, size
        self._pixels = np.memmap(folder / "frames.npy", np.uint8, "w+", shape=shape)
        for place, row in enumerate(logged(iter(rows), len(rows), "clips read")):
            self._pixels[place] = frames.resized(sampled(row, num_frames), size)

    def __len__(self) -> int:
        return len(self._pixels)

    def batch(self, part: slice) -> torch.Tensor:
        """Normalized frames B x T x 3 x S x S."""
        return frames.normalized(np.asarray(self._pixels[part]))


def sampled(row: Row, num_frames: int) -> np.ndarray:
    """The uniformly sampled frames of a row, T x H x W x 3, whatever its storage tier."""
    columns = plain_row(row)
    if str(columns.get("storage", "")).startswith("frames/"):
        stack = open_clip(columns)
        return stack[media.uniform_indices(num_frames, len(stack))]
    return open_clip(columns, media.uniform_indices(num_frames, columns["frame_count"]))


def video_gallery(backbone: Backbone, sources: Sequence[Row], num_frames: int) -> Gallery:
    """Every complete clip's features, in the order of their ids; read and encoded in parts."""
    clips = sorted((row for row in sources if row["status"] == manifest.COMPLETE), key=lambda row: row["item_id"])

    def parts() -> Iterator[torch.Tensor]:
        for start in range(0, len(clips), _CHUNK):
            pictures = [
                frames.resized(sampled(row, num_frames), backbone.image_size) for row in clips[start : start + _CHUNK]
            ]
            yield frames.normalized(np.stack(pictures))

    return encode_gallery(backbone.model, parts(), "t2v")


# --- a scenario ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """How a scenario is run: all of it is a part of a row's identity, but the device."""

    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    batch_size: int
    num_frames: int
    steps: int
    precision: str


def run(
    scenario: Scenario,
    settings: Settings,
    backbone: Backbone,
    asked: Retrieval,
    gallery: Gallery,
    *,
    journal: Path,
    about: Mapping[str, str],
    bank: Gallery | None = None,
) -> Iterator[tuple[Row, list[Row], dict[str, np.ndarray]]]:
    """Yield, for each method and seed, the results row, the ranks' rows, and arrays for pictures.

    `about` are columns that say what was used: hashes of the manifest and of the checkpoint, backends, versions.
    """
    identity = [row.get("frames_sha256") or row.get("text") for row in asked.rows]
    base = {**asdict(scenario), **dict(about), "queries": identity, "gallery": list(asked.gallery_ids)}
    done = _finished(journal)
    with tempfile.TemporaryDirectory(prefix="perturb-") as folder:
        queries: Clips | list[Any] | None = None
        for method in settings.methods:
            for seed in settings.seeds:
                one = {**asdict(settings), "methods": None, "seeds": None, "method": method, "seed": seed}
                key = digest({**base, **one})
                if key in done:
                    yield _restored(done[key])
                    continue
                if queries is None:
                    queries = _queries(scenario, asked, settings, backbone, Path(folder))
                made = _measured(scenario, settings, backbone, asked, gallery, queries, method, seed, bank)
                row = {**asdict(scenario), **made["row"], **dict(about), "recipe_id": key}
                made["row"] = row
                with storage.output_errors(journal), journal.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, **made}) + "\n")
                log.info("%s: R@1 %.1f", method, row["r1"])
                yield _restored(made)


def _queries(scenario: Scenario, asked: Retrieval, settings: Settings, backbone: Backbone, folder: Path) -> Any:
    if scenario.direction == "v2t":
        return Clips(asked.rows, settings.num_frames, backbone.image_size, folder)
    return [row["text"] for row in asked.rows]


def _batches(queries: Any, size: int, backbone: Backbone) -> Iterator[Any]:
    for start in range(0, len(queries), size):
        part = slice(start, start + size)
        yield queries.batch(part) if isinstance(queries, Clips) else backbone.tokens(queries[part])


_HEATMAP = 32
"""So many queries and gallery items are kept of the similarities, for a picture."""


def _measured(
    scenario: Scenario,
    settings: Settings,
    backbone: Backbone,
    asked: Retrieval,
    gallery: Gallery,
    queries: Any,
    method: str,
    seed: int,
    bank: Gallery | None,
) -> dict[str, Any]:
    counts, timings = Counts(), Timings()
    batches = _batches(queries, settings.batch_size, backbone)
    parts = adapt(
        backbone.model,
        method,
        batches,
        gallery,
        direction=scenario.direction,
        steps=settings.steps,
        seed=seed,
        precision=settings.precision,
        bank=bank if method == "qbnorm" else None,
        counts=counts,
        timings=timings,
    )
    similarities = np.concatenate(
        [part.cpu().numpy() for part in logged(parts, -(-len(queries) // settings.batch_size), method)]
    )
    ranks = retrieval.ranks(similarities, asked.relevant)
    found = retrieval.summary(similarities, asked.relevant)
    hubs = retrieval.hubness(similarities)
    row = {
        "method": method,
        "seed": seed,
        "queries": len(asked.query_ids),
        "missing_queries": asked.missing,
        "gallery": len(asked.gallery_ids),
        **found,
        **{f"hub_{name}": value for name, value in hubs.items()},
        **timings.summary(),
        "gallery_s": timings.gallery_s,
        **asdict(counts),
        "settings": canonical({**asdict(settings), "methods": [method], "seeds": [seed]}),
    }
    row = {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()}
    return {
        "row": row,
        "ranks": [int(one) for one in ranks],
        "occurrence": retrieval.k_occurrence(similarities).tolist(),
        "heatmap": np.round(similarities[:_HEATMAP, :_HEATMAP].astype(np.float64), 4).tolist(),
        "query_ids": list(asked.query_ids),
    }


def _restored(made: Mapping[str, Any]) -> tuple[Row, list[Row], dict[str, np.ndarray]]:
    row = made["row"]
    names = ("dataset", "suite", "perturbation", "severity", "mix", "share", "direction", "model", "method", "seed")
    scenario = {name: row.get(name) for name in names}
    ranks = [
        {**scenario, "query_id": one, "rank": rank} for one, rank in zip(made["query_ids"], made["ranks"], strict=True)
    ]
    pictures = {name: np.asarray(made[name]) for name in ("occurrence", "heatmap")}
    return row, ranks, pictures


def _finished(journal: Path) -> dict[str, dict[str, Any]]:
    if not journal.is_file():
        journal.parent.mkdir(parents=True, exist_ok=True)
        return {}
    done = {}
    for line in journal.read_text(encoding="utf-8").split("\n"):
        try:
            made = json.loads(line)
        except ValueError:
            continue  # cut short by a kill
        done[made["key"]] = made
    # Anew, so that a line cut short does not swallow the next one.
    storage.write_text(journal, "".join(json.dumps(made) + "\n" for made in done.values()))
    return done


def sha256_of_rows(rows: Sequence[Row]) -> str:
    """A hash of what a manifest's rows say."""
    return hashlib.sha256(canonical([[str(value) for value in row.values()] for row in rows]).encode()).hexdigest()
