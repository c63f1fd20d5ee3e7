"""The journal that keeps an evaluation's results while a job runs, and the columns that say how a row was made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perturbations.base import storage
from perturbations.base.records import canonical
from perturbations.corpus.comparability import differences
from perturbations.corpus.plan.recipe import is_published
from perturbations.corpus.store import clip_rows
from perturbations.corpus.tally import Tally
from perturbations.evaluation.result_rows import Finished, ResultRow, Run
from perturbations.evaluation.run.retrieval_of_scenario import ScenarioRow
from perturbations.manifest import manifest_paths
from perturbations.manifest.rows import ClipRow, TextRow
from perturbations.models.checkpoints import library


class Journal:
    """The finished runs of a job, by a key of everything that they depend on. A line of JSON is written for each run.

    An interrupted job continues where it was. Runs in the journals beside it, of other jobs on the same scenarios, are
    not made again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # A job that begins rewrites its journal: its temporary file may disappear at any moment.
        beside = [
            own for own in manifest_paths.journals_in(path.parent) if own != path and not storage.is_leftover(own)
        ]
        self._done = {key: finished for other in beside for key, finished in _read(other).items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            own = _read(path)
            storage.write_journal(path, [_text(key, finished) for key, finished in own.items()])
            self._done |= own

    def once(self, key: str, make: Callable[[], list[Finished]]) -> list[Finished]:
        """The result of `make`, or the result under this key from before."""
        if key not in self._done:
            self._done[key] = make()
            with storage.output_errors(self._path), self._path.open("ab") as file:
                file.write(storage.journal_line(_text(key, self._done[key])))
        return self._done[key]


def _text(key: str, runs: Iterable[Finished]) -> str:
    return json.dumps([key, [[asdict(row), queries] for row, queries in runs]])


def _read(journal: Path) -> dict[str, list[Finished]]:
    """The results in a journal that another job may be writing."""
    done: dict[str, list[Finished]] = {}
    for text in storage.journal_lines(journal):
        try:
            key, runs = json.loads(text or "")
            done[key] = [(ResultRow(**row), queries) for row, queries in runs]
        except (ValueError, TypeError):
            continue  # a damaged line, or a line of another version
    return done


def settings_cell(run: Run, settings: Mapping[str, Any]) -> str:
    """The column `settings` of a result: what a model's runs share, and `settings` without columns of their own."""
    names = ("adapter", "model", "model_key", "num_frames", "precision", "setting", "steps", "batch_size")
    return canonical({**{name: getattr(run, name) for name in names}, **settings})


def backends(model: str, rows: Sequence[ScenarioRow]) -> dict[str, str]:
    """The backend of each model's role, in queries and retrieval, and how the rows differ from published ones."""
    backends = {"retrieval": "demo_encoder" if model == manifest_paths.at("demo_encoder") else "pretrained"}
    perturbed = [row for row in rows if isinstance(row, ClipRow | TextRow) and row.params]
    for backend in sorted({row.backend for row in perturbed if row.backend}):
        if backend.startswith("{"):
            backends |= clip_rows.backends_of(backend)
        else:
            backends["captions"] = backend
    if not all(map(is_published, perturbed)):
        backends["severities"] = "own parameters"
    videos = [row for row in perturbed if isinstance(row, ClipRow)]
    captions = [row for row in perturbed if isinstance(row, TextRow)]
    if reasons := differences(Tally().counted(videos), Tally().counted(captions)):
        backends["corpus"] = "; ".join(reasons)
    return dict(sorted(backends.items()))


def tools() -> dict[str, str]:
    """Versions of the libraries that results depend on."""
    return {name: library(name).__version__ for name in ("torch", "transformers", "numpy")}
