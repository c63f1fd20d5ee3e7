"""Results of an evaluation: the row of one run, and the journal that keeps rows while a job runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perturbations import retrieval
from perturbations.base import storage
from perturbations.base.checkpoints import library
from perturbations.base.records import canonical
from perturbations.engine import clip_rows
from perturbations.engine.comparability import differences
from perturbations.engine.tally import Tally, TextTally
from perturbations.evaluation.planning import category_of
from perturbations.evaluation.rows import ResultRow, Run, backend_cell, hub_columns
from perturbations.evaluation.scenarios import Retrieval, ScenarioRow, id_of
from perturbations.manifest import layout
from perturbations.manifest.kinds import ClipRow, TextRow
from perturbations.plan.recipe import is_published
from perturbations.retrieval.metrics import retrieved_first

if TYPE_CHECKING:
    from perturbations.tta.recording import Counts


class FinishedRun(NamedTuple):
    """A finished run and its queries, in the order of their ids, as one line of a journal."""

    row: ResultRow
    query_ids: tuple[str, ...]
    ranks: tuple[int, ...]
    retrieved: tuple[str | None, ...]


def read_journal(journal: Path, others: Iterable[Path] = ()) -> dict[str, FinishedRun]:
    """The finished runs of a journal and of other ones by `recipe_id`. Without a journal its folder is created."""
    done: dict[str, FinishedRun] = {}
    for other in others:
        done |= _runs_of(other)
    if not journal.is_file():
        journal.parent.mkdir(parents=True, exist_ok=True)
        return done
    own = _runs_of(journal)
    # Written again, so that the next line is not appended to a line that a kill cut short.
    storage.write_text(journal, "".join(map(_line, own.values())))
    return done | own


def other_journals(journal: Path) -> list[Path]:
    """The journals of the other jobs on the same scenarios, beside a job's own."""
    # Another job that begins writes its journal again: the file that it writes is gone a moment later.
    return [path for path in layout.journals_in(journal.parent) if path != journal and not storage.is_leftover(path)]


def _runs_of(journal: Path) -> dict[str, FinishedRun]:
    """The finished runs of a journal that another job may be writing."""
    done = {}
    for line in journal.read_text("utf-8", errors="replace").split("\n"):
        try:
            row, *queries = json.loads(line)
            run = FinishedRun(ResultRow(**row), *map(tuple, queries))
        except (ValueError, TypeError):
            continue  # the process was killed while it wrote this line
        done[run.row.recipe_id] = run
    return done


def _line(run: FinishedRun) -> str:
    return json.dumps([asdict(run.row), *run[1:]], ensure_ascii=False) + "\n"


def append(journal: Path, run: FinishedRun) -> None:
    """Keep a finished run."""
    with storage.output_errors(journal), journal.open("a", encoding="utf-8") as file:
        file.write(_line(run))


def finished(
    run: Run, task: Retrieval, similarities: NDArray[np.float32], counts: Counts, top_k: int | None, **columns: Any
) -> FinishedRun:
    """The record of a run, from its similarities (queries x gallery) and its counts.

    `columns` are further ones of its row: timings, and the hashes of what it is of.
    """
    ranks = retrieval.ranks(similarities, task.relevant)
    figures: dict[str, Any] = {
        **retrieval.summary_of_ranks(ranks),
        **hub_columns(retrieval.hubness(similarities)),
    }
    row = ResultRow(
        **run.columns(),
        **figures,
        **columns,
        category=category_of(run),
        queries=len(task.queries),
        missing_queries=task.missing,
        gallery=len(task.gallery),
        **asdict(counts),
        backend=backend_cell(backends(run.pretrained, (*task.queries, *task.gallery))),
        tools=canonical(tools()),
    )
    first: list[str | None] = [None] * len(ranks)
    if top_k is not None:
        first = [*retrieved_first(similarities, list(map(id_of, task.gallery)), top_k)]
    return FinishedRun(row, task.query_ids, tuple(ranks.tolist()), tuple(first))


def settings_cell(run: Run, settings: Mapping[str, Any]) -> str:
    """The column `settings` of a result: what all runs of a model share, with what no column of its own has."""
    names = ("adapter", "model", "model_key", "pretrained", "num_frames", "precision", "setting", "steps", "batch_size")
    return canonical({**{name: getattr(run, name) for name in names}, **settings})


def backends(pretrained: str | None, rows: Sequence[ScenarioRow]) -> dict[str, str]:
    """The backend of each model's role, in queries and retrieval, and how the rows differ from published ones."""
    backends = {"retrieval": "pretrained" if pretrained else "demo_encoder"}
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
    if reasons := differences(Tally().counted(videos), TextTally().counted(captions)):
        backends["corpus"] = "; ".join(reasons)
    return dict(sorted(backends.items()))


def tools() -> dict[str, str]:
    """Versions of the libraries that results depend on."""
    return {name: library(name).__version__ for name in ("torch", "transformers", "numpy")}
