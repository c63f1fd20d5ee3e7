"""Results of an evaluation: the row of one run, and the journal that keeps rows while a job runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, ValidationError, model_validator

from perturbations import retrieval
from perturbations.base import storage
from perturbations.base.checkpoints import library
from perturbations.base.records import Record
from perturbations.engine import guided
from perturbations.engine.comparability import differences
from perturbations.engine.tally import Tally, TextTally
from perturbations.evaluation.keys import order_of
from perturbations.evaluation.planning import EvaluationSettings, ScenarioSettings
from perturbations.evaluation.result_sets import retrieved_first
from perturbations.evaluation.rows import WHOLE_GALLERY, ResultRow, backend_cell
from perturbations.evaluation.scenarios import Retrieval, ScenarioRow, id_of
from perturbations.manifest import layout
from perturbations.manifest.kinds import ClipRow, TextRow
from perturbations.plan.recipe import is_published

if TYPE_CHECKING:
    from perturbations.tta.recording import Counts


class FinishedRun(Record):
    """A finished run (scenario, method and seed), as one line of a journal."""

    model_config = ConfigDict(allow_inf_nan=True, ser_json_inf_nan="constants")

    key: str
    row: ResultRow
    ranks: tuple[int, ...]
    query_ids: tuple[str, ...]
    retrieved: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> FinishedRun:
        if self.row.recipe_id != self.key or len(self.ranks) != len(self.query_ids):
            raise ValueError("there must be one rank per query, and the row of the key")
        return self


def read_journal(journal: Path) -> dict[str, FinishedRun]:
    """The finished runs of a journal by their keys. Without a journal there are none, and its folder is created."""
    if not journal.is_file():
        journal.parent.mkdir(parents=True, exist_ok=True)
        return {}
    done = runs_of(journal)
    # Written again, so that the next line is not appended to a line that a kill cut short.
    storage.write_text(journal, "".join(run.model_dump_json() + "\n" for run in done.values()))
    return done


def other_journals(journal: Path) -> list[Path]:
    """The journals of the other jobs on the same scenarios, beside a job's own."""
    # Another job that begins writes its journal again: the file that it writes is gone a moment later.
    return [path for path in layout.journals_in(journal.parent) if path != journal and not storage.is_leftover(path)]


def runs_of(journal: Path) -> dict[str, FinishedRun]:
    """The finished runs of a journal that another job may be writing."""
    done = {}
    for line in journal.read_text("utf-8", errors="replace").split("\n"):
        try:
            run = FinishedRun.model_validate_json(line)
        except ValidationError:
            continue  # the process was killed while it wrote this line
        done[run.key] = run
    return done


def append(journal: Path, run: FinishedRun) -> None:
    """Keep a finished run."""
    with storage.output_errors(journal), journal.open("a", encoding="utf-8") as file:
        file.write(run.model_dump_json() + "\n")


def finished(
    settings: EvaluationSettings,
    scenario: ScenarioSettings,
    task: Retrieval,
    similarities: NDArray[np.float32],
    of_run: Mapping[str, Any],
    counts: Counts,
    timings: Mapping[str, float],
) -> FinishedRun:
    """The record of a run, from its similarities (queries x gallery), its counts and its timings.

    `of_run` holds the columns that tell it from other runs of the job, and the hashes of what it is of.
    """
    k = settings.get("top_k")
    ranks = retrieval.ranks(similarities, task.relevant)
    hubness = retrieval.hubness(similarities)
    figures = {
        **retrieval.summary_of_ranks(ranks),
        **{f"hub_{name.removeprefix('hub_')}": value for name, value in hubness.items()},
        **timings,
    }
    measured: dict[str, Any] = {name: float(value) for name, value in figures.items()}
    measured |= {name: value for name, value in settings.items() if name in _OF_SETTINGS}
    row = ResultRow(
        **{name: value for name, value in scenario.items() if name != "level"},
        category=scenario["level"],
        **of_run,
        pooling=settings["model"],
        gallery_name=WHOLE_GALLERY,
        order=order_of(of_run["seed"]),
        queries=len(task.queries),
        missing_queries=task.missing,
        gallery=len(task.gallery),
        **measured,
        updates=counts.updates,
        empty=counts.empty,
        non_finite=counts.non_finite,
        backend=backend_cell(backends(settings["pretrained"], (*task.queries, *task.gallery))),
        manifest_sha256="",
        settings="",
        tools="",
    )
    return FinishedRun(
        key=row.recipe_id,
        row=row,
        ranks=tuple(ranks.tolist()),
        query_ids=task.query_ids,
        retrieved=tuple(retrieved_first(similarities, list(map(id_of, task.gallery)), k)) if k else (),
    )


_OF_SETTINGS = frozenset(
    ["adapter", "model", "model_key", "pretrained", "num_frames", "precision", "setting", "steps", "batch_size"]
)
"""Columns of results that are settings of their job."""


def shared_settings(settings: EvaluationSettings) -> dict[str, object]:
    """The settings that all runs of a model share."""
    return {name: value for name, value in settings.items() if name not in ("methods", "seeds", "scenarios")}


def backends(pretrained: str | None, rows: Sequence[ScenarioRow]) -> dict[str, str]:
    """The backend of each model's role, in queries and retrieval, and how the rows differ from published ones."""
    backends = {"retrieval": "pretrained" if pretrained else "demo_encoder"}
    perturbed = [row for row in rows if isinstance(row, ClipRow | TextRow) and row.params]
    for backend in sorted({row.backend for row in perturbed if row.backend}):
        if backend.startswith("{"):
            backends |= guided.backends_of(backend)
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
