"""What jobs keep in `work`: the parts of manifests, and the journals and markers that belong to them.

`perturb verify` compares them with each other and with the files in `corpora`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import product
from pathlib import Path

import yaml

from perturbations.base import storage, tars
from perturbations.base.errors import ManifestError
from perturbations.corpus.plan import clip_lists
from perturbations.corpus.plan.clip_lists import ListedClip
from perturbations.corpus.store import journal
from perturbations.manifest import files, manifest_paths
from perturbations.manifest.rows import VIDEOS, VideoRow
from perturbations.media import profiles

_PROFILES = (*profiles.PROFILES.values(), *profiles.PICTURES.values())
_EXTENSIONS = {*(profile.extension for profile in _PROFILES), profiles.FRAMES_EXTENSION}
"""The extensions of stored clips."""


class CorpusParts:
    """The parts of a suite on a collection in the tree `root`: of the last plan, and of earlier plans.

    Without a record of the last plan, no part counts as one of an earlier plan.

    Attributes:
        planned: the parts in the last plan.
        earlier: the parts of clips, severities, suites and shards that were removed since.
    """

    def __init__(self, root: Path, dataset: str, suite: str) -> None:
        self.root, self.dataset, self.suite = root, dataset, suite
        self.clips = root / manifest_paths.CORPORA / dataset / suite
        self._shards = {*clip_lists.shards(root / manifest_paths.folder("shard_list", dataset=dataset))}
        self._scenarios: set[str] = set()
        self._since = 0.0
        recipes = root / manifest_paths.at("video_recipes", dataset=dataset, suite=suite)
        with suppress(ManifestError, ValueError, OSError):
            self._scenarios, self._since = {*clip_lists.read_texts(recipes)}, recipes.stat().st_mtime
        manifest = root / manifest_paths.at("videos", dataset=dataset, suite=suite)
        self._is_taken_out = not manifest.exists() and self._is_not_configured()
        every = sorted(root.glob(manifest_paths.any_of("video_part", dataset=dataset, suite=suite)))
        every = [part for part in every if self._fields(part)]
        self.planned = list(filter(self._is_planned, every))
        self.earlier = [part for part in every if part not in {*self.planned}]

    def _is_not_configured(self) -> bool:
        """Whether the suite or the dataset was removed from `config.yaml` after the parts were made."""
        parts = (self.root / manifest_paths.WORK / self.dataset / self.suite).glob("*/*/s*.*")
        latest = max((path.stat().st_mtime for path in parts), default=0.0)
        try:
            path = self.root / "config.yaml"
            written = yaml.safe_load(path.read_text("utf-8"))
            named = self.suite in written["suites"] and self.dataset.partition("/")[0] in written["datasets"]
            return not named and latest < path.stat().st_mtime
        except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
            return False

    def _fields(self, path: Path) -> dict[str, str]:
        """The perturbation, the severity and the shard of a part or a marker; empty for another file."""
        kind, fields = manifest_paths.place_of(path.relative_to(self.root).as_posix()) or ("", {})
        return fields if kind in ("video_part", "clip_marker") else {}

    def _is_planned(self, path: Path) -> bool:
        """Whether the last plan contains the job of a part or marker, or an evaluation has asked for it since."""
        fields = self._fields(path)
        scenario = f"{fields['perturbation']}/{fields['severity']}"
        is_asked = scenario in self._scenarios or path.stat().st_mtime > self._since
        is_listed = not self._shards or fields["shard"] in self._shards
        return is_listed and is_asked and not self._is_taken_out

    def rows(self) -> Iterator[VideoRow]:
        """The rows of the planned parts, as far as these can be read."""
        for part in self.planned:
            with suppress(ManifestError):
                yield from files.read_rows(part, VIDEOS)

    def untrue_markers(self) -> Iterator[Path]:
        """The markers of planned parts that contradict the rows of the parts."""
        for part in self.planned:
            marker = self.root / manifest_paths.at("clip_marker", **self._fields(part))
            with suppress(ManifestError, OSError):
                columns = files.read_columns(part, "path", "bytes").to_pydict()
                if marker.read_bytes() != journal.marker_of(zip(*columns.values(), strict=True)).encode():
                    yield marker

    def unnamed_files(self, named: set[str]) -> Iterator[tuple[Path, bool]]:
        """The files in the folder of clips that neither `named` (paths from the root) nor a planned part names.

        Each comes with whether a job of the run wrote it. Files of unfinished jobs are left out.
        """
        named = named.union(*map(_names_in, self.planned))
        by_earlier: set[str] = set().union(*map(_names_in, self.earlier))
        for path in manifest_paths.files_below(self.clips):
            name = path.relative_to(self.root).as_posix()
            kind, _ = manifest_paths.place_of(name) or ("", {})
            if storage.is_leftover(path) or name in by_earlier - named:
                yield path, True
            elif kind == "clip_marker":
                if not self._is_planned(path):
                    yield path, True
            elif name not in named:
                scenario = path.parent.relative_to(self.clips).as_posix()
                folder, _ = manifest_paths.place_of(name.rpartition("/")[0]) or ("", {})
                is_own = kind == "clip_tar" or (folder == "clips" and self._is_of_a_job(path, scenario))
                if not (is_own and scenario in self._unfinished):
                    yield path, is_own

    @cached_property
    def _unfinished(self) -> set[str]:
        """The planned scenarios without one of their parts."""
        there = {("/".join(part.parts[-3:-1]), part.stem) for part in self.planned}
        due = product(self._scenarios, self._shards)
        return {scenario for scenario, shard in due if (scenario, shard) not in there}

    def _is_of_a_job(self, path: Path, scenario: str) -> bool:
        """Whether a file in the folder of a scenario has a clip's name, or the content of a clip in a journal."""
        if any(path.name.removesuffix(end) in self._stems for end in _EXTENSIONS if path.name.endswith(end)):
            return True
        journals = manifest_paths.journals_in(self.root / manifest_paths.WORK / self.dataset / self.suite / scenario)
        with suppress(OSError):
            return any(storage.sha256(path) in journal.hashes(own) for own in journals)
        return False

    @cached_property
    def _stems(self) -> set[str]:
        """The beginnings of the names of stored clips."""
        folder = self.root / manifest_paths.folder("shard_list", dataset=self.dataset)
        with suppress(ManifestError, ValueError, TypeError):
            lists = clip_lists.read_folder(folder, ListedClip)
            return {storage.file_stem(clip.item_id) for clips in lists.values() for clip in clips}
        return set()


def _names_in(part: Path) -> set[str]:
    """The files that hold the clips of a part, by paths from the root; none where the part cannot be read."""
    try:
        return {tars.file_of(path) for path in files.read_columns(part, "path")["path"].to_pylist() if path}
    except ManifestError:
        return set()


def damaged(work: Path) -> Iterator[tuple[Path, str]]:
    """The parts, journals and markers of captions in a folder below `work` that are damaged, and why."""
    for path in sorted(work.rglob("*")):
        if storage.is_leftover(path) or not path.is_file():
            continue
        tree = manifest_paths.in_tree(path, manifest_paths.WORK)
        kind, _ = (tree and manifest_paths.place_of(tree[1].as_posix())) or ("", {})
        folder, _ = (tree and manifest_paths.place_of(tree[1].parent.as_posix())) or ("", {})
        if folder == "analysis_files":  # the files of guides, which are no manifests; rows hold their hashes
            continue
        try:
            if manifest_paths.is_manifest(path):
                files.read_metadata(path)
            elif path.suffix == ".jsonl" and not kind:
                lines = [number for number, text in enumerate(storage.journal_lines(path), 1) if text is None]
                if lines:
                    yield path, f"line {lines[0]} is not what a job wrote"
            elif kind == "text_marker" and not is_true_text_marker(path):
                yield path, "its parts are not those that the job wrote"
        except ManifestError as error:
            yield path, str(error).removeprefix(f"{path} ")
        except OSError as error:
            yield path, f"it cannot be read: {error.strerror}"


def is_true_text_marker(marker: Path) -> bool:
    """Whether the parts of captions that a marker lists exist and have the listed sizes."""
    try:
        sizes = json.loads(marker.read_text("utf-8"))
        return all((marker.parent / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False
