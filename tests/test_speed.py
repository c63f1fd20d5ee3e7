"""The speed of the machine at hand, by which the estimates of CPU time are scaled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_preflight import project, wanted_of
from test_workflow import Project

from perturbations.preflight import check as preflight
from perturbations.preflight import speed

__all__ = ["project"]  # the fixture of test_preflight


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The CPU seconds of each part of the looks that follow, per second of the reference."""
    looks: list[float] = []
    names = iter(list(speed.REFERENCE) * 100)

    def cpu_s(work: Any, path: Path) -> float:
        name = next(names)
        return speed.REFERENCE[name] * (looks.pop(0) if name == list(speed.REFERENCE)[-1] else looks[0])

    monkeypatch.setattr(speed, "_cpu_s", cpu_s)
    return looks


def test_a_look_does_the_work_of_jobs_and_takes_little() -> None:
    probe = speed.Probe()
    first = probe.look()
    assert 0.1 < first < 100
    assert probe.slower == pytest.approx(speed.USUAL * first**speed.FOLLOWS)
    probe.look()
    assert probe.slower <= 1.0001 * speed.USUAL * first**speed.FOLLOWS


def test_the_best_of_several_looks_counts(times: list[float]) -> None:
    times += [3.0, 1.5, 2.0]
    probe = speed.Probe()
    assert [probe.look() for _ in range(3)] == pytest.approx([3.0, 1.5, 2.0])
    assert probe.slower == pytest.approx(speed.USUAL * 1.5**speed.FOLLOWS)


def test_without_a_look_a_machine_is_like_that_of_the_costs() -> None:
    assert speed.Probe().slower == speed.USUAL


@pytest.mark.parametrize(("name", "error"), [("_parts", ImportError()), ("_cpu_s", OSError(28, "No space left"))])
def test_without_a_decoder_or_a_disk_nothing_is_known(
    name: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object) -> float:
        raise error

    monkeypatch.setattr(speed, name, nothing)
    probe = speed.Probe()
    assert probe.look() == 1.0
    assert probe.slower == speed.USUAL


def test_on_a_slower_machine_a_run_takes_longer(project: Project, times: list[float]) -> None:
    config, wanted = wanted_of(project, "mlvp_tiny")

    def line(**changed: Any) -> str:
        (text,) = (line for line in preflight.check(config, wanted, 2, **changed).lines if line.startswith("time: "))
        return text

    times += [1.0, 1.0]
    quick = line()
    times += [60.0, 60.0]
    slow = line()
    assert quick.endswith("seconds on 2 cores")
    assert "minutes of CPU" in slow
    times += [60.0, 60.0]
    assert line(local=False) == quick, "other machines run the jobs"
