"""Results of an evaluation: the journal that keeps them while a job runs, and what a row says of its making."""

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
    """The finished runs of a job, by the key of all that they depend on: a line of JSON each, as soon as it is made.

    An interrupted job goes on where it was; what is in the journals beside it, of other jobs on the same scenarios, is
    not made again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Another job that begins writes its journal again: the file that it writes is gone a moment later.
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
        """What `make` gives, or gave before under this key."""
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
            continue  # the line is not as it was written, or another version's
    return done


def settings_cell(run: Run, settings: Mapping[str, Any]) -> str:
    """The column `settings` of a result: what all runs of a model share, with what no column of its own has."""
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
