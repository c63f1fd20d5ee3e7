"""The features of a corpus's clips and captions, in the files that `perturb score` reads."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perturbations.base.errors import ConfigError, ManifestError, short
from perturbations.base.readers import Reader
from perturbations.base.records import digest
from perturbations.corpus.plan import clip_lists
from perturbations.evaluation.features import feature_reading, feature_sets
from perturbations.evaluation.models.encoder_loading import LoadedBackbone
from perturbations.evaluation.plan.planned_runs import ALL
from perturbations.evaluation.result_rows import ScenarioKey
from perturbations.evaluation.run import query_encoding
from perturbations.evaluation.run.retrieval_of_scenario import Clean, id_of, usable
from perturbations.manifest import files, locations, manifest_paths
from perturbations.manifest.rows import (
    CAPTIONS,
    MIXES,
    QUARANTINE,
    SOURCES,
    TEXTS,
    VIDEOS,
    CaptionRow,
    MixRow,
    RowKind,
    SourceRow,
    TextRow,
)

CLIPS_FOLDER, CAPTIONS_FOLDER = "clips", "captions"
_KINDS = (SOURCES, VIDEOS, MIXES, CAPTIONS, TEXTS)

_Group = tuple[str, ScenarioKey | None]
"""The folder of a feature file, and its scenario."""


def write(
    given: Sequence[Path], output: Path, backbone: LoadedBackbone, num_frames: int, reader: Reader = "pyav"
) -> Iterator[str]:
    """Encode the rows of manifests of sources, videos, mixes or captions; yields a line per file.

    A folder means all manifests below it. Clips go to `output`/clips, captions to `output`/captions, in files that
    `feature_sets.path_of` names. A clip's feature is the mean over its frames; ids are the ids of items and captions.
    The clips and captions are the same as in an evaluation: complete clips, and accepted captions, of complete sources.
    `t2v.csv` and `v2t.csv` say which item answers which query, and list all queries of the manifests, so that queries
    without features count as missing.

    Raises `ManifestError` for manifests of other kinds or of several datasets, for captions whose sources are not
    found, for two rows of one clip or caption, and where no row is left; `ConfigError` where `output` has features of
    another model.
    """
    encoder = digest([backbone.sha256, num_frames])
    for path in sorted(output.rglob("*.npz")):
        if feature_reading.encoder_of(path) not in ("", encoder):
            raise ConfigError(f"{path} is of another model or number of frames: delete {output}, or give another -o")
    groups: dict[_Group, list[Any]] = defaultdict(list)
    rejected = 0
    sources: dict[str, SourceRow] = {}
    for path, kind in _manifests(given):
        about = files.read_metadata(path)
        root = _root(path, about)
        if kind is CAPTIONS:
            rejected += _rejected(root, str(about.get("dataset", "")))
        for row in files.read_rows(path, kind):
            is_text = isinstance(row, CaptionRow | TextRow)
            groups[_group(row)].append(row if is_text else locations.located(row, root))
            if isinstance(row, SourceRow):
                sources[row.item_id] = row
            elif not sources or row.item_id not in sources:
                sources |= {own.item_id: own for own in _sources(root, row.dataset, path)}
    if not groups:
        raise ManifestError("no row can be encoded: the manifests are empty")
    if len(datasets := {row.dataset for rows in groups.values() for row in rows}) > 1:
        raise ManifestError(f"the manifests are of {', '.join(sorted(datasets))}: encode one dataset at a time")
    clean = Clean(list(sources.values()), groups.get((CAPTIONS_FOLDER, None), []), rejected)
    for (name, scenario), rows in sorted(groups.items(), key=str):
        path = feature_sets.path_of(output / name, scenario)
        _check_once(path, rows)
        is_text = name == CAPTIONS_FOLDER
        kept = usable(rows, clean, "captions" if is_text else "clips")
        if not kept:
            raise ManifestError(f"{path}: no row can be encoded, all are quarantined or rejected")
        ids = [*map(id_of, kept)]
        features = query_encoding.vectors(query_encoding.encoded(backbone, kept, num_frames, reader))
        feature_reading.write(path, ids, features, encoder)
        yield f"{path}: {len(ids):,} {'captions' if is_text else 'clips'}, {features.shape[1]} numbers each"
    if clean.captions:
        _write_answers(output / CAPTIONS_FOLDER, clean)


def _manifests(given: Sequence[Path]) -> Iterator[tuple[Path, RowKind[Any]]]:
    """The manifests to encode, and their kinds; in a folder, all manifests of the right kinds."""
    for path in given:
        parts = manifest_paths.manifests_below(path) if path.is_dir() else [path]
        if not parts:
            raise ManifestError(f"{path} holds no manifest")
        for part in parts:
            kind = files.kind_of(part)
            if kind in _KINDS:
                yield part, kind
            elif part == path:
                raise ManifestError(f"{part} is a manifest of {kind.name}: features are of sources, videos or captions")


def _write_answers(folder: Path, clean: Clean) -> None:
    """Write which item answers which query; a query that no item can answer has an empty answer."""
    pairs = [(row.caption_id, row.item_id) for row in clean.captions]
    rejected = [(f"rejected caption {number}", "") for number in range(1, clean.rejected + 1)]
    feature_sets.write_answers(folder / "t2v.csv", [*pairs, *rejected])
    described = {item for _, item in pairs}
    without = [(row.item_id, "") for row in clean.sources if row.item_id not in described]
    feature_sets.write_answers(folder / "v2t.csv", [*((item, caption) for caption, item in pairs), *without])


def _rejected(root: Path, dataset: str) -> int:
    """How many captions of a dataset cannot be used: from their manifest, or else from the run's list."""
    manifest, lines = (
        root / manifest_paths.at(kind, dataset=dataset) for kind in ("captions_quarantine", "rejected_captions")
    )
    if manifest.is_file():
        return len(files.read_rows(manifest, QUARANTINE))
    return len(clip_lists.read(lines, SourceRow)) if lines.is_file() else 0


def _group(row: Any) -> _Group:
    folder = CAPTIONS_FOLDER if isinstance(row, CaptionRow | TextRow) else CLIPS_FOLDER
    if isinstance(row, MixRow):
        name = ALL if row.perturbation is None or row.share is not None else row.perturbation
        return folder, ScenarioKey(row.suite, name, mix=row.mix, share=row.share)
    if isinstance(row, CaptionRow | SourceRow):
        return folder, None
    return folder, ScenarioKey(row.suite, row.perturbation, row.severity)


def _root(path: Path, about: Mapping[str, object]) -> Path:
    """The folder from which the paths in rows start. For a part of a job it is the folder that contains `work`."""
    tree = None if "root" in about else manifest_paths.in_tree(Path(os.path.abspath(path)), manifest_paths.WORK)
    return locations.root_of(path, about) if tree is None else tree[0]


def _sources(root: Path, dataset: str, path: Path) -> list[SourceRow]:
    """The sources of a dataset beside its other manifests."""
    beside = root / manifest_paths.at("sources", dataset=dataset)
    if not beside.is_file():
        raise ManifestError(f"{path}: which clips are complete says {beside}, which is not there; name it first")
    return list(files.read_rows(beside, SOURCES))


def _check_once(path: Path, rows: Sequence[Any]) -> None:
    ids = Counter(row.caption_id if isinstance(row, CaptionRow | TextRow) else row.item_id for row in rows)
    (name, count), *_ = ids.most_common(1)
    if count > 1:
        raise ManifestError(f"{path}: {count} rows of {short(name)}; name each manifest once, and no parts of old runs")
