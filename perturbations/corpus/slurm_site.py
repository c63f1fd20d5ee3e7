"""What a Slurm cluster allows, asked before the first job, and which requests of a run it will never grant.

Each answer is optional: a cluster without accounting, or whose Slurm prints less, is checked by the answers it gives.
"""

from __future__ import annotations

import getpass
import math
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from perturbations.base import shown

if TYPE_CHECKING:
    from perturbations.corpus.check_before_a_run import Report

_PATIENCE_S = 30.0
"""How long a command of Slurm may take to answer."""

_Record = dict[str, str]


@dataclass(frozen=True)
class JobRequest:
    """What a job asks of Slurm; None where nothing was asked for.

    Attributes:
        minutes, mb: time and memory.
        partition, account, qos: names; several partitions or accounts have commas between them.
    """

    rule: str
    cpus: int
    minutes: int | None = None
    mb: int | None = None
    gpus: int = 0
    partition: str | None = None
    account: str | None = None
    qos: str | None = None

    @classmethod
    def of(cls, rule: str, cpus: int, resources: Mapping[str, Any]) -> Self:
        """The request of a Snakemake job, from its resources."""
        names = (resources.get(key) for key in ("slurm_partition", "slurm_account", "qos"))
        numbers = (resources.get(key) for key in ("runtime", "mem_mb", "gpu"))
        minutes, mb, gpus = (number if isinstance(number, int) else None for number in numbers)
        return cls(rule, cpus, minutes, mb, gpus or 0, *(str(name) if name else None for name in names))


@dataclass(frozen=True)
class Partition:
    """The most that one job gets in a partition; infinity where there is no limit, or Slurm does not say."""

    minutes: float = math.inf
    mb: float = math.inf
    cpus: float = math.inf
    has_gpus: bool = True


def answer(*command: str) -> str:
    """What a command of Slurm writes; an empty text where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def forgets_after_s() -> float:
    """How long Slurm remembers a job that has ended, by `MinJobAge`; infinity where it does not say."""
    age = re.search(r"(?m)^MinJobAge\s*=\s*(\d+)", answer("scontrol", "show", "config"))
    return int(age[1]) or math.inf if age else math.inf  # 0: never


def partitions() -> tuple[dict[str, Partition], str | None]:
    """The partitions by name, and the name of the default one."""
    nodes = defaultdict[str, list[_Record]](list)
    for node in _records("node"):
        for name in node.get("Partitions", "").split(","):
            nodes[name].append(node)
    records = {record["PartitionName"]: record for record in _records("partition") if "PartitionName" in record}
    default = next((name for name, record in records.items() if record.get("Default") == "YES"), None)
    return {name: _partition(record, nodes[name]) for name, record in records.items()}, default


def _records(kind: str) -> list[_Record]:
    lines = answer("scontrol", "--oneliner", "show", kind).splitlines()
    return [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in lines]


def _partition(record: _Record, nodes: Sequence[_Record]) -> Partition:
    """A partition, by its own limits and its largest nodes."""
    mb = max((_number(node, "RealMemory") - _number(node, "MemSpecLimit", 0) for node in nodes), default=math.inf)
    cpus = max((_number(node, "CPUTot") for node in nodes), default=math.inf)
    return Partition(
        _minutes(record.get("MaxTime", "")),
        min(mb, _number(record, "MaxMemPerNode")),
        min(cpus, _number(record, "MaxCPUsPerNode")),
        not nodes or any("gpu" in node.get("Gres", "gpu") for node in nodes),
    )


def _number(record: _Record, key: str, without: float = math.inf) -> float:
    value = record.get(key, "")
    return int(value) if value.isdecimal() else without


def _minutes(text: str) -> float:
    """`1-12:00:00` as minutes; infinity for `UNLIMITED`."""
    time = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    days, hours, minutes, seconds = (int(part or 0) for part in time.groups()) if time else (0, 0, 0, 0)
    return days * 1440 + hours * 60 + minutes + seconds / 60 if time else math.inf


def submit_limit(accounts: Iterable[str]) -> int | None:
    """How many jobs this user may have in the queue (`MaxSubmitJobs`), with any of these accounts, or with all."""
    form = ("format=account,maxsubmitjobs",)
    text = answer("sacctmgr", "--noheader", "--parsable2", "show", "assoc", f"user={getpass.getuser()}", *form)
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 1]
    wanted = set(accounts)
    limits = [int(limit) for account, limit in rows if limit.isdecimal() and (not wanted or account in wanted)]
    return min(limits, default=None)


def check(requests: Iterable[JobRequest], jobs: int, report: Report) -> dict[tuple[str, str], int]:
    """Compare what all jobs of a run ask for, at most `jobs` at a time, with what Slurm allows, and report it.

    Returns what later attempts may ask for, by the rule and `runtime` or `mem_mb`.
    """
    asked, limits = list(requests), dict[tuple[str, str], int]()
    known, default = partitions()
    for request in _largest(asked):
        names = (request.partition or default or "").split(",")
        if unknown := [name for name in names if name not in known]:
            if known and unknown != [""]:
                there = f"there are {', '.join(sorted(known))}"
                report.errors.append(f"{request.rule}: no partition {unknown[0]}: {there} (slurm_partition)")
            continue
        # A quality of service may lift the limits of a partition: only Slurm knows.
        lines = report.errors if request.qos is None else report.warnings
        lines += _beyond(request, names, [known[name] for name in names])
        for key, value in (("runtime", "minutes"), ("mem_mb", "mb")):
            most = max(getattr(known[name], value) for name in names)
            if most < math.inf and request.qos is None:
                limits[request.rule, key] = min(int(most), limits.get((request.rule, key), int(most)))
    at_once = min(jobs, len(asked))
    accounts = {name for request in asked if request.account for name in re.split(r"[,\s]+", request.account)}
    most_jobs = submit_limit(accounts)
    if most_jobs is not None and most_jobs < at_once:
        report.errors.append(
            f"up to {shown.plural(at_once, 'job')} would be in the queue, and your account may have {most_jobs}"
            f" (MaxSubmitJobs): --jobs {most_jobs}, or fewer where other jobs of yours wait"
        )
    return limits


def _largest(requests: Iterable[JobRequest]) -> list[JobRequest]:
    """For each rule, partition and quality of service, the most that any job asks for."""
    same = defaultdict[tuple[str, str | None, str | None], list[JobRequest]](list)
    for request in requests:
        same[request.rule, request.partition, request.qos].append(request)
    return [
        JobRequest(
            rule,
            max(request.cpus for request in group),
            max((request.minutes for request in group if request.minutes), default=None),
            max((request.mb for request in group if request.mb), default=None),
            max(request.gpus for request in group),
            partition,
            qos=qos,
        )
        for (rule, partition, qos), group in same.items()
    ]


def _beyond(request: JobRequest, names: Sequence[str], allowed: Sequence[Partition]) -> Iterator[str]:
    """A line for each request of a job that none of its partitions can grant."""
    where = f"partition {' or '.join(names)}"
    minutes, mb, cpus = (max(getattr(partition, key) for partition in allowed) for key in ("minutes", "mb", "cpus"))
    other = "or another slurm_partition"
    if request.minutes and request.minutes > minutes:
        time, most = (shown.duration(60 * value) for value in (request.minutes, minutes))
        ways = f"--set-resources {request.rule}:runtime={int(minutes)}, {other}"
        yield f"{request.rule} asks for {time}, and {where} allows {most} (MaxTime): {ways}"
    if request.mb and request.mb > mb:
        ways = f"--set-resources {request.rule}:mem_mb={int(mb)}, {other}"
        yield f"{request.rule} asks for {request.mb:,} MB, and a node of {where} gives {int(mb):,} MB: {ways}"
    if request.cpus > cpus:
        ways = f"--set-threads {request.rule}={int(cpus)}, {other}"
        yield f"{request.rule} asks for {request.cpus} CPUs, and a node of {where} has {int(cpus)}: {ways}"
    if request.gpus and not any(partition.has_gpus for partition in allowed):
        ways = f"--set-resources {request.rule}:slurm_partition=NAME"
        yield f"{request.rule} asks for a GPU, and no node of {where} has one: {ways}"
