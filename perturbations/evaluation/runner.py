"""Scenarios of evaluation: queries of one perturbation at one severity, every method, rows out.

A scenario asks a clean gallery perturbed queries: videos (v2t) or captions (t2v). Its rows are kept in a journal as
they are finished, so that an interrupted job goes on where it was.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ConfigDict, ValidationError, model_validator

from perturbations import retrieval
from perturbations.api import open_clip
from perturbations.errors import ConfigError, ManifestError
from perturbations.evaluation import backbones
from perturbations.manifest.kinds import (
    COMPLETE,
    CaptionRow,
    ClipRow,
    CompleteSource,
    MixRow,
    RankRow,
    ResultRow,
    ScenarioColumns,
    SourceRow,
    TextRow,
)
from perturbations.media.clip import uniform_indices
from perturbations.models.loading import find_checkpoint, library, load_part, read_config
from perturbations.plan import evaluation
from perturbations.plan.recipe import is_published
from perturbations.progress import logged
from perturbations.system import jsontext, storage
from perturbations.system.records import Record, canonical, digest
from perturbations.tta import adapt, encode_gallery, frames
from perturbations.tta.encoders import DualEncoder
from perturbations.tta.gallery import Gallery
from perturbations.tta.recording import Counts, Timings

log = logging.getLogger("perturbations")

Query = ClipRow | CompleteSource | CaptionRow | TextRow
"""What asks: a perturbed or clean clip, a perturbed or clean caption."""

_CHUNK = 32  # clips encoded at once for a gallery


@dataclass(frozen=True)
class Retrieval:
    """Queries, a gallery, and which of its items answer which query."""

    query_ids: tuple[str, ...]
    gallery_ids: tuple[str, ...]
    relevant: tuple[tuple[int, ...], ...]
    rows: tuple[Query, ...]  # of the queries, in their order
    missing: int  # rows that do not ask: quarantined, not accepted, or without a counterpart


def of_videos(
    videos: Sequence[ClipRow | SourceRow], captions: Sequence[CaptionRow], sources: Sequence[SourceRow]
) -> Retrieval:
    """Videos ask for their captions. The gallery holds the captions of every complete clip.

    Raises `ManifestError` when no query is left.
    """
    of_item, texts = _texts_of(captions, sources)
    complete = [row for row in videos if isinstance(row, ClipRow | CompleteSource) and row.status == COMPLETE]
    asked = sorted((row for row in complete if of_item[row.item_id]), key=lambda row: row.item_id)
    return _retrieval(
        [row.item_id for row in asked],
        [row.caption_id for row in texts],
        [of_item[row.item_id] for row in asked],
        asked,
        len(videos) - len(asked),
    )


def _texts_of(
    captions: Sequence[CaptionRow], sources: Sequence[SourceRow]
) -> tuple[dict[str, list[int]], list[CaptionRow]]:
    """The captions of complete clips in the order of a gallery, and where each clip's are among them."""
    complete = {row.item_id for row in sources if row.status == COMPLETE}
    texts = sorted((row for row in captions if row.item_id in complete), key=lambda row: row.caption_id)
    of_item = defaultdict(list)
    for place, row in enumerate(texts):
        of_item[row.item_id].append(place)
    return of_item, texts


def of_captions(captions: Sequence[CaptionRow | TextRow], sources: Sequence[SourceRow]) -> Retrieval:
    """Captions ask for their clips. The gallery holds every complete clip; captions that did not pass the gate are out.

    Raises `ManifestError` when no query is left.
    """
    clips = sorted((row for row in sources if row.status == COMPLETE), key=lambda row: row.item_id)
    places = {row.item_id: place for place, row in enumerate(clips)}
    passed = [row for row in captions if row.item_id in places and not (isinstance(row, TextRow) and not row.accepted)]
    asked = sorted(passed, key=lambda row: row.caption_id)
    return _retrieval(
        [row.caption_id for row in asked],
        [row.item_id for row in clips],
        [[places[row.item_id]] for row in asked],
        asked,
        len(captions) - len(asked),
    )


def _retrieval(
    query_ids: Sequence[str],
    gallery_ids: Sequence[str],
    relevant: Sequence[Sequence[int]],
    rows: Sequence[Query],
    missing: int,
) -> Retrieval:
    if not query_ids:
        raise ManifestError("no query is left: every clip is quarantined, or none has a caption")
    return Retrieval(tuple(query_ids), tuple(gallery_ids), tuple(map(tuple, relevant)), tuple(rows), missing)


# --- what the model sees ---------------------------------------------------------------------------------------------


class Clips:
    """The sampled frames of clips, as the model takes them, read once and kept on disk: uint8 N x T x 3 x S x S."""

    def __init__(self, rows: Sequence[ClipRow | CompleteSource], num_frames: int, size: int, folder: Path) -> None:
        shape = len(rows), num_frames, 3, size, size
        self._pixels = np.memmap(folder / "frames.npy", np.uint8, "w+", shape=shape)

        def read(place: int) -> None:
            self._pixels[place] = frames.resized(sampled(rows[place], num_frames), size)

        with _readers() as pool:
            for _ in logged(pool.map(read, range(len(rows))), len(rows), "clips read"):
                pass

    def __len__(self) -> int:
        return len(self._pixels)

    def batch(self, part: slice) -> torch.Tensor:
        """Normalized frames B x T x 3 x S x S."""
        return frames.normalized(np.asarray(self._pixels[part]))


def _readers() -> ThreadPoolExecutor:
    """As many threads as torch has been given: while clips are read the model waits, and a GPU with it."""
    return ThreadPoolExecutor(torch.get_num_threads())


def sampled(row: ClipRow | CompleteSource, num_frames: int) -> np.ndarray:
    """The uniformly sampled frames of a row, T x H x W x 3, whatever its storage tier."""
    if isinstance(row, ClipRow) and row.storage.startswith("frames/"):
        stack = open_clip(row)
        return stack[uniform_indices(num_frames, len(stack))]
    return open_clip(row, uniform_indices(num_frames, row.frame_count))


def video_gallery(backbone: Backbone, sources: Sequence[SourceRow], num_frames: int) -> Gallery:
    """Every complete clip's features, in the order of their ids; read and encoded in parts."""
    clips = sorted((row for row in sources if isinstance(row, CompleteSource)), key=lambda row: row.item_id)

    def read(row: CompleteSource) -> np.ndarray:
        return frames.resized(sampled(row, num_frames), backbone.image_size)

    def parts() -> Iterator[torch.Tensor]:
        with _readers() as pool:
            for start in range(0, len(clips), _CHUNK):
                yield frames.normalized(np.stack(list(pool.map(read, clips[start : start + _CHUNK]))))

    return encode_gallery(backbone.model, parts(), "t2v")


# --- the model -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Backbone:
    """A model, what turns its texts into tokens, the side of its pictures in pixels, and its weights' SHA-256."""

    model: DualEncoder
    tokenizer: Any
    most_tokens: int
    image_size: int
    sha256: str

    def tokens(self, texts: Sequence[str]) -> Any:
        """Token ids and their mask, cut at the model's length."""
        return self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.most_tokens, return_tensors="pt"
        )


def load(settings: Mapping[str, Any], folder: str, checkpoint: Path | None, device: str) -> Backbone:
    """The model of an evaluation; `folder` is a model of transformers, its name or its folder.

    Raises `ConfigError` when files are missing or do not fit.
    """
    transformers = library("transformers")
    model = backbones.load(
        settings["model"], folder, checkpoint=checkpoint, revision=settings["revision"], device=device
    )
    found = find_checkpoint(folder, settings["revision"])
    tokenizer = load_part(transformers.AutoTokenizer, found)
    described = read_config(found)
    weights = [checkpoint] if checkpoint is not None else sorted(found.folder.glob("*.safetensors"))
    weights = weights or sorted(found.folder.glob("*.bin"))
    sha256 = digest([storage.sha256(path) for path in weights])
    try:
        most_tokens = min(tokenizer.model_max_length, described["text_config"].get("max_position_embeddings", 77))
        image_size = int(described["vision_config"]["image_size"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{found.folder}/config.json does not say the sizes of its texts and pictures") from error
    return Backbone(model, tokenizer, most_tokens, image_size, sha256)


def write_gallery(path: Path, backbone: Backbone, sources: Sequence[SourceRow], num_frames: int) -> None:
    """Encode a dataset's clean clips, so that every scenario of captions can ask them."""
    made = video_gallery(backbone, sources, num_frames)
    with storage.atomic_path(path) as temporary:
        library("safetensors.torch", package="safetensors").save_file(
            {"features": made.features.cpu()}, temporary, metadata={"checkpoint": backbone.sha256}
        )


def read_gallery(path: Path, backbone: Backbone) -> Gallery:
    """What `write_gallery` wrote, on the model's device."""
    try:
        features = library("safetensors.torch", package="safetensors").load_file(path)["features"]
    except (OSError, KeyError, library("safetensors").SafetensorError) as error:
        raise ManifestError(f"{path} holds no encoded clips ({error}); delete it and run snakemake again") from error
    return Gallery("t2v", features.to(backbone.model.device))


# --- a scenario ------------------------------------------------------------------------------------------------------


Asking = Callable[[Mapping[str, Any]], tuple[Sequence[Any], str]]
"""Of a scenario: its rows, and what their manifests hash to."""


def evaluate(
    settings: Mapping[str, Any],
    backbone: Backbone,
    *,
    sources: Sequence[SourceRow],
    captions: Sequence[CaptionRow],
    asking: Asking,
    gallery: Path | None,
    bank_captions: Sequence[CaptionRow] = (),
    bank_gallery: Path | None = None,
    journal: Path,
) -> tuple[list[ResultRow], list[RankRow], list[Picture]]:
    """Run a job's scenarios: its results' rows, its ranks' rows, and what a report draws of each.

    Args:
        settings: of `perturbations.plan.evaluation.settings`.
        backbone: the model.
        sources, captions: the rows of the dataset's clean clips and captions.
        asking: gives a scenario's rows: of a `videos`, `mixes`, `sources` or (perturbed) captions manifest.
        gallery: t2v: what `write_gallery` wrote.
        bank_captions, bank_gallery: qbnorm's bank of training queries: captions (t2v) or clips (v2t).
        journal: finished rows are kept here.

    Raises:
        ManifestError: no query is left.
    """
    direction = settings["scenarios"][0]["direction"]
    bank = None
    if direction == "v2t":
        _, texts = _texts_of(captions, sources)
        clean = encode_gallery(backbone.model, backbone.tokens([row.text for row in texts]), "v2t")
        if bank_gallery is not None:
            bank = read_gallery(bank_gallery, backbone)
    else:
        assert gallery is not None
        clean = read_gallery(gallery, backbone)
        if bank_captions:
            bank = encode_gallery(backbone.model, backbone.tokens([row.text for row in bank_captions]), "v2t")
    rows: list[ResultRow] = []
    ranks: list[RankRow] = []
    pictures: list[Picture] = []
    done = _finished(journal)
    for scenario in settings["scenarios"]:
        found, manifest_sha256 = asking(scenario)
        chosen = [row for row in found if _is_asked(row, scenario)]
        asked = of_videos(chosen, captions, sources) if direction == "v2t" else of_captions(chosen, sources)
        log.info("%s", scenario_name(scenario))
        for run in _run(settings, scenario, backbone, asked, clean, bank, journal, done):
            row = replace(run.row, manifest_sha256=manifest_sha256, tools=canonical(_tools()))
            columns = {field.name: getattr(row, field.name) for field in fields(ScenarioColumns)}
            rows.append(row)
            pairs = zip(run.query_ids, run.ranks, strict=True)
            ranks += [RankRow(**columns, query_id=query_id, rank=rank) for query_id, rank in pairs]
            pictures.append({**columns, "occurrence": run.occurrence, "heatmap": run.heatmap})
    return rows, ranks, pictures


def scenario_name(scenario: Mapping[str, Any]) -> str:
    """For people: "v2t mlvp/fog 5"."""
    severity = (
        scenario["severity"] if scenario["mix"] is None else f"{scenario['mix']} {scenario['share'] or ''}".strip()
    )
    return f"{scenario['direction']} {scenario['suite']}/{scenario['perturbation']} {severity}"


def _is_asked(row: ClipRow | SourceRow | CaptionRow | TextRow, scenario: Mapping[str, Any]) -> bool:
    if scenario["suite"] == evaluation.CLEAN:
        return True
    if isinstance(row, MixRow) and scenario["mix"] == "mixed_types":
        return bool(row.share == scenario["share"])
    if not isinstance(row, ClipRow | TextRow) or row.perturbation != scenario["perturbation"]:
        return False
    return scenario["mix"] is not None or row.severity == scenario["severity"]


def _run(
    settings: Mapping[str, Any],
    scenario: Mapping[str, Any],
    backbone: Backbone,
    asked: Retrieval,
    gallery: Gallery,
    bank: Gallery | None,
    journal: Path,
    done: dict[str, FinishedRun],
) -> Iterator[FinishedRun]:
    identity = digest([_identity(row) for row in asked.rows])
    rest = {name: value for name, value in settings.items() if name not in ("methods", "seeds", "scenarios")}
    told = {**rest, "scenario": scenario, "queries": identity, "ids": asked.query_ids, "relevant": asked.relevant}
    told |= {"gallery": [asked.gallery_ids, _sum(gallery)], "checkpoint": backbone.sha256, "tools": _tools()}
    shared = {
        **scenario,
        "model": settings["model"],
        "setting": settings["setting"],
        "queries_sha256": identity,
        "manifest_sha256": "",
        "checkpoint_sha256": backbone.sha256,
        "backend": canonical(_backends(settings, asked.rows)),
        "settings": canonical(rest),
        "tools": "",
    }
    with tempfile.TemporaryDirectory(prefix="perturb-") as folder:
        queries: Clips | list[str] | None = None
        for method in settings["methods"]:
            for seed in settings["seeds"]:
                key = digest(
                    {**told, "method": method, "seed": seed, "bank": _sum(bank) if method == "qbnorm" else None}
                )
                if key not in done:
                    if queries is None:
                        queries = _queries(scenario, settings["num_frames"], asked, backbone, Path(folder))
                    measured = _measured(settings, scenario, backbone, asked, gallery, queries, method, seed, bank)
                    row = ResultRow(**shared, **measured.pop("row"), recipe_id=key)
                    done[key] = FinishedRun(key=key, row=row, **measured)
                    with storage.output_errors(journal), journal.open("a", encoding="utf-8") as file:
                        file.write(done[key].model_dump_json() + "\n")
                    log.info("%s: R@1 %.1f %%", method, row.r1)
                yield done[key]


def _identity(row: Query) -> list[str | None]:
    """What a query is: its frames, and its text."""
    if isinstance(row, CaptionRow):
        return [None, row.text]
    return [row.recipe_id, row.text] if isinstance(row, TextRow) else [row.frames_sha256, None]


def _sum(gallery: Gallery | None) -> str | None:
    return None if gallery is None else storage.sha256_of(gallery.features.cpu().numpy().tobytes())


def _backends(settings: Mapping[str, Any], rows: Sequence[Query]) -> dict[str, str]:
    """Who played a model's role, in making the queries and in retrieving; and whose severities are not the papers'."""
    players = {"retrieval": "pretrained" if settings["pretrained"] else "demo_encoder"}
    perturbed = [row for row in rows if isinstance(row, ClipRow | TextRow) and row.params]
    for backend in sorted({row.backend for row in perturbed if row.backend}):
        if backend.startswith("{"):
            players |= {role: player["backend"] for role, player in json.loads(backend).items()}
        else:
            players["captions"] = backend
    if any(row.variant == "calibrated" for row in perturbed):
        players["severities"] = "calibrated"
    elif not all(map(is_published, perturbed)):
        players["severities"] = "own parameters"
    return dict(sorted(players.items()))


def _tools() -> dict[str, str]:
    return {"torch": torch.__version__, "transformers": library("transformers").__version__, "numpy": np.__version__}


def _queries(
    scenario: Mapping[str, Any], num_frames: int, asked: Retrieval, backbone: Backbone, folder: Path
) -> Clips | list[str]:
    if scenario["direction"] == "v2t":
        clips = [row for row in asked.rows if isinstance(row, ClipRow | CompleteSource)]
        return Clips(clips, num_frames, backbone.image_size, folder)
    return [row.text for row in asked.rows if isinstance(row, CaptionRow | TextRow)]


def _batches(queries: Clips | list[str], size: int, backbone: Backbone) -> Iterator[Any]:
    for start in range(0, len(queries), size):
        part = slice(start, start + size)
        yield queries.batch(part) if isinstance(queries, Clips) else backbone.tokens(queries[part])


_HEATMAP = 32
"""So many queries and gallery items are kept of the similarities, for a picture."""


def _measured(
    settings: Mapping[str, Any],
    scenario: Mapping[str, Any],
    backbone: Backbone,
    asked: Retrieval,
    gallery: Gallery,
    queries: Clips | list[str],
    method: str,
    seed: int,
    bank: Gallery | None,
) -> dict[str, Any]:
    counts, timings = Counts(), Timings()
    size = settings["batch_size"]
    parts = adapt(
        backbone.model,
        method,
        _batches(queries, size, backbone),
        gallery,
        direction=scenario["direction"],
        steps=settings["steps"],
        seed=seed,
        precision=settings["precision"],
        bank=bank if method == "qbnorm" else None,
        counts=counts,
        timings=timings,
    )
    shown = logged(parts, -(-len(queries) // size), f"batches of {method}")
    similarities = np.concatenate([part.float().cpu().numpy() for part in shown])
    row = {
        "method": method,
        "seed": seed,
        "queries": len(asked.query_ids),
        "missing_queries": asked.missing,
        "gallery": len(asked.gallery_ids),
        **retrieval.summary(similarities, asked.relevant),
        **{f"hub_{name.removeprefix('hub_')}": value for name, value in retrieval.hubness(similarities).items()},
        **timings.summary(),
        **asdict(counts),
    }
    return {
        "row": {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()},
        "ranks": tuple(int(rank) for rank in retrieval.ranks(similarities, asked.relevant)),
        "query_ids": asked.query_ids,
        "occurrence": tuple(retrieval.k_occurrence(similarities).tolist()),
        "heatmap": tuple(map(tuple, np.round(similarities[:_HEATMAP, :_HEATMAP].astype(np.float64), 4).tolist())),
    }


Picture = dict[str, Any]
"""What a report draws of one run: its scenario's columns, `occurrence` and `heatmap`."""


class FinishedRun(Record):
    """A finished scenario, method and seed, as a line of a journal keeps it."""

    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="constants")

    key: str
    row: ResultRow
    ranks: tuple[int, ...]
    query_ids: tuple[str, ...]
    occurrence: tuple[float, ...]
    heatmap: tuple[tuple[float, ...], ...]

    @model_validator(mode="after")
    def _is_whole(self) -> FinishedRun:
        if self.row.recipe_id != self.key or len(self.ranks) != len(self.query_ids):
            raise ValueError("there must be one rank per query, and the row of the key")
        return self


def _finished(journal: Path) -> dict[str, FinishedRun]:
    if not journal.is_file():
        journal.parent.mkdir(parents=True, exist_ok=True)
        return {}
    done = {}
    for line in jsontext.lines(journal):
        try:
            run = FinishedRun.model_validate_json(line)
        except (ValidationError, RecursionError):
            continue  # cut short by a kill
        done[run.key] = run
    # Anew, so that a line cut short does not swallow the next one.
    storage.write_text(journal, "".join(run.model_dump_json() + "\n" for run in done.values()))
    return done
