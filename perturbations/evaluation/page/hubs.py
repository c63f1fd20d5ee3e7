"""The report's sections of hubs: gallery items that are retrieved too often, and the similarities behind them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from perturbations.evaluation.page import figures
from perturbations.evaluation.page.intervals import marks
from perturbations.evaluation.page.parts import (
    DIRECTIONS,
    Panel,
    Part,
    Pictures,
    Plots,
    Row,
    Section,
    groups,
    of_models,
    plain_table,
    titled,
)
from perturbations.evaluation.page.views import Views
from perturbations.evaluation.pictures import Picture
from perturbations.evaluation.rows import ResultRow
from perturbations.manifest.columns import columns_of
from perturbations.tta.methods import registry as methods

_READING = (
    "0 is a gallery whose items are retrieved equally often. Bold and underlined: lowest and second; no intervals."
)


def hubs(frame: pd.DataFrame, pictures: Sequence[Picture], views: Views) -> list[Section]:
    """The sections of hubness and of similarities, for the scenarios with the lowest R@1."""
    histograms: list[Part] = []
    maps: list[Part] = []
    for model, dataset, direction, title, group in _shown(frame, pictures):
        occurrence = {methods.title_of(picture.method): picture.occurrence for picture in group}
        heat = {methods.title_of(picture.method): picture.heatmap for picture in group}
        where = titled(dataset, model, DIRECTIONS[direction], title)
        never = {name: float(np.mean(np.asarray(counts) == 0)) for name, counts in occurrence.items()}
        spoken = ", ".join(f"{name} {share:.0%}" for name, share in never.items())
        plots = Plots(
            f"{where}: number of gallery items by how often they are among the top 15, "
            f"before adaptation ({methods.baseline().title}) and after.",
            f"Histograms of k-occurrence; never retrieved: {spoken}",
            figures.histograms(occurrence),
            "times among the top 15",
            "gallery items",
        )
        caption = (
            f"{where}: the first {len(next(iter(heat.values())))} queries (rows) and gallery items (columns). "
            "Each row has its own scale, from white (lowest) to black; dark columns are hubs."
        )
        alt = "Similarities of the first queries and gallery items, one square per method"
        shown = views.of(dataset, direction)
        histograms.append(Panel(shown, [plots]))
        maps.append(Panel(shown, [Pictures(caption, alt, figures.heatmaps(heat))]))
    hubness = [column.name for column in columns_of(ResultRow) if column.name.startswith("hub_")]
    for (dataset, direction), of_dataset in groups(frame, "dataset", "direction"):
        tables: list[Part] = []
        for model, rows in of_models(of_dataset):
            perturbed = rows[rows["suite"] != "clean"]
            chosen = perturbed if len(perturbed) else rows
            means = chosen.groupby("method", sort=False)[hubness].mean()
            renamed = means.rename(columns=lambda name: name.removeprefix("hub_"))
            what = "mean over perturbed scenarios" if len(perturbed) else "clean queries"
            caption = f"{titled(dataset, model, DIRECTIONS[direction])}: hubness of the k-occurrence, k = 15, {what}"
            formats = dict.fromkeys(renamed.columns, ".3f")
            best = {
                name: marks(renamed[name].tolist(), [None] * len(renamed), ".3f", lower=True)
                for name in renamed.columns
            }
            table = plain_table(caption, renamed, formats, map(methods.title_of, renamed.index), best)
            tables.append(table)
        histograms.append(Panel(views.of(dataset, direction), [Row(tables)]))
    empty = ["No evaluation yet."]
    return [
        Section("hubness", "Hubness", [_READING] if histograms else empty, histograms),
        Section("similarities", "Similarities", [] if maps else empty, maps),
    ]


def _shown(frame: pd.DataFrame, pictures: Sequence[Picture]) -> list[tuple[str, str, str, str, list[Picture]]]:
    """The scenario of lowest R@1 per dataset, direction and model, with the pictures of each method's first seed."""
    columns = ["dataset", "model_key", "direction", "suite", "perturbation", "severity", "mix", "share"]
    drawn: dict[tuple[object, ...], list[Picture]] = {}
    for picture in pictures:
        drawn.setdefault(tuple(getattr(picture, name) for name in columns), []).append(picture)
    chosen = []
    unadapted = frame[(frame["method"] == methods.baseline().name) & frame["mix"].isna()]
    several = frame["model_key"].nunique() > 1
    for (dataset, direction, model_key), group in groups(unadapted, "dataset", "direction", "model_key"):
        worst = group.sort_values(["r1", "suite", "perturbation", "severity"], kind="stable").iloc[0]
        severity = int(worst["severity"])
        key = (dataset, model_key, direction, worst["suite"], worst["perturbation"], severity, None, None)
        members: dict[str, Picture] = {}
        for picture in drawn.get(key, ()):
            members.setdefault(picture.method, picture)
        ordered = [members[name] for name in sorted(members, key=methods.place_of)]
        if ordered:
            name = (
                "clean"
                if worst["suite"] == "clean"
                else f"{worst['suite']}/{worst['perturbation']} at severity {severity}"
            )
            model = str(worst["model_name"]) if several else ""
            chosen.append((model, dataset, direction, name, ordered))
    return chosen
