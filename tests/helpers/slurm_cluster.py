"""A Slurm cluster of two nodes on this machine, in namespaces of its own: it sees and leaves nothing outside of them.

    python tests/helpers/slurm_cluster.py squeue        start it, run a command in it, and end it

Needs root and Debian's packages: apt-get install --no-install-recommends slurm-wlm munge. Nodes `n1` (with a GPU that
is /dev/null) and `n2` have two cores each; the partition `main` has both, `gpu` has n1, `short` has n2 for an hour. It
keeps no books of its jobs.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import waiting

PROGRAMS = ("slurmctld", "slurmd", "munged", "unshare", "nsenter", "runuser", "setpriv")
NODES = ("n1", "n2")
_NODE = ("slurmd", "-D", "-N")
# The first process in namespaces of processes: when it ends, the kernel ends all others in them.
_APART = ("--pid", "--mount-proc", "--fork", "--kill-child")

_HOST = "toy"

_SETTINGS = """\
ClusterName=toy
SlurmctldHost={host}
SlurmUser=root
AuthType=auth/munge
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
MpiDefault=none
ReturnToService=2
SlurmdTimeout=9
KillWait=5
MinJobAge={min_job_age}
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=6000 Gres=gpu:1 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=6000 State=UNKNOWN
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
PartitionName=gpu Nodes=n1 MaxTime=INFINITE State=UP
PartitionName=short Nodes=n2 MaxTime=60 State=UP
"""

# Each node has a namespace of processes too, because that is how a node dies.
_FIRST = """\
set -e
hostname {host}
mount -t tmpfs tmpfs /run
mount --bind {folder}/etc /etc/slurm
mount --bind {folder}/hosts /etc/hosts
install -d -o munge -m 755 /run/munge
chown -R munge {folder}/munge
runuser -u munge -- munged --key-file={folder}/munge/key --log-file={folder}/munge/log --seed-file={folder}/munge/seed
slurmctld
for node in {nodes}; do
    unshare {apart} {node} $node &
done
for _ in $(seq 300); do
    if [ "$(sinfo -h -p main -t idle -o %D)" = 2 ]; then touch {folder}/ready; break; fi
    sleep 0.1
done
exec sleep infinity
"""


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs.

    Attributes:
        folder: its settings, logs and state.
        first: the process whose namespaces it lives in.
    """

    folder: Path
    first: int

    def command(self, *command: str | Path, folder: Path | None = None) -> list[str | Path]:
        """A command as one that runs in the cluster, in this folder or the present one."""
        spaces = ("--mount", "--uts", "--pid", f"--wdns={folder or Path.cwd()}")
        return ["nsenter", f"--target={self.first}", *spaces, "--", *command]

    def output(self, *command: str) -> str:
        """What a command of Slurm writes."""
        return subprocess.run(self.command(*command), capture_output=True, text=True, check=True).stdout

    def kill_node(self, name: str) -> None:
        """A node dies: its daemon and all that works on it, at once and without a word."""
        processes = psutil.Process(self.first).children(recursive=True)
        next(process for process in processes if _command(process) == [*_NODE, name]).kill()

    def start_node(self, name: str) -> None:
        """The node comes back."""
        subprocess.Popen(self.command("unshare", *_APART, *_NODE, name), stderr=subprocess.DEVNULL)


@contextmanager
def cluster(min_job_age: int = 3600) -> Iterator[Cluster]:
    """Start it; it ends, with all that runs in it, at the end of the block.

    Args:
        min_job_age: how many seconds it remembers a job that has ended.

    Raises:
        RuntimeError: it did not start; the message has its logs.
    """
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    try:
        script = _written(folder, min_job_age)
        process = subprocess.Popen(
            # It dies with this process too, which may be killed.
            ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--uts", *_APART, "sh", str(script)],
            stdout=(folder / "start.log").open("w"),
            stderr=subprocess.STDOUT,
        )
        try:
            yield Cluster(folder, _first(process, folder))
        finally:
            process.kill()
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _written(folder: Path, min_job_age: int) -> Path:
    """The cluster's settings and the script that starts it."""
    folder.chmod(0o755)  # munge's daemon, another user, reads its key below
    for name in ("etc", "state", "munge", *(f"spool.{node}" for node in NODES)):
        (folder / name).mkdir()
    ports = _free_ports(3)
    settings = _SETTINGS.format(host=_HOST, ports=ports, folder=folder, min_job_age=min_job_age)
    (folder / "etc" / "slurm.conf").write_text(settings)
    (folder / "etc" / "gres.conf").write_text("NodeName=n1 Name=gpu File=/dev/null\n")
    (folder / "hosts").write_text(f"127.0.0.1 localhost {_HOST}\n")
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    script = folder / "first.sh"
    names = {"host": _HOST, "folder": folder, "nodes": " ".join(NODES), "node": " ".join(_NODE)}
    script.write_text(_FIRST.format(apart=" ".join(_APART), **names))
    return script


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


def _command(process: psutil.Process) -> list[str]:
    """A process's command; empty once it has ended, also while nobody has waited for it."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def _first(process: subprocess.Popen[bytes], folder: Path) -> int:
    """The first process of the namespaces, once the nodes wait for work."""
    ready = folder / "ready"
    waiting.wait_for(lambda: ready.exists() or process.poll() is not None)
    if not ready.exists():
        logs = [path.read_text(errors="replace") for path in (*folder.glob("*.log"), folder / "munge" / "log")]
        raise RuntimeError("the cluster did not start:\n" + "\n".join(logs))
    return psutil.Process(process.pid).children()[0].pid


def main(command: Sequence[str]) -> int:
    """Run a command in a new cluster."""
    with cluster() as new:
        return subprocess.run(new.command(*command)).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
