"""What the files of a run say of its progress: lists, parts, journals, locks, logs. Read only; standard library only.

A run may be writing these files, or may have been killed while it wrote: what cannot be read counts as not done.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from perturbations.base import processes, storage
from perturbations.plan import workplace

_ID = 32  # a journal's line begins with the recipe id, in hex digits
_BYTES = re.compile(rb'"bytes":(\d+)')
_STATUSES = re.compile(rb'"statuses": (\{[^{}]{0,200}\})')
_LONGEST_FOOTER = 16 * 2**20
_TAIL = 64 * 1024


@dataclass(frozen=True)
class Entry:
    """A file of a folder: its size in bytes, and when it was changed, in seconds."""

    path: str
    size: int
    changed: float


def entries(folder: Path) -> dict[str, Entry]:
    """The files of a folder by name; empty where there is none."""
    files = {}
    try:
        with os.scandir(folder) as scanned:
            for entry in scanned:
                try:
                    if entry.is_file():
                        status = entry.stat()
                        files[entry.name] = Entry(entry.path, status.st_size, status.st_mtime)
                except OSError:
                    continue  # renamed or deleted meanwhile
    except OSError:
        pass
    return files


def folders(folder: Path) -> list[str]:
    """The names of a folder's folders, sorted; empty where there is none."""
    try:
        with os.scandir(folder) as scanned:
            return sorted(entry.name for entry in scanned if entry.is_dir())
    except OSError:
        return []


def _content(path: str | Path) -> bytes:
    """A file's bytes; empty where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _tail(path: str | Path) -> str:
    """The end of a text file; empty where there is none."""
    return _content(path)[-_TAIL:].decode(errors="replace")


def lines(path: str | Path) -> list[bytes]:
    """The lines of a list file."""
    return _content(path).splitlines()


def listed(folder: Path) -> dict[str, int]:
    """The number of listed items per shard."""
    return {
        name.removesuffix(".jsonl"): _content(entry.path).count(b"\n")
        for name, entry in sorted(entries(folder).items())
        if name.endswith(".jsonl") and not storage.is_leftover(Path(name))
    }


def scenarios(path: Path) -> list[str]:
    """The scenarios of a file of recipes, PERTURBATION/SEVERITY."""
    names = []
    for line in lines(path):
        try:
            name, _ = json.loads(line)
            perturbation, severity = str(name).split("/")
        except (ValueError, TypeError, RecursionError):
            continue
        if perturbation.isidentifier() and severity.isdigit():
            names.append(str(name))
    return names


def begun(folder: Path) -> list[str]:
    """The scenarios of which a folder holds files, PERTURBATION/SEVERITY: of evaluations, which list no recipes."""
    return [
        f"{name}/{severity}"
        for name in folders(folder)
        if name.isidentifier()
        for severity in folders(folder / name)
        if severity.isdigit()
    ]


def statuses(path: str) -> dict[str, int] | None:
    """The number of a part's rows per status, from the end of the Parquet file; None where it says nothing of the kind.

    The file's metadata, which hold this package's JSON uncompressed, come before its last 8 bytes: their length and a
    magic number. A Parquet library would take most of the time that all other files of a run take.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 8))
            end = file.read(8)
            length = int.from_bytes(end[:4], "little")
            if end[4:] != b"PAR1" or length > min(size - 8, _LONGEST_FOOTER):
                return None
            file.seek(size - 8 - length)
            match = _STATUSES.search(file.read(length))
    except OSError:
        return None
    if match is None:
        return None
    try:
        return {str(name): int(count) for name, count in json.loads(match[1]).items()}
    except (ValueError, TypeError):
        return None


def journal(path: str) -> tuple[int, int]:
    """The number of finished items of a journal, and the bytes of their files.

    A line that is not whole does not count, and an item that was made twice counts once.
    """
    sizes: dict[bytes, int] = {}
    for line in _content(path).split(b"\n")[:-1]:
        if line.endswith(b"}") and line[_ID : _ID + 1] == b"{":
            match = _BYTES.search(line, _ID)
            sizes[line[:_ID]] = int(match[1]) if match else 0
    return len(sizes), sum(sizes.values())


def is_held(entry: Entry | None) -> bool:
    """Whether a job holds a shard: its lock names a process, which lives, as far as can be seen from this machine."""
    if entry is None or not entry.size:
        return False
    return processes.lives(_content(entry.path)[:300].decode(errors="replace")) is not False


_OWN = "perturb: "  # the package's errors begin with it
_DONE = re.compile(r"(\d+)/(\d+) \[(?:(\d+):)?(\d+):(\d+)<")
_KEPT = re.compile(r"(\d+) of \d+ were finished before and are kept")


def log(path: str | Path) -> tuple[int, int, int]:
    """What a job has done by its log: all items that it passed, those that were finished before, and its seconds."""
    text = _tail(path)
    done = kept = seconds = 0
    for match in _DONE.finditer(text):
        hours, minutes, rest = (int(part or 0) for part in match.group(3, 4, 5))
        done, seconds = int(match[1]), 3600 * hours + 60 * minutes + rest
    for match in _KEPT.finditer(text):
        kept = int(match[1])
    return done, kept, seconds


def benchmark_seconds(path: str) -> float | None:
    """The wall-clock time of a finished job, from its benchmark; None where there is none."""
    rows = lines(path)
    try:
        seconds = float(rows[1].split(b"\t")[0])
    except (IndexError, ValueError):
        return None
    return seconds if 0 <= seconds < math.inf else None


@dataclass(frozen=True)
class FailedJob:
    """A job that failed: its rule, its log, relative to the workflow's folder, and the log's last line."""

    rule: str
    log: str
    reason: str


@dataclass(frozen=True)
class RecordedRun:
    """What Snakemake's own files say of the newest run."""

    running: bool  # its lock is there: it runs, unless it was killed on another machine
    killed: bool  # its lock is there, and the process that this package noted is not
    log: str  # relative to the workflow's folder
    age_s: float  # since the log's last line
    steps_done: int
    steps: int  # 0 before the first has ended
    failed: tuple[FailedJob, ...]  # whose results are not there


_JOBS = "Job stats:"
_STEPS = re.compile(r"(\d+) of (\d+) steps \(")
_ERROR = re.compile(r"^Error in rule (\w+):\n((?:    .*\n)+)", re.MULTILINE)


def snakemake(root: Path) -> RecordedRun | None:
    """The newest run of the workflow in a folder; None where there was none."""
    logs = entries(root / ".snakemake" / "log")
    names = sorted(name for name in logs if name.endswith(".snakemake.log"))
    if not names:
        return None
    # `snakemake --report` and others write logs too; that of a run has its jobs.
    for name in reversed(names[-20:]):
        text = _content(logs[name].path).decode(errors="replace")
        if _JOBS in text:
            break
    else:
        return None
    newest = logs[name]
    steps = [(int(match[1]), int(match[2])) for match in _STEPS.finditer(text)]
    done, total = steps[-1] if steps else (0, 0)
    locks = [entry.changed for name, entry in entries(root / ".snakemake" / "locks").items() if name.endswith(".lock")]
    process = entries(root / workplace.RUN.parent).get(workplace.RUN.name)
    is_noted = process is not None and locks and process.changed >= min(locks)  # else by an earlier run
    killed = bool(is_noted) and processes.lives(_content(root / workplace.RUN).decode(errors="replace")) is False
    age = max(0.0, time.time() - newest.changed)
    failed = tuple(_failed_jobs(root, text))
    return RecordedRun(bool(locks) and not killed, killed, f".snakemake/log/{name}", age, done, total, failed)


def began(run: RecordedRun | None) -> float:
    """When a run began, in seconds since 1970: its log is named after it. 0 without a run."""
    if run is None:
        return 0.0
    try:
        return datetime.strptime(Path(run.log).name.partition(".")[0], "%Y-%m-%dT%H%M%S").timestamp()
    except ValueError:
        return 0.0


def _failed_jobs(root: Path, text: str) -> Iterator[FailedJob]:
    """The jobs that a run's log calls failed, each once, without those that another try has done."""
    jobs = {}
    for match in _ERROR.finditer(text):
        named = dict(line.strip().partition(": ")[::2] for line in match[2].splitlines())
        output = named.get("output", "").split(", ")[0].removesuffix(" (send to storage)")
        log = named.get("log", "").removesuffix(" (check log file(s) for error details)").split(", ")[0]
        if not output or not (root / output).exists():
            jobs[match[1], output] = log
    for (rule, _), log_path in jobs.items():
        written = [line for line in _tail(root / log_path).splitlines() if line.strip()] if log_path else []
        own = [line for line in written if line.startswith(_OWN)]
        reason = (own or written or ["no line in its log"])[-1]
        yield FailedJob(rule, log_path, reason.removeprefix(_OWN))


def quarantined(path: str | Path) -> Iterator[tuple[str, str, str]]:
    """The quarantined and missing rows of a Parquet file: item, stage, reason; nothing where it cannot be read."""
    columns = _columns(path, "item_id", "stage", "error", "status")
    for item_id, stage, error, status in zip(*columns, strict=True):
        if status != "complete":
            yield str(item_id), str(stage or ""), str(error or "")


def bytes_of(path: str | Path) -> int:
    """The sum of a manifest's column `bytes`; 0 where it cannot be read."""
    return sum(int(count or 0) for column in _columns(path, "bytes") for count in column)


def _columns(path: str | Path, *names: str) -> list[list[Any]]:
    """Columns of a Parquet file; none where it cannot be read. `read_table` would load pyarrow's data sets first."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            table = file.read(columns=list(names))
            return [table[name].to_pylist() for name in names]
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return []
