"""The continual setting: what a method learned goes on to the next scenario of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import clips
import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny_models
from test_evaluation import CAPTIONS, five_clips, job
from test_evaluation_plan import parsed

from perturbations import tta
from perturbations.evaluation import backbone, galleries, queries, runner, scenarios
from perturbations.evaluation import planning as evaluation
from perturbations.evaluation.rows import ResultRow
from perturbations.manifest.kinds import CompleteSource, MixRow
from perturbations.plan import mixes, recipe, tiers
from perturbations.suites import registry
from perturbations.tta.methods.registry import methods

METHODS = tuple(name for name, entry in methods().items() if not entry.needs_bank)
ADAPTING = tuple(name for name in METHODS if methods()[name].adapts)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[CompleteSource]:
    return five_clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> backbone.LoadedBackbone:
    folder = tiny_models.save_clip(tmp_path_factory.mktemp("model") / "clip")
    return backbone.load(job("v2t", ["none"]), str(folder), None, "cpu")  # type: ignore[arg-type]


def continual_job(wanted: Sequence[str], names: str = "12", setting: str = "qs_continual") -> dict[str, Any]:
    settings = job("v2t", wanted)
    scenario = settings["scenarios"][0]
    mixed = {"side": "query", "suite": "mlvp", "severity": None, "mix": "mixed_types"}
    named = [{**scenario, **mixed, "perturbation": name, "share": float(name)} for name in names]
    return {**settings, "setting": setting, "scenarios": named}


def run(
    settings: dict[str, Any], loaded: backbone.LoadedBackbone, rows: Sequence[CompleteSource], journal: Path
) -> list[ResultRow]:
    """Scenario "1" asks all clips, others the first three."""
    clean = scenarios.Clean(rows, CAPTIONS)
    captions = galleries.encoded(loaded, CAPTIONS, 3)
    given = runner.EvaluationJob(settings, loaded, clean, {"captions": captions}, None)  # type: ignore[arg-type]
    return runner.evaluate(given, lambda scenario, _: (asking(rows, scenario), "hash"), journal)[0]


def asking(rows: Sequence[CompleteSource], scenario: Mapping[str, Any]) -> list[MixRow]:
    wanted = recipe.make(registry.get("mlvp/gaussian_noise"), 1, seed=0, storage=tiers.Unstored())
    chosen = rows if scenario["perturbation"] == "1" else rows[:3]
    likes = [clips.video_row(wanted, item_id=row.item_id) for row in chosen]
    return [mixes._clean_row(scenario["share"], like, row) for like, row in zip(likes, chosen, strict=True)]


class Seen:
    """The similarities of each run, by method, as they are computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop_at: int = 1000) -> None:
        self.runs: list[tuple[str, np.ndarray]] = []
        compute = runner._similarities

        def kept(given: Any, batches: Any, queries: int, method: str, state: Any) -> np.ndarray:
            if len(self.runs) == stop_at:
                raise KeyboardInterrupt
            self.runs.append((method, compute(given, batches, queries, method, state)))
            return self.runs[-1][1]

        monkeypatch.setattr(runner, "_similarities", kept)

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.runs]


@pytest.mark.parametrize("method", METHODS)
def test_the_second_scenario_goes_on_where_the_first_ended(
    method: str,
    loaded: backbone.LoadedBackbone,
    rows: list[CompleteSource],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = Seen(monkeypatch)
    result = run(continual_job([method]), loaded, rows, tmp_path / "continual.jsonl")
    run(continual_job([method], setting="qs"), loaded, rows, tmp_path / "reset.jsonl")
    (_, first), (_, second), (_, reset_first), (_, reset_second) = seen.runs
    assert np.array_equal(first, reset_first)
    assert np.array_equal(second, reset_second) == (method not in ADAPTING)
    assert [row.setting for row in result] == 2 * ["qs_continual"]
    if method in ADAPTING:
        parts = [queries.Clips(rows, 3, loaded.images, tmp_path).batch(slice(part, part + 2)) for part in (0, 2, 4)]
        stream = [*parts, parts[0], tta.ByteFrames(parts[1].values[:1], parts[1].mean, parts[1].std)]
        gallery = galleries.encoded(loaded, CAPTIONS, 3)
        whole = torch.cat(list(tta.adapt(loaded.model, method, stream, gallery, direction="v2t", steps=1)))
        assert np.array_equal(whole[5:].numpy(), second)
        # Counts and times are each scenario's own: three batches, then two.
        assert [row.updates + row.empty + row.non_finite for row in result] == [3, 2]
    assert all(row.total_ms_p50 is not None and row.total_ms_p50 > 0 for row in result)


def test_an_interrupted_job_starts_again_with_its_first_scenario(
    loaded: backbone.LoadedBackbone, rows: list[CompleteSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = continual_job(["none", "tcr", "tent"])
    whole = run(settings, loaded, rows, tmp_path / "whole.jsonl")
    journal = tmp_path / "journal.jsonl"
    with monkeypatch.context() as patched:
        seen = Seen(patched, stop_at=5)
        with pytest.raises(KeyboardInterrupt):
            run(settings, loaded, rows, journal)
        assert seen.methods == ["none", "TCR", "TENT", "none", "TCR"]
    with monkeypatch.context() as patched:
        seen = Seen(patched)
        again = run(settings, loaded, rows, journal)
        # `none` has no state, and `tcr` was done; the journal does not hold the state of `tent`.
        assert seen.methods == ["TENT", "TENT"]
        assert run(settings, loaded, rows, journal) == again
        assert len(seen.runs) == 2
    figures = [(row.recipe_id, row.recall_at_1, row.mean_rank, row.updates) for row in whole]
    assert [(row.recipe_id, row.recall_at_1, row.mean_rank, row.updates) for row in again] == figures


def test_what_was_asked_before_is_part_of_a_run(
    loaded: backbone.LoadedBackbone, rows: list[CompleteSource], tmp_path: Path
) -> None:
    both, alone, other = (
        run(continual_job(["none", "tcr"], names), loaded, rows, tmp_path / f"{names}.jsonl")
        for names in ("12", "2", "32")
    )
    none, tcr = (
        [next(row.recipe_id for row in result if (row.perturbation, row.method) == ("2", method))
         for result in (both, alone, other)]
        for method in ("none", "tcr")
    )  # fmt: skip
    assert len(set(none)) == 1
    assert len(set(tcr)) == 3


def test_the_setting_is_part_of_the_key_and_of_the_rows() -> None:
    reset, continual = parsed(), parsed(continual=True)
    a, b = (evaluation.model_key(wanted) for wanted in (reset, continual))
    assert a.replace("-qs-", "-qs_continual-")[:-8] == b[:-8]
    settings = evaluation.settings(continual, "demo", ("v2t", "query", "mlvp", "low"), "adapted")
    assert (settings["setting"], settings["model_key"]) == ("qs_continual", b)
