"""The summary of a run: what there is, how long it took, what failed, and which versions made it.

Snakemake writes it at the end of every run. It is not a result: it tells times, so no two runs have the same.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from perturbations import __version__
from perturbations.base import shown
from perturbations.base.console import duration
from perturbations.base.storage import write_text
from perturbations.status import files as status_files
from perturbations.status import status
from perturbations.status import text as status_text

PAGE = Path("manifests", "run.html")
_MOST_LINES = 15
_MOST = 4  # of corpora and of rules
_MOST_REASONS = 3


@dataclass(frozen=True)
class Times:
    """What the jobs of one kind took, by their benchmarks.

    Attributes:
        name: "sources", "motion", "mlvp videos", ...
        jobs: their number.
        seconds, cpu_seconds: wall-clock and CPU time of all of them.
        longest_s: the longest job.
        memory_mib: the largest resident memory of a job.
    """

    name: str
    jobs: int
    seconds: float
    cpu_seconds: float
    longest_s: float
    memory_mib: float


@dataclass(frozen=True)
class Summary:
    """A run's summary.

    Attributes:
        status: the state of the folder at the run's end.
        times: of each kind of job, over all runs whose benchmarks are kept; the longest first.
        versions: of the package and of what its results depend on.
        pages: pages about the corpora, relative to the folder.
    """

    status: status.Status
    times: tuple[Times, ...]
    versions: Mapping[str, str]
    pages: tuple[str, ...]


def collect(root: Path) -> Summary:
    """The summary of the workflow's folder `root`."""
    pages = sorted(str(path.relative_to(root)) for path in (root / "manifests").glob("*/*/corpus.html"))
    report = root / "manifests" / "report.html"
    named = [*pages, *(["manifests/report.html"] if report.is_file() else [])]
    return Summary(status.collect(root), tuple(_times(root / "work" / "benchmarks")), _versions(), tuple(named))


def _versions() -> dict[str, str]:
    names = ("snakemake", "numpy", "opencv-python-headless", "av", "pyarrow")
    versions = {"perturbations": __version__, "python": platform.python_version()}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _times(folder: Path) -> Iterator[Times]:
    kinds: dict[str, list[tuple[float, float, float]]] = {}
    for path in sorted(folder.rglob("*.tsv")):
        rows = [line.decode(errors="replace").split("\t") for line in status_files.lines(path)]
        for row in rows[1:]:
            cells = dict(zip(rows[0], row, strict=False))
            measured = tuple(_number(cells.get(name)) for name in ("s", "cpu_time", "max_rss"))
            kinds.setdefault(_kind(path.relative_to(folder).with_suffix("").parts), []).append(measured)  # type: ignore[arg-type]
    total = [
        Times(
            name=name,
            jobs=len(rows),
            seconds=sum(row[0] for row in rows),
            cpu_seconds=sum(row[1] for row in rows),
            longest_s=max(row[0] for row in rows),
            memory_mib=max(row[2] for row in rows),
        )
        for name, rows in kinds.items()
    ]
    yield from sorted(total, key=lambda times: (-times.seconds, times.name))


def _number(cell: str | None) -> float:
    """A benchmark's cell; 0 for one that was not measured."""
    try:
        value = float(cell or "")
    except ValueError:
        return 0.0
    return value if 0 <= value < 1e12 else 0.0


_STAGES = re.compile(r"whole|composed")


def _kind(parts: Sequence[str]) -> str:
    """What a benchmark is of, from its path: DATASET/STAGE/..., or DATASET/SUITE/PERTURBATION/SEVERITY/SHARD."""
    _, *rest = [part for part in parts if not _STAGES.fullmatch(part)] or [""]
    if len(rest) < 2:
        return rest[0] if rest else parts[-1]
    if rest[0] == "analyses":
        return rest[1]
    if rest[0] in ("sources", "evaluation", "adaptation", "results", "features"):
        return rest[0]
    if rest[1] == "captions":
        return f"{rest[0]} captions"
    return f"{rest[0]} videos" if len(rest) == 4 else f"{rest[0]} {rest[-1]}"


# --- for a terminal ---------------------------------------------------------------------------------------------------


def text(summary: Summary, page: Path = PAGE) -> str:
    """The summary for a terminal, at most 15 lines; `page` is where its page is."""
    current = summary.status
    lines = [_result(current.run), *_corpora(current.stages)]
    if summary.times:
        shares = [f"{times.name} {duration(times.seconds)}" for times in summary.times[:_MOST]]
        total = sum(times.seconds for times in summary.times)
        lines.append(f"Time of all jobs: {duration(total)}: {', '.join(shares)}.")
    if current.failures:
        count = sum(failure.count for failure in current.failures)
        more = len(current.failures) - _MOST_REASONS
        listed = f", {more} more reason{'s' if more > 1 else ''} in `perturb status`" if more > 0 else ""
        lines.append(f"{count:,} quarantined or missing{listed}:")
        lines += [status_text.failure_line(failure) for failure in current.failures[:_MOST_REASONS]]
    if current.run is not None:
        lines += status_text.failed_jobs(current.run.failed)
    shown_last = [f"Pages: {', '.join([*summary.pages[:2], str(page)])}."]
    return "\n".join([*lines[: _MOST_LINES - 1], *shown_last])


def _result(run: status_files.Run | None) -> str:
    if run is None:
        return "No run of Snakemake was started here."
    steps = f"{run.steps_done:,} of {run.steps:,} steps done"
    return f"{steps}; {status_text.plural(len(run.failed), 'failed job')}." if run.failed else f"{steps}."


def _corpora(stages: Sequence[status.Stage]) -> list[str]:
    corpora = [stage for stage in stages if stage.suite is not None]
    rows = [
        (
            f"  {stage.suite} {stage.stage} of {stage.dataset}:",
            f"{stage.done:,} of {stage.total:,} {stage.unit}" if stage.total is not None else f"{stage.done:,}",
            f"{stage.failed:,} quarantined" if stage.failed else "",
            shown.size(stage.bytes) if stage.bytes else "",
        )
        for stage in corpora[:_MOST]
    ]
    lines = [shown.line(line) for line in status_text.table(rows, left=1)] if rows else []
    return [*lines, f"  and {len(corpora) - _MOST} more"] if len(corpora) > _MOST else lines


# --- as a page --------------------------------------------------------------------------------------------------------


def write(output: Path, summary: Summary) -> None:
    """Write the page: one HTML file that loads nothing."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("perturbations.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: shown.line(value) if type(value) is str else value,
    )
    filters = {"duration": duration, "size": status_text.size, "short": status_text.short}
    environment.filters.update(filters)
    page = environment.get_template("run.html.j2").render(
        summary=summary, status=summary.status, result=_result(summary.status.run)
    )
    write_text(output, page)
