"""Fixtures that several test files use, and options to show that tests pass without what is optional."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import needs
import preloaded
import pytest
from hypothesis import HealthCheck, Phase, settings

# As the command does, before NumPy is imported: threads that wait for a core cost more than they bring.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# Hundreds of processes import the package, and each worker all tests: the first compiles them for all.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# On a busy machine an example may take any time.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
# The CI prints the first example that fails: to find a simpler one takes up to five minutes per test.
settings.register_profile("ci", settings.get_profile("unhurried"), phases=set(Phase) - {Phase.shrink, Phase.explain})

_SKIPPED = "perturbations/skipped"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bare", action="store_true", help="hide WordNet, Apertium, browsers and the reference data")
    parser.addoption("--slurm", action="store_true", help="start a Slurm cluster on this machine, and test on it")
    parser.addoption(
        "--skipped", action="store_true", help="only what the last --bare run skipped for want of something"
    )


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("COLUMNS", None)  # pytest-xdist's: what a command prints is not wrapped
    if hasattr(config, "workerinput"):
        return  # workers inherit the environment
    folder = Path(tempfile.mkdtemp(prefix="perturbations-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    if not _can_be_made(Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())):
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")  # Snakemake's; users without a home do the same
    if config.getoption("bare"):
        needs.hide(folder)
    if config.getoption("numprocesses", None):
        preloaded.share()


def _can_be_made(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # A file's tests run on one worker, which makes once what they share. Such files take longest, so they come first:
    # what comes last should be short, or one worker has nothing to do.
    sharing = {item.path for item in items if isinstance(item, pytest.Function) and _shares(item)}
    items.sort(key=lambda item: item.path not in sharing)
    if config.getoption("skipped"):
        names = set(config.cache.get(_SKIPPED, []))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
        items[:] = [item for item in items if item.nodeid in names]


def pytest_collection_finish() -> None:
    # What was imported stays: the collector need not look at it again, in this process or in one that it forks.
    gc.collect()
    gc.freeze()


def _shares(test: pytest.Function) -> bool:
    """Whether a test takes what its file makes once."""
    fixtures = test._fixtureinfo.name2fixturedefs.values()
    return any(fixture[-1].scope == "module" for fixture in fixtures)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = terminalreporter.stats.get("skipped", [])
    names = [report.nodeid for report in reports if f"Skipped: {needs.REASON}" in str(report.longrepr)]
    if config.getoption("bare") and hasattr(config, "cache"):
        config.cache.set(_SKIPPED, names)


@pytest.fixture(scope="session", autouse=True)
def _ffmpegs_without_forks() -> Iterator[None]:
    """ffmpeg is started without a fork of this large process; what the fork is for, test_failures.py asks of others."""
    from perturbations.media import encoding

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "partial", lambda *_: None)
        yield


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of reference data: real clips and annotations in `data`, outputs of reference code in `golden`."""
    root = Path(os.environ.get("PERTURB_REFERENCE", Path(__file__).parents[2] / "shared"))
    if not (root / "golden").is_dir():
        needs.skip(f"{needs.REFERENCE} (not {root})")
    return root


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small corpus, for tests that change nothing in it."""
    import small_corpus

    return small_corpus.make(tmp_path_factory.mktemp("small"))


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The library, which finds no network and keeps what it caches below the test's folder."""
    library = needs.reader("datasets")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(library.config, "HF_HUB_OFFLINE", True)
    library.disable_progress_bars()
    return library


@pytest.fixture
def mteb(datasets: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The library; videos stay bytes, because torchcodec, which would decode them, needs ffmpeg's libraries."""
    monkeypatch.setattr(datasets.Video, "decode_example", lambda self, value, **_: value)
    return needs.reader("mteb")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test fails that asks for an address."""

    def refuse(*arguments: Any, **settings: Any) -> Any:
        pytest.fail("a backend reached for the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clips are made without a process of their own, a fork of this one: what those are for, test_supervise.py asks."""
    import clips

    from perturbations.base import supervise

    monkeypatch.setattr(supervise, "run", clips.unsupervised)
