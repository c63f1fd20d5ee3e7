"""An object store on this machine for tests, and runs in it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kube_cluster import Cluster
from test_workflow import PROFILES, REPOSITORY, Project

_PREFIX = "SNAKEMAKE_STORAGE_S3_"


@contextmanager
def store() -> Iterator[None]:
    """Start an S3 server; the environment says where it is."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"{_PREFIX}ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv(f"{_PREFIX}ACCESS_KEY", "key")
        patch.setenv(f"{_PREFIX}SECRET_KEY", "secret")
        try:
            yield
        finally:
            server.stop()


def command(project: Project, prefix: str, *arguments: str) -> list[str]:
    """The command that submits a project's jobs, with the Snakefile of `perturb init` and the delivered profile."""
    snakefile = project.root / "Snakefile"
    snakefile.write_text((REPOSITORY / "workflow" / "init" / "Snakefile").read_text())
    options = ("--workflow-profile", str(PROFILES / "kubernetes"), "--default-storage-prefix", prefix, "--jobs", "2")
    options += ("--container-image", "image", "--seconds-between-status-checks", "1", "--no-hooks")
    return [sys.executable, "-m", "snakemake", *options, *arguments]


def environment(cluster: Cluster) -> dict[str, str]:
    """That of a run on the cluster."""
    folder = str(Path(sys.executable).parent)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY), "KUBECONFIG": str(cluster.kubeconfig)}


def submit(cluster: Cluster, project: Project, prefix: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run(
        command(project, prefix, *arguments),
        cwd=project.root,
        env=environment(cluster),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def fetch(folder: Path, prefix: str) -> Path:
    """Bring the results of a run into a folder, in which nothing is wrong then."""
    folder.mkdir(exist_ok=True)
    for words in (("fetch", prefix), ("verify", "--fast")):
        done = subprocess.run(
            [sys.executable, "-m", "perturbations", *words], cwd=folder, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return folder
