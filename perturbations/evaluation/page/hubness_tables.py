"""The report's sections of hubs: gallery items that are retrieved too often, and the similarities behind them."""

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
    method_label,
    of_models,
    online,
    plain,
    titled,
)
from perturbations.evaluation.page.ranks import ScenarioKey, run_of
from perturbations.evaluation.page.views import RetrievalChoice, Views
from perturbations.evaluation.pictures import Picture
from perturbations.evaluation.rows import ResultRow
from perturbations.manifest.columns import columns_of
from perturbations.tta.methods import registry as methods

_READING = "0: all items are retrieved equally often. Bold, underlined: nearest to 0, second; no intervals."


def hubs(frame: pd.DataFrame, pictures: Sequence[Picture], views: Views) -> list[Section]:
    """The sections of hubness and of similarities, for the scenarios with the lowest R@1."""
    histograms: list[PagePart] = []
    maps: list[PagePart] = []
    for model, dataset, direction, title, group in _shown(frame, pictures):
        occurrence = {methods.title_of(picture.method): picture.occurrence for picture in group}
        heat = {methods.title_of(picture.method): picture.heatmap for picture in group}
        where = titled(dataset, model, DIRECTIONS[direction], title)
        never = {name: float(np.mean(np.asarray(counts) == 0)) for name, counts in occurrence.items()}
        shares = ", ".join(f"{name} {share:.0%}" for name, share in never.items())
        plots = Figure(
            figures.histograms(occurrence),
            f"Histograms of k-occurrence; never retrieved: {shares}",
            f"{where}: number of gallery items by how often they are among the top 15, "
            f"before adaptation ({methods.baseline().title}) and after.",
        )
        squares = Figure(
            figures.heatmaps(heat),
            f"Similarities of the first queries and gallery items, one square per method: {', '.join(heat)}",
            f"{where}: the first {len(next(iter(heat.values())))} queries (rows) and gallery items (columns). "
            "Each row has its own scale, from white (lowest) to black; dark columns are hubs.",
        )
        own_views = views.of(dataset, direction)
        histograms.append(Group([plots], views=own_views))
        maps.append(Group([squares], views=own_views))
    for retrieval in views.retrievals:
        for dataset in views.datasets:
            rows = _of(frame, dataset, retrieval)
            if rows["hub_skewness"].notna().any():  # it is not of given features
                means: list[PagePart] = [_means(own, model, dataset, retrieval) for model, own in of_models(rows)]
                each = [_each(own, model, dataset, retrieval) for model, own in of_models(rows)]
                folded = [Group(each, "Hubness of each perturbation")] if retrieval.suite else []
                histograms.append(Group([*means, *folded], views=views.of(dataset, *retrieval)))
    return [
        Section("hubness", "Hubness", [_READING if histograms else "Not measured.", *histograms]),
        Section("similarities", "Similarities", maps or ["Not measured."]),
    ]


def _of(frame: pd.DataFrame, dataset: str, retrieval: RetrievalChoice) -> pd.DataFrame:
    """The perturbed rows of a retrieval; the clean ones where nothing is perturbed."""
    kept = (frame["dataset"] == dataset) & (frame["direction"] == retrieval.direction)
    kept &= frame["side"] == retrieval.side
    return frame[kept & (frame["suite"] == retrieval.suite)] if retrieval.suite else frame[kept]


def _means(rows: pd.DataFrame, model: str, dataset: str, retrieval: RetrievalChoice) -> PageTable:
    """Every measure of hubness per method: the mean over a retrieval's scenarios and seeds."""
    hubness = [column.name for column in columns_of(ResultRow) if column.name.startswith("hub_")]
    means = rows.groupby("method", sort=False)[hubness].mean()
    names = list(map(str, means.index))
    marked = {}
    for name in hubness:
        values = online(means[name].abs() if name in NEAR_ZERO else means[name], names)
        marked[name.removeprefix("hub_").replace("_", " ")] = marks(values, [None] * len(names), ".3f", lower=True)
    data = plain(means.set_axis(list(marked), axis=1), map(method_label, names), "method", marked)
    where = titled(dataset, model, DIRECTIONS[retrieval.direction], SIDES.get(retrieval.side, ""), retrieval.suite)
    what = "mean over perturbed scenarios" if retrieval.suite else "clean queries"
    return PageTable(f"{where}: hubness of the k-occurrence, k = 15, {what}", data, ".3f")


def _each(rows: pd.DataFrame, model: str, dataset: str, retrieval: RetrievalChoice) -> PageTable:
    """The skewness of the k-occurrence per perturbation and method: the mean over severities and seeds."""
    names = rows["perturbation"] + rows["text_perturbation"].map(
        lambda name: f" + {name}" if isinstance(name, str) else ""
    )
    table = rows.assign(name=names).pivot_table(
        values="hub_skewness", index="name", columns="method", aggfunc="mean", sort=False
    )
    where = titled(dataset, model, DIRECTIONS[retrieval.direction], SIDES.get(retrieval.side, ""), retrieval.suite)
    data = plain(table.rename(columns=method_label), map(str, table.index), "perturbation")
    return PageTable(f"{where}: skewness of the k-occurrence, mean over severities and seeds", data, ".2f")


def _shown(frame: pd.DataFrame, pictures: Sequence[Picture]) -> list[tuple[str, str, str, str, list[Picture]]]:
    """The scenario of lowest R@1 per dataset, direction and model, with the pictures of each method's first seed."""
    columns = ["dataset", "model_key", "direction", *ScenarioKey._fields]
    drawn: dict[tuple[object, ...], list[Picture]] = {}
    for picture in pictures:
        drawn.setdefault(tuple(getattr(picture, name) for name in columns), []).append(picture)
    chosen = []
    unadapted = frame[(frame["method"] == methods.baseline().name) & frame["mix"].isna()]
    several = frame["model_key"].nunique() > 1
    for (dataset, direction, model_key), group in groups(unadapted, "dataset", "direction", "model_key"):
        worst = group.sort_values(["recall_at_1", "suite", "perturbation", "severity"], kind="stable").iloc[0]
        scenario = run_of(worst.to_dict())[0]
        members: dict[str, Picture] = {}
        for picture in drawn.get((dataset, model_key, direction, *scenario), ()):
            members.setdefault(picture.method, picture)
        ordered = [members[name] for name in sorted(members, key=methods.place_of)]
        if ordered:
            what = f"{scenario.suite}/{scenario.perturbation} at severity {scenario.severity}"
            name = "clean" if scenario.suite == "clean" else titled(SIDES.get(scenario.side, ""), what)
            model = str(worst["model_name"]) if several else ""
            chosen.append((model, dataset, direction, name, ordered))
    return chosen
