"""The report's section of hubs: gallery items that are retrieved too often."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from perturbations.evaluation.page import figures
from perturbations.evaluation.page.intervals import marks
from perturbations.evaluation.page.overview import NEAR_ZERO
from perturbations.evaluation.page.page_tables import PageTable
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    SIDES,
    Figure,
    Group,
    PagePart,
    Section,
    groups,
    in_order,
    method_label,
    needs_all_queries,
    of_models,
    plain,
    titled,
)
from perturbations.evaluation.page.ranks import run_of, setting_of
from perturbations.evaluation.page.views import RetrievalChoice, Views
from perturbations.evaluation.pictures import Picture
from perturbations.evaluation.rows import ResultRow, ScenarioKey
from perturbations.manifest.columns import columns_of
from perturbations.tta.methods import registry as methods

_READING = "0: all items are retrieved equally often. Bold, underlined: nearest to 0, second; no intervals."


def hubs(frame: pd.DataFrame, pictures: Sequence[Picture], views: Views) -> Section:
    """Histograms of the scenarios with the lowest R@1, and the measures of hubness of each method."""
    parts: list[PagePart] = []
    for dataset, direction, where, group in shown(frame, pictures):
        occurrence = {name: picture.occurrence for name, picture in group.items()}
        shares = ", ".join(f"{name} {np.mean(np.asarray(own) == 0):.0%}" for name, own in occurrence.items())
        plots = Figure(
            figures.address(figures.histograms(occurrence)),
            f"Histograms of k-occurrence; never retrieved: {shares}",
            f"{where}: number of gallery items by how often they are among the top 15, "
            f"before adaptation ({methods.baseline().title}) and after.",
        )
        parts.append(Group([plots], views=views.of(dataset, direction)))
    for retrieval in views.retrievals:
        for dataset in views.datasets:
            rows = _of(frame, dataset, retrieval)
            if rows["hub_skewness"].notna().any():  # it is not of given features
                means = [_means(own, model, dataset, retrieval) for model, own in of_models(rows)]
                parts.append(Group(means, views=views.of(dataset, *retrieval)))
    return Section("hubness", "Hubness", parts and [_READING, *parts])


def _of(frame: pd.DataFrame, dataset: str, retrieval: RetrievalChoice) -> pd.DataFrame:
    """The perturbed rows of a retrieval; the clean ones where nothing is perturbed."""
    kept = (frame["dataset"] == dataset) & (frame["direction"] == retrieval.direction)
    kept &= frame["side"] == retrieval.side
    return frame[kept & (frame["suite"] == retrieval.suite)] if retrieval.suite else frame[kept]


def _means(rows: pd.DataFrame, model: str, dataset: str, retrieval: RetrievalChoice) -> PageTable:
    """Every measure of hubness per method: the mean over a retrieval's scenarios and seeds."""
    hubness = [column.name for column in columns_of(ResultRow) if column.name.startswith("hub_")]
    means = rows.groupby("applied", sort=False)[hubness].mean()
    names = list(map(str, means.index))
    compared = means[[not needs_all_queries(name) for name in names]].reindex(means.index)
    marked = {}
    for name in hubness:
        values = compared[name].abs() if name in NEAR_ZERO else compared[name]
        marked[name.removeprefix("hub_").replace("_", " ")] = marks(values.to_numpy()[:, None], ".3f", lower=True)
    data = plain(means.set_axis(list(marked), axis=1), map(method_label, names), "method", marked)
    where = titled(dataset, model, DIRECTIONS[retrieval.direction], SIDES.get(retrieval.side, ""), retrieval.suite)
    what = "mean over perturbed scenarios" if retrieval.suite else "clean queries"
    return PageTable(f"{where}: hubness of the k-occurrence, k = 15, {what}", data, ".3f")


def shown(frame: pd.DataFrame, pictures: Sequence[Picture]) -> list[tuple[str, str, str, dict[str, Picture]]]:
    """Per dataset, direction and model the scenario of lowest R@1: what it is, and the picture of each method."""
    columns = ["dataset", "model_key", "direction", *ScenarioKey._fields]
    drawn: dict[tuple[object, ...], dict[str, Picture]] = {}
    for picture in pictures:
        members = drawn.setdefault(tuple(getattr(picture, name) for name in columns), {})
        members.setdefault(setting_of(picture.method, picture.label), picture)  # of the first seed
    chosen = []
    unadapted = frame[(frame["method"] == methods.baseline().name) & frame["mix"].isna()]
    several = frame["model_key"].nunique() > 1
    for (dataset, direction, model_key), group in groups(unadapted, "dataset", "direction", "model_key"):
        worst = group.sort_values(["recall_at_1", "suite", "perturbation", "severity"], kind="stable").iloc[0]
        scenario = run_of(worst.to_dict())[0]
        members = drawn.get((dataset, model_key, direction, *scenario), {})
        if members:
            what = f"{scenario.suite}/{scenario.perturbation} at severity {scenario.severity}"
            name = "clean" if scenario.suite == "clean" else titled(SIDES.get(scenario.side, ""), what)
            where = titled(dataset, str(worst["model_name"]) if several else "", DIRECTIONS[direction], name)
            titles = {method_label(method): members[method] for method in in_order(members)}
            chosen.append((dataset, direction, where, titles))
    return chosen
