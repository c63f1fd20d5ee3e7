"""Watches the jobs that a run has in Slurm, and says why they wait or failed; Snakemake's Slurm plugin does neither.

The plugin, in version 2.8, waits for jobs that can never start, for jobs that Slurm has forgotten, and for jobs that
`sacct` calls "CANCELLED by". So a thread asks `squeue` itself. It cancels jobs that can never start, and the plugin
notices the cancelled jobs.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from perturbations.base import progress, shown
from perturbations.corpus import slurm_site

if TYPE_CHECKING:
    import psutil

_EVERY_S = 30.0
"""Seconds between two queries of `squeue`."""

_PLUGIN_EVERY_S = 180.0
"""The most seconds between two queries of the plugin."""

_GROUP = "a group"
_UNKNOWN: tuple[str, Sequence[str]] = _GROUP, ()
"""The rule and the logs where one submission is for several jobs."""

_FORM = "%i|%T|%P|%l|%m|%C|%r"

_LESS = "--set-resources {rule}:mem_mb=MB, --set-threads {rule}=CPUS, smaller groups, or another slurm_partition"
_SHORTER = "--set-resources {rule}:runtime=MINUTES, or another slurm_partition"
_NEVER: Mapping[str, str] = {
    r"PartitionTimeLimit|QOSTimeLimit|\w*MaxWall\w*": _SHORTER,
    r"PartitionNodeLimit|PartitionConfig|BadConstraints|MaxMemPerLimit": _LESS,
    r"(QOS|Assoc)(Max|Min)\w*(PerJob|PerNode|NotSatisfied)\w*": _LESS,
    r"InvalidAccount|AccountNotAllowed|InvalidQOS|QOSNotAllowed": "take another slurm_account, qos or slurm_partition",
}
"""Regular expressions of reasons that no waiting ends, and what to do."""

_HELD = r"(?i).*held.*|JobHoldMaxRequeue"
_ORDINARY = {"None", "Priority", "Resources", "BeginTime", "Dependency", "Prolog", "Cleaning"}
"""Reasons for which jobs wait on every cluster."""

_ENDED = {"COMPLETED", "BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"}

_MEMORY, _TIME = "it took more than its memory", "it took longer than its time"
_ENDS: Mapping[str, str] = {
    r"exceeded .*memory limit \(": _MEMORY,
    r"(?i)oom.kill|out.of.memory|exceeded .*memory limit": _MEMORY,
    r"DUE TO TIME LIMIT|TIMEOUT": _TIME,
    r"DUE TO NODE FAILURE|NODE_FAIL": "its node failed",
    r"CANCELLED": "it was cancelled",
}
"""Regular expressions for the lines that Slurm writes about a job that ended early, the most telling first."""


class _Row(NamedTuple):
    """What `squeue` says of a job."""

    job_id: str
    state: str
    partition: str
    time: str
    memory: str
    cpus: str
    reason: str


class Watch:
    """Watches the jobs of a run.

    Args:
        run: the name that all its jobs have in Slurm.
        say: prints a line.
        stop: ends the run, with this error.
    """

    def __init__(self, run: str, say: Callable[[str], None], stop: Callable[[str], None]) -> None:
        self._run, self._say, self._stop = run, say, stop
        self._jobs: dict[str, tuple[str, Sequence[str]]] = {}  # the rule and the logs of each
        self._reasons: dict[str, str] = {}  # of each waiting job, when it was last looked at
        self._told: set[tuple[str, str]] = set()
        self._lost_looks = self._failed_looks = self._idle_looks = 0
        self._every_s = _EVERY_S
        self._has_begun = False

    def begin(self) -> None:
        """Jobs were started, in Slurm or here."""
        self._has_begun = True

    def submitted(self, job_id: str, rule: str, logs: Sequence[str]) -> None:
        """A job of a rule, which declares these logs, was given to Slurm."""
        self._jobs[job_id] = rule, logs

    def start(self) -> None:
        """Watch from now on, until the process ends."""
        threading.Thread(target=self._look_on, name="slurm watch", daemon=True).start()

    def _look_on(self) -> None:
        age_s = slurm_site.forgets_after_s()
        if age_s <= _PLUGIN_EVERY_S + _EVERY_S:
            self._every_s = min(_EVERY_S, max(1.0, age_s / 2))
            let_plugin_look_every(self._every_s)
        waits = threading.Event()
        while not waits.wait(self._every_s):
            with suppress(OSError):  # a log that cannot be written: the line is printed
                self.look()

    def look(self) -> None:
        """Ask Slurm once: report jobs that still wait for the same reason, and end a run whose jobs are all lost."""
        rows = self._rows()
        if rows is None:
            return
        waiting = {row.job_id: row for row in rows if row.state == "PENDING" or "HOLD" in row.state}
        active = [row for row in rows if row.state not in _ENDED]
        same = [row for row in waiting.values() if self._reasons.get(row.job_id) == row.reason]
        self._reasons = {row.job_id: row.reason for row in waiting.values()}
        none_runs = len(waiting) == len(active)
        by_rule = defaultdict[tuple[str, str], list[_Row]](list)
        for row in same:
            kind = _advice(row.reason, "")[1]
            if (row.job_id, row.reason) not in self._told and (kind in ("never", "held") or (kind and none_runs)):
                by_rule[self._jobs.get(row.job_id, _UNKNOWN)[0], row.reason].append(row)
        for (rule, reason), group in by_rule.items():
            self._tell(rule, reason, group)
        self._note_idle(waiting, none_runs=none_runs)
        self._note_lost(rows, active)

    def _rows(self) -> list[_Row] | None:
        """What `squeue` says of the run's jobs; None, with a message, where it fails."""
        command = ["squeue", "--name", self._run, "--states=all", "--noheader", f"--format={_FORM}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
            error = done.stderr if done.returncode else ""
            lines = done.stdout.splitlines() if done.returncode == 0 else None
        except (OSError, subprocess.TimeoutExpired) as failure:
            error, lines = str(failure), None
        self._failed_looks = self._failed_looks + 1 if lines is None else 0
        if self._failed_looks == 2:
            self._say(f"Slurm does not answer, and the run waits until it does: {' '.join(error.split())}")
        return None if lines is None else [_Row(*line.split("|", 6)) for line in lines if line.count("|") >= 6]

    def _tell(self, rule: str, reason: str, rows: Sequence[_Row]) -> None:
        """Say why jobs of a rule wait, in their logs too; cancel those that can never start."""
        advice, kind = _advice(reason, rule)
        first, ids = rows[0], [row.job_id for row in rows]
        amount = f"a time of {first.time}, {first.memory} and {first.cpus} CPUs"
        asks = f"a job asks for {amount} of partition {first.partition}"
        text = {
            "never": f"cannot start, {reason}: {asks}: {advice}; cancelled",
            "held": f"held, {reason}: {advice} ({' '.join(ids)})",
            "waits": f"wait, {reason}, and no job of this run is running: {asks}",
        }[kind]
        self._told |= {(job_id, reason) for job_id in ids}
        self._say(shown.line(f"{shown.plural(len(ids), 'job')} of {rule} in Slurm: {text}"))
        for job_id in ids:
            note(self._jobs.get(job_id, _UNKNOWN)[1], f"in Slurm, {job_id}: {text}")
        if kind == "never":
            slurm_site.answer("scancel", *ids)

    def _note_idle(self, waiting: Mapping[str, _Row], *, none_runs: bool) -> None:
        """After each ten minutes in which jobs wait and none runs, report what they wait for."""
        self._idle_looks = self._idle_looks + 1 if waiting and none_runs else 0
        if self._idle_looks and self._idle_looks * self._every_s % 600 < self._every_s and self._idle_looks > 1:
            reasons = sorted({row.reason for row in waiting.values()})
            self._say(f"{shown.plural(len(waiting), 'job')} in Slurm's queue, and none runs: {', '.join(reasons)}")

    def _note_lost(self, rows: Sequence[_Row], active: Sequence[_Row]) -> None:
        """End a run whose started jobs neither run nor wait any more, in Slurm or here."""
        import psutil  # each job of Snakemake imports this module, and only the run itself watches

        idle = self._has_begun and not active and not any(map(_works, psutil.Process().children()))
        self._lost_looks = self._lost_looks + 1 if idle else 0
        if self._lost_looks * self._every_s > 2 * _PLUGIN_EVERY_S:
            self._lost_looks = 0
            states = {row.job_id: row.state for row in rows}
            last = ", ".join(f"{job_id} {states.get(job_id, 'forgotten')}" for job_id in list(self._jobs)[-5:])
            self._stop(
                f"Slurm has no job of this run any more ({last or 'it was given none'}), and Snakemake waits for some."
                " Start the run again: what is finished is kept. docs/how-to/cluster.md says what causes it"
            )


def _advice(reason: str, rule: str) -> tuple[str, str]:
    """What to do about a reason, and its kind: never, held, waits, or an empty text for ordinary waiting."""
    for pattern, advice in _NEVER.items():
        if re.fullmatch(pattern, reason):
            return advice.format(rule="RULE" if rule == _GROUP else rule), "never"
    if re.fullmatch(_HELD, reason):
        return "scontrol release, or scancel, by whoever held it", "held"
    return "", "" if reason in _ORDINARY else "waits"


def _works(process: psutil.Process) -> bool:
    """Whether a child of Snakemake is a job, not a command of Slurm."""
    import psutil

    try:
        return process.name() not in {"squeue", "sacct", "scontrol", "scancel", "sbatch"}
    except psutil.Error:
        return False


def let_plugin_look_every(seconds: float) -> None:
    """Let the plugin query its jobs at least so often: it has no setting for the longest pause between two queries."""
    from snakemake_executor_plugin_slurm import Executor

    sleep = Executor.sleep

    async def sleep_shortly(self: Any) -> None:
        self.next_seconds_between_status_checks = min(self.next_seconds_between_status_checks, seconds)
        await sleep(self)

    Executor.sleep = sleep_shortly


# --- why a job failed ------------------------------------------------------------------------------------------------


def reason_of_end(rule: str, log: Path | None, message: str) -> str | None:
    """Why Slurm ended a job, by its log, or by what the plugin says; None where Slurm did not.

    Args:
        log: what Slurm wrote of the job, if anything.
        message: the plugin's sentences.
    """
    lines = [line for line in progress.last_lines(log) if re.match(r"[\w.-]+: (error|fatal): ", line)] if log else []
    for pattern, text in _ENDS.items():
        for line in (*lines[::-1], message):
            if re.search(pattern, line):
                key = {_MEMORY: "mem_mb", _TIME: "runtime"}.get(text)
                more = f"; take more: set-resources, {rule}: {key}" if key else ""
                return f"{text}: {line.split('error: ')[-1].strip(' *')}{more}" if line in lines else f"{text}{more}"
    if refused := re.search(r"\w*MaxSubmit\w*|job submit limit", message):
        return f"Slurm refuses more jobs ({refused[0]}): take fewer, --jobs N (docs/how-to/cluster.md)"
    telling = [line for line in lines if not re.search(r"srun: error: .*task.*(Exited|Killed|Terminated)", line)]
    return telling[-1] if telling else None


def note(logs: Sequence[str], reason: str) -> None:
    """Write into a job's first log why it waits or failed; `perturb status` lists it. The job begins a new log."""
    for log in logs[:1]:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        with Path(log).open("a") as file:
            print(progress.error_line(reason), file=file)
