"""Commands of Slurm that print what was recorded from Slurm 22.05.8."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

PARTITIONS = """\
PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A DefaultTime=NONE \
DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO \
MaxCPUsPerNode=UNLIMITED Nodes=n[1-2] PriorityJobFactor=1 State=UP TotalCPUs=4 TotalNodes=2 JobDefaults=(null) \
DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=4,mem=12000M,node=2,billing=4
PartitionName=short AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO QoS=N/A DefaultTime=NONE \
MaxNodes=UNLIMITED MaxTime=01:00:00 MinNodes=0 MaxCPUsPerNode=UNLIMITED Nodes=n2 State=UP TotalCPUs=2 TotalNodes=1 \
DefMemPerNode=UNLIMITED MaxMemPerNode=4000 TRES=cpu=2,mem=6000M,node=1,billing=2
"""
NODES = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 Gres=gpu:1 NodeAddr=127.0.0.1 Version=22.05.8 \
OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=6000 AllocMem=0 State=IDLE Partitions=main,gpu  CfgTRES=cpu=2
NodeName=n2 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 Gres=(null) RealMemory=6000 \
AllocMem=0 State=IDLE Partitions=main,short  CfgTRES=cpu=2,mem=6000M
"""


def write_commands(folder: Path, monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Mapping[str, str]]) -> Path:
    """Commands that print the first answer whose words are in their arguments, and fail where there is none.

    Args:
        answers: what each command prints, by words of its arguments.

    Returns:
        the log of all calls, a line each
    """
    folder.mkdir(exist_ok=True)
    calls = folder / "calls.log"
    for name, own in answers.items():
        cases = "".join(
            f'case "$*" in *{shlex.quote(words)}*) printf %s {shlex.quote(text)}; exit 0;; esac\n'
            for words, text in own.items()
        )
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {shlex.quote(str(calls))}\n{cases}echo refused >&2\nexit 1\n')
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin" if answers else str(folder))
    return calls
