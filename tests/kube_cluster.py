"""A stand-in for the API of a Kubernetes cluster: each pod is a process of this machine, in an empty folder of its own.

It knows what Snakemake's executor plugin asks for: secrets, jobs, the pods of a job and their logs. As a real cluster
does, it refuses a pod that asks for a GPU without a limit, and has no log of a container before the first. What an
image would hold, Python with this package, is this machine's; `pip` writes down what it was to install, and installs
nothing.

    python tests/kube_cluster.py snakemake --workflow-profile kubernetes ...     run a command with it
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

# The package that is tested lies in the image.
_IMAGE = ("PYTHONPATH", "VIRTUAL_ENV", "OMP_NUM_THREADS", "LANG")


@dataclass
class Pod:
    """A job's only pod.

    Attributes:
        name: the job's.
        body: the job as it was requested.
        folder: `/workdir` of the container.
        process: the container's; None when it has been deleted.
    """

    name: str
    body: dict[str, Any]
    folder: Path
    process: subprocess.Popen[bytes]

    def status(self) -> int | None:
        return self.process.poll()

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Cluster:
    """The requests to the stand-in, and what runs in it.

    Attributes:
        folder: of pods and of the file with the address.
        jobs: every job ever, by name.
        deleted: names of deleted jobs.
        secrets: by name.
    """

    folder: Path
    jobs: dict[str, Pod] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "config"

    @property
    def running(self) -> list[Pod]:
        return [pod for pod in self.jobs.values() if pod.status() is None]

    def start(self, body: dict[str, Any]) -> None:
        """Run the pod of a job. Raises `ValueError` for what a cluster refuses."""
        name = body["metadata"]["name"]
        (container,) = body["spec"]["template"]["spec"]["containers"]
        requests = container["resources"].get("requests", {})
        limits = container["resources"].get("limits", {})
        for resource in requests:
            if "/" in resource and limits.get(resource) != requests[resource]:
                raise ValueError(f"{resource}: limit must be set for non overcommitable resources")
        folder = self.folder / "pods" / name
        folder.mkdir(parents=True)
        environment = {name: os.environ[name] for name in _IMAGE if name in os.environ}
        programs = (self.folder / "bin", Path(sys.executable).parent, os.environ["PATH"])
        environment |= {"HOME": str(folder / "home"), "PATH": os.pathsep.join(map(str, programs))}
        for variable in container.get("env", []):
            key = variable["valueFrom"]["secretKeyRef"]
            environment[variable["name"]] = base64.b64decode(self.secrets[key["name"]][key["key"]]).decode()
        (folder / "workdir").mkdir()
        (folder / "home").mkdir()
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                container["command"] + container["args"],
                cwd=folder / "workdir",
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.jobs[name] = Pod(name, body, folder / "workdir", process)

    def log_of(self, name: str) -> str:
        return (self.folder / "pods" / name / "log").read_text(errors="replace")

    def installed(self) -> list[str]:
        """What pods had to install."""
        path = self.folder / "installed"
        return path.read_text().splitlines() if path.exists() else []

    def pod_of(self, name: str) -> dict[str, Any]:
        status = self.jobs[name].status()
        state = {"running": {}} if status is None else {"terminated": {"exitCode": status % 256}}
        described = {"name": "snakemake", "image": "", "imageID": "", "ready": True, "restartCount": 0, "state": state}
        return {"metadata": {"name": f"{name}-pod"}, "status": {"containerStatuses": [described]}}

    def job_of(self, name: str) -> dict[str, Any]:
        status = self.jobs[name].status()
        counts = {"active": int(status is None), "succeeded": int(status == 0), "failed": int(status not in (None, 0))}
        return {"metadata": {"name": name}, "status": counts}


class _Handler(BaseHTTPRequestHandler):
    cluster: Cluster
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def _answer(self, status: int, body: object) -> None:
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _request(self) -> tuple[str, str, str, dict[str, list[str]]]:
        """Kind, name, part and query of a request."""
        address = urlsplit(self.path)
        match = re.fullmatch(r"/(?:api|apis/batch)/v1/namespaces/default/(\w+)(?:/([^/]+))?(?:/(\w+))?", address.path)
        assert match, self.path
        kind, name, part = match.groups(default="")
        return kind, name, part, parse_qs(address.query)

    def _body(self) -> dict[str, Any]:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(content) if content else {}

    def do_GET(self) -> None:
        kind, name, part, query = self._request()
        with self.cluster.lock:
            if kind == "pods" and part == "log" and query.get("previous"):
                # Of a container that was started again; that of a job never is.
                self._answer(400, {"reason": "BadRequest", "message": "previous terminated container not found"})
            elif kind == "pods" and part == "log":
                self._answer(200, self.cluster.log_of(name.removesuffix("-pod")))
            elif kind == "pods":
                job = query["labelSelector"][0].removeprefix("job-name=")
                known = job in self.cluster.jobs and job not in self.cluster.deleted
                self._answer(200, {"items": [self.cluster.pod_of(job)] if known else []})
            elif name in self.cluster.jobs and name not in self.cluster.deleted:
                self._answer(200, self.cluster.job_of(name))
            else:
                self._answer(404, {"reason": "NotFound"})

    def do_POST(self) -> None:
        kind, _, _, _ = self._request()
        body = self._body()
        with self.cluster.lock:
            try:
                if kind == "secrets":
                    self.cluster.secrets[body["metadata"]["name"]] = body["data"]
                else:
                    self.cluster.start(body)
            except ValueError as error:
                self._answer(422, {"reason": "Invalid", "message": str(error)})
            else:
                self._answer(201, {"metadata": body["metadata"]})

    def do_DELETE(self) -> None:
        kind, name, _, _ = self._request()
        self._body()
        with self.cluster.lock:
            if kind == "secrets":
                del self.cluster.secrets[name]
            else:
                job = name.removesuffix("-pod")
                self.cluster.jobs[job].kill()
                if kind == "jobs":
                    self.cluster.deleted.add(job)
                    shutil.rmtree(self.cluster.jobs[job].folder)
        self._answer(200, {})


_PIP = """#!/bin/sh
echo "$@" >> {installed}
"""


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start the stand-in; at the end its pods are killed."""
    with tempfile.TemporaryDirectory(prefix="kube-") as name:
        started = Cluster(Path(name))
        pip = started.folder / "bin" / "pip"
        pip.parent.mkdir()
        pip.write_text(_PIP.format(installed=started.folder / "installed"))
        pip.chmod(0o755)
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"cluster": started}))
        _write_address(started.kubeconfig, f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield started
        finally:
            server.shutdown()
            server.server_close()
            for pod in started.jobs.values():
                pod.kill()


def _write_address(path: Path, address: str) -> None:
    named = {"name": "here"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [named | {"cluster": {"server": address}}],
        "users": [named | {"user": {}}],
        "contexts": [named | {"context": {"cluster": "here", "user": "here"}}],
        "current-context": "here",
    }
    path.write_text(yaml.safe_dump(config))


if __name__ == "__main__":
    with cluster() as here:
        done = subprocess.run(sys.argv[1:], env={**os.environ, "KUBECONFIG": str(here.kubeconfig)}, check=False)
        print(f"{len(here.jobs)} jobs, {len(here.running)} running; installed: {set(here.installed())}")
        for pod in here.jobs.values():
            if pod.status() != 0:
                print(here.log_of(pod.name))
    sys.exit(done.returncode)
