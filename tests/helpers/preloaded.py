"""Commands that do not import their libraries again: a process that has imported them forks once per command.

A start of Snakemake imports for 1.5 CPU s, a job of the workflow for .5, an evaluation's for 4, and tests start a
thousand of them. A forked command gets the same words, folder, environment and files as a started one, and its jobs
are forked likewise. What only a start can show is asked of real ones: runs that are killed, an evaluation's job,
the wheel, and copies of the checkout.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import pkgutil
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pydantic

_CLIP = "transformers.models.clip"
_JOBS = tuple(f"perturbations.{room}" for room in ("cli", "corpus", "exports", "pages.corpus_page", "suites"))
_PLANNED = (
    *("corpus.plan.corpus_rules", "suites", "composed.split_rules", "evaluation.plan.evaluation_rules"),
    *("manifest.row_kinds", "corpus.run_lines"),
)
_PLANNING = tuple(f"perturbations.{place}" for place in _PLANNED)
_TABLES = ("jinja2", "pyarrow.dataset", "pyarrow.pandas_compat", "pandas.core.reshape.reshape", "PIL.PngImagePlugin")
_PAGES = tuple(f"perturbations.{place}" for place in ("demo.train_encoder", "corpus", "pages.preview_sheet"))
_IMPORTED = {
    "snakemake": ("snakemake.cli", "requests", "smart_open", *_PLANNING),
    "perturb": (*_JOBS, *_PAGES, *_TABLES),
    "texts": (*_JOBS, "perturbations.corpus", "perturbations.text", "textblob"),
    "models": (
        *_JOBS,
        "perturbations.evaluation",
        "perturbations.tta",
        "perturbations.evaluation.backbones",
        _CLIP,
    ),
}
"""The modules, and those of rooms, that the process behind a name imports; torch takes 4 CPU s, NLTK 2."""


# The standard library's socket would take longer than the rest of it. `-I -S`: without site-packages.
_CLIENT = """
import _socket, marshal, os, sys
name, *words = sys.argv[1:]
if name == "perturb" and words[:1] == ["rule"]:
    name = {of_rules!r}.get("".join(words[1:2]), name)
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
connection.connect({folder!r} + "/" + name)
request = marshal.dumps((words, os.getcwd(), dict(os.environ)))
files = b"".join(file.to_bytes(4, sys.byteorder) for file in (0, 1, 2))
connection.sendmsg([len(request).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
connection.sendall(request)
status = connection.recv(1)
os._exit(status[0] if status else 137)
"""
_OF_RULES = {
    **dict.fromkeys(("demo_encoder", "gallery", "check_model", "evaluate"), "models"),
    **dict.fromkeys(("texts", "texts_manifest"), "texts"),
}
"""Which process serves a rule's command, if not that of `perturb`."""
_SHARED = "PRELOADED_BY_PYTEST"


def command(name: str) -> list[str]:
    """The words that begin a command: instead of `python -m snakemake`, or of `perturb`."""
    return [str(_processes() / name)]


def snakemake(folder: Path, *arguments: str, status: int = 0) -> str:
    """What Snakemake prints in a folder, on two cores; it must end with this status."""
    done = subprocess.run(
        [*command("snakemake"), "--cores", "2", *arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def share() -> None:
    """Let pytest's workers, which inherit the environment, use the processes of this one: each imports once for all."""
    os.environ[_SHARED] = str(_processes())


@cache
def _processes() -> Path:
    """A folder of programs that stand for the real ones, whose processes end with this one."""
    if _SHARED in os.environ:
        return Path(os.environ[_SHARED])
    # The name of a socket has at most 107 bytes.
    short = len(os.fsencode(tempfile.gettempdir())) < 70
    folder = Path(tempfile.mkdtemp(prefix="preloaded-", dir=None if short else "/tmp"))
    client = folder / "client.py"
    client.write_text(_CLIENT.format(folder=str(folder), of_rules=_OF_RULES))
    programs = folder / "bin"
    programs.mkdir()
    python = shlex.quote(sys.executable)
    (programs / "python").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    for name in ("snakemake", "perturb"):
        (programs / name).write_text(f'#!/bin/sh\nexec {python} -I -S {shlex.quote(str(client))} {name} "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    read, _ = os.pipe()
    processes = []
    for name in _IMPORTED:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / name))
        listener.listen(64)
        words = [sys.executable, __file__, name, str(listener.fileno()), str(read), str(programs / "python")]
        handed = (listener.fileno(), read)
        processes.append(subprocess.Popen(words, pass_fds=handed, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        listener.close()
    os.close(read)  # its other end stays open until this process ends, however it does
    atexit.register(_end, processes, folder, os.getpid())
    return programs


def _end(processes: list[subprocess.Popen[bytes]], folder: Path, owner: int) -> None:
    if os.getpid() != owner:  # a fork
        return
    for process in processes:
        process.terminate()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _serve(name: str, listener: socket.socket, parent: int, python: str) -> None:
    """Fork once per command, until the parent ends, with which its end of the pipe closes."""
    if not _is_requested(listener, parent):
        return
    for place in _IMPORTED[name]:
        room = importlib.import_module(place)
        if place.startswith("perturbations") or place == _CLIP:
            for module in pkgutil.iter_modules(getattr(room, "__path__", [])):
                importlib.import_module(f"{place}.{module.name}")
    if name == "snakemake":
        from snakemake.cli import get_argument_parser

        get_argument_parser()  # which looks for Snakemake's plug-ins: half of a dry run
    else:
        from perturbations.suites import published_cells

        published_cells.cells()  # of a table that is read once
    for model in _models(pydantic.BaseModel):
        model.model_rebuild()  # which each fork would do for itself
    gc.collect()
    gc.freeze()  # or each fork's collector goes through all this, and copies it: of torch's, 0.6 CPU s
    signal.signal(signal.SIGCHLD, _forget)
    while _is_requested(listener, parent):
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _run(name, connection, python)
        connection.close()


def _models(base: type[pydantic.BaseModel]) -> Iterator[type[pydantic.BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def _forget(*_: object) -> None:
    """Take notice of the commands that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _is_requested(listener: socket.socket, parent: int) -> bool:
    ready, _, _ = select.select([listener, parent], [], [])
    return parent not in ready


def _run(name: str, connection: socket.socket, python: str) -> None:
    """Run one command in this process, which then ends; its status is sent through the connection."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = 1
    try:
        size, files, _, _ = socket.recv_fds(connection, 8, 3)
        with connection.makefile("rb") as stream:
            words, folder, environment = marshal.loads(stream.read(int.from_bytes(size, "big")))
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        # Those of this process know of other files that one can seek in them.
        sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, sys.stderr.encoding, "backslashreplace", closefd=False)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [name, *words]
        status = _status(name, folder, python)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(bytes([status]))
        os._exit(status)


def _status(name: str, folder: str, python: str) -> int:
    main: Any
    if name == "snakemake":
        from snakemake.cli import main

        sys.executable = python  # beside which the workflow finds `perturb`
        sys.path[0] = folder  # as `python -m` does
    else:
        from perturbations.cli.main import main
    try:
        return int(main() or 0)
    except SystemExit as ending:
        if isinstance(ending.code, str):  # a program's last words, which its interpreter prints
            print(ending.code, file=sys.stderr)
        return ending.code if isinstance(ending.code, int) else int(ending.code is not None)


if __name__ == "__main__":
    _serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3]), sys.argv[4])
