"""The papers' figures as files: each as SVG, and its data as CSV.

Curves of every metric over severity (HAT-VTR, Fig. 13; MSRVTT-P, Fig. 8, 19 and 20), robustness of combined
perturbations (MSRVTT-P, Fig. 4), sensitivity to a method's parameters (HAT-VTR, Fig. 5 to 7), similarities (MSRVTT-P,
Fig. 6), the loss by step (HAT-VTR, Fig. 8) and t-SNE of stored features (HAT-VTR, Fig. 5 (c)).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from perturbations.base import storage
from perturbations.base.checkpoints import library
from perturbations.base.errors import AnnotationError
from perturbations.base.records import canonical
from perturbations.evaluation import stored_features
from perturbations.evaluation.page import figures, robustness_tables
from perturbations.evaluation.page.intervals import CLEAN_MEAN, Scores, mean_of, spans_of
from perturbations.evaluation.page.page_sections import shown
from perturbations.evaluation.page.page_tables import file_name
from perturbations.evaluation.page.parts import METRICS, RetrievalChoice, Views, method_label, titled
from perturbations.evaluation.page.ranks import setting_of
from perturbations.evaluation.page.severity_plots import curves
from perturbations.evaluation.pictures import Picture
from perturbations.tta.methods import registry as methods

_NEIGHBOURS = 30  # of t-SNE: its perplexity
_CURVE = ["plot", "line", "x", "value", "low", "high"]


def of_dataset(folder: Path, of_directions: Mapping[str, Sequence[Scores]], views: Views) -> None:
    """Write the figures of one dataset, its models by direction."""
    for retrieval in views.retrievals:
        models = [own for own in of_directions.get(retrieval.direction, ()) if own.every(*_place(retrieval))]
        if not models or not retrieval.suite:
            continue
        where = titled(models[0].dataset, retrieval.name)
        for metric, title in METRICS.items():
            _curves(folder, f"{title} over severity, {where}", title, _over_severity(models, retrieval, metric))
        for score, frame in _robustness(models, of_directions, retrieval):
            title = robustness_tables.FORMULAS[score][0]
            if retrieval.side == "both":
                _grids(folder, f"{title} of combinations, {where}", frame)
            else:
                _curves(folder, f"{title} over severity, {where}", title, frame[_CURVE])
        for parameter, frame in _sensitivity(models, retrieval):
            _curves(folder, f"R@1 by {parameter}, {where}", "R@1, %", frame, across=parameter)


def of_pictures(folder: Path, frame: pd.DataFrame, pictures: Sequence[Picture]) -> None:
    """Write the similarities of the scenarios with the lowest R@1."""
    for _, _, where, group in shown(frame, pictures):
        squares = {name: np.asarray(picture.heatmap) for name, picture in group.items()}
        cells = [
            pd.DataFrame([(name, *place, value) for place, value in np.ndenumerate(square)])
            for name, square in squares.items()
        ]
        data = pd.concat(cells).set_axis(["method", "query", "gallery_item", "similarity"], axis=1)
        _write(folder, f"similarities, {where}", figures.similarities(squares), data)
    _losses(folder, pictures)


def _losses(folder: Path, pictures: Sequence[Picture]) -> None:
    """Write the loss of each method by step, a plot per perturbation at its highest severity."""
    rows: dict[str, dict[tuple[str, str], tuple[float, ...]]] = {}
    for picture in sorted(pictures, key=lambda own: -(own.severity or 0)):
        if picture.losses and picture.mix is None:
            where = titled(picture.dataset, picture.model_key, picture.direction, picture.side, picture.suite)
            name = titled(picture.perturbation, picture.text_perturbation or "")
            line = name, method_label(setting_of(picture.method, picture.label))
            rows.setdefault(where, {}).setdefault(line, picture.losses)  # of the first seed
    for where, own in rows.items():
        cells = [(*line, step, loss) for line, losses in own.items() for step, loss in enumerate(losses, 1)]
        _curves(folder, f"loss by step, {where}", "loss", pd.DataFrame(cells, columns=_CURVE[:4]), "step")


def of_features(folder: Path, paths: Sequence[Path]) -> None:
    """Write t-SNE of the features of files, all in one plane, a colour per file. Needs scikit-learn.

    Raises `AnnotationError` for a file without features, and where widths differ; `ConfigError` without the library.
    """
    held = [stored_features.read(path) for path in paths]
    for own in held[1:]:
        if own.rows.shape[1] != held[0].rows.shape[1]:
            widths = f"{own.rows.shape[1]} numbers each, {held[0].path} {held[0].rows.shape[1]}"
            raise AnnotationError(f"{own.path} has {widths}: t-SNE is of features of one model")
    rows = np.concatenate([own.rows for own in held])
    near = min(_NEIGHBOURS, (len(rows) - 1) / 3)
    plane = library("sklearn.manifold", package="scikit-learn").TSNE(perplexity=near, init="pca", random_state=0)
    names = [(name, own.path.with_suffix("").as_posix()) for own in held for name in own.ids]
    frame = pd.DataFrame(names, columns=["id", "line"]).join(
        pd.DataFrame(plane.fit_transform(rows), columns=["x", "y"])
    )
    _write(folder, f"t-SNE of {len(rows)} features", figures.points(frame), frame)


def _place(retrieval: RetrievalChoice) -> tuple[str, str]:
    return retrieval.suite, retrieval.side


def _write(folder: Path, caption: str, svg: str, data: pd.DataFrame) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    storage.write_text(folder / f"{file_name(caption)}.svg", svg)
    storage.write_text(folder / f"{file_name(caption)}.csv", data.to_csv(index=False, float_format="%.6g"))


def _curves(folder: Path, caption: str, title: str, frame: pd.DataFrame, across: str = "severity") -> None:
    if len(frame):
        _write(folder, caption, figures.curves(frame, across, title), frame)


def _over_severity(models: Sequence[Scores], retrieval: RetrievalChoice, metric: str) -> pd.DataFrame:
    """A metric of every model and method by severity, a plot per perturbation."""
    frames = []
    for scores in models:
        by_name: dict[str, list[Any]] = {}
        for key in scores.every(*_place(retrieval)):
            by_name.setdefault(titled(key.perturbation, key.text_perturbation or ""), []).append(key)
        frames.append(curves(scores, by_name, metric, scores.model if len(models) > 1 else ""))
    return pd.concat(frames)


def _robustness(
    models: Sequence[Scores], of_directions: Mapping[str, Sequence[Scores]], retrieval: RetrievalChoice
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each score of the suite's paper by perturbation and severity; none where its paper defines none."""
    rows: dict[str, list[tuple[object, ...]]] = {}
    for scores in models:
        known = robustness_tables.compared(scores, of_directions, retrieval)
        for score in () if known is None else known.scores:
            for method in scores.methods:
                line = titled(scores.model if len(models) > 1 else "", method_label(method))
                for key, _, estimate in known.cells(score, known.categories, method) if known else ():
                    span = spans_of([estimate])[0] or (None, None)
                    cell = key.perturbation, line, key.severity, float(estimate[0]), *span, key.text_perturbation
                    rows.setdefault(score, []).append(cell)
    for score, own in rows.items():
        yield score, pd.DataFrame(own, columns=[*_CURVE, "text_perturbation"]).dropna(subset=["value"])


def _grids(folder: Path, caption: str, frame: pd.DataFrame) -> None:
    """A heat map per model and method: perturbations of videos x those of captions."""
    for line, own in frame.groupby("line", sort=False):
        values = own.pivot_table(values="value", index="plot", columns="text_perturbation", sort=False)
        svg = figures.grid(values, "perturbation of captions", "perturbation of videos")
        _write(folder, f"{caption}, {line}", svg, values.reset_index(names="perturbation"))


def _sensitivity(models: Sequence[Scores], retrieval: RetrievalChoice) -> Iterator[tuple[str, pd.DataFrame]]:
    """R@1 by the values of each parameter that settings of one method differ in, all others being equal."""
    rows: dict[str, list[tuple[object, ...]]] = {}
    for scores in models:
        columns = {"clean": CLEAN_MEAN, retrieval.suite: mean_of(scores.every(*_place(retrieval)))}
        for method, parameter, settings in _settings(scores):
            where = titled(scores.model if len(models) > 1 else "", methods.title_of(method))
            for (value, entry), (line, column) in product(settings, columns.items()):
                estimate = scores.estimate("recall_at_1", entry, column)
                span = spans_of([estimate])[0] or (None, None)
                rows.setdefault(parameter, []).append((where, line, value, float(estimate[0]), *span))
    for parameter, cells in rows.items():
        yield parameter, pd.DataFrame(cells, columns=_CURVE)


def _settings(scores: Scores) -> Iterator[tuple[str, str, list[tuple[Any, str]]]]:
    """Methods, parameters, and of each at least two values with the settings that differ in nothing else."""
    known: dict[str, dict[str, dict[str, Any]]] = {}
    stated = scores.rows[["method", "label", "parameters"]].drop_duplicates().dropna(subset=["parameters"])
    for name, label, text in stated.itertuples(index=False):
        entry = setting_of(name, label)
        known.setdefault(entry.partition(":")[0], {})[entry] = json.loads(text)
    for method, settings in known.items():
        for parameter in dict.fromkeys(name for own in settings.values() for name in own):
            alike: dict[str, list[tuple[Any, str]]] = {}
            for entry, own in settings.items():
                others = canonical({name: value for name, value in own.items() if name != parameter})
                alike.setdefault(others, []).append((_axis(own.get(parameter)), entry))
            for members in alike.values():
                if len({value for value, _ in members}) > 1:
                    yield method, parameter, sorted(members, key=lambda member: (isinstance(member[0], str), member[0]))


def _axis(value: object) -> float | str:
    """A value's place on an axis: a number, or the name of a category."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else canonical(value)
