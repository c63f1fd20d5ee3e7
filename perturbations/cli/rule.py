"""`perturb rule NAME`: the job of a rule, a function of the rule's name, with the job's settings and paths.

    perturb rule mixes --videos d/s/videos.parquet --sources d/sources.parquet --severities a.parquet --types b.parquet
    perturb rule results '{"skipped": []}' --parts+ 1.parquet 2.parquet --results r.parquet --ranks k.parquet

JSON objects hold the settings. After `--name` comes one path, or nothing where there is none; after `--name+` come
any number.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from perturbations.base import plugins, storage
from perturbations.manifest import manifest_paths
from perturbations.manifest.manifest_paths import TOP

JOBS = {
    "perturbations.corpus.jobs.clip_jobs": ("sources", "analyses", "videos"),
    "perturbations.corpus.jobs.caption_jobs": (
        *("captions", "questions", "rejected_captions", "check_captions", "texts", "texts_manifest", "multimodal"),
    ),
    "perturbations.corpus.jobs.manifest_jobs": (
        *("sources_manifest", "analyses_manifest", "videos_manifest", "mixes", "check_quarantine"),
    ),
    "perturbations.composed.split_jobs": ("composed_split",),
    "perturbations.demo.train_encoder": ("demo_encoder",),
    "perturbations.evaluation.evaluation_jobs": ("check_model", "gallery", "evaluate", "results", "results_page"),
    "perturbations.pages.captions_page": ("captions_page",),
    "perturbations.pages.corpus_page": ("corpus_page",),
    "perturbations.pages.preview_sheet": ("preview",),
}
"""Module -> the rules whose jobs are its functions of the same names."""


def prepared(words: Sequence[str]) -> Callable[[], None]:
    """A job, in the folder where it works; `words` are the rule's name, its settings and its paths."""
    name, *given = words
    root = root_of(words)
    gc.disable()  # imports make objects that stay: to look through them again and again is a fifth of a job's start
    try:
        settings = arguments(given, root)
        work = partial(job(name), **settings)
    finally:
        gc.freeze()
        gc.enable()
    os.chdir(root)
    plugins.use_recorded()
    return partial(_recorded, work, [path for path in settings.values() if isinstance(path, Path)])


def _recorded(work: Callable[[], None], paths: Sequence[Path]) -> None:
    """Do a job, and keep in `work` the SHA-256 of each manifest that it has written: `perturb verify` compares it."""
    before = {path: path.stat().st_mtime_ns for path in paths if manifest_paths.is_manifest(path) and path.is_file()}
    work()
    for path in filter(manifest_paths.is_manifest, paths):
        record = manifest_paths.record_of(path)
        if record is not None and path.is_file() and path.stat().st_mtime_ns != before.get(path):
            storage.write_text(record, f"{storage.sha256(path)}\n")


def root_of(words: Sequence[str]) -> Path:
    """The folder of work/, manifests/ and corpora/: a module's `prefix:`, which Snakemake puts before all paths.

    Jobs work there, so that what they write into lists and manifests begins with these three.
    """
    for word in words:
        parts = Path(word).parts
        top = next((place for place, part in enumerate(parts) if part in TOP), 0)
        if top and not word.startswith(("/", "{")):
            return Path(*parts[:top])
    return Path()


def job(rule: str) -> Callable[..., None]:
    """The function of a rule."""
    module = next(module for module, rules in JOBS.items() if rule in rules)
    function: Callable[..., None] = getattr(importlib.import_module(module), rule)
    return function


def arguments(words: Sequence[str], root: Path = Path()) -> dict[str, Any]:
    """A function's arguments from the words of a command: settings, paths from `root` on, and lists of paths."""
    settings: dict[str, Any] = {}
    paths: dict[str, list[Path]] = {}
    option = ""
    for word in words:
        if word.startswith("--"):
            option = word.removeprefix("--").replace("-", "_")
            paths[option] = []
        elif option:
            path = Path(word)
            paths[option].append(path.relative_to(root) if path.is_relative_to(root) else path)
        else:
            settings |= json.loads(word)
    of_lists = {name.removesuffix("+"): files for name, files in paths.items() if name.endswith("+")}
    of_files = {name: files[0] for name, files in paths.items() if files and not name.endswith("+")}
    return {**settings, **of_files, **of_lists}
