"""The report: one HTML page of the results, with the papers' tables and figures, and a folder of its tables as files.

The page loads no other file, and is identical for identical manifests. It links to its tables' files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from perturbations.base import shown, storage
from perturbations.evaluation.features import mteb_results
from perturbations.evaluation.page import curves, leaderboard, page_sections, published_section, query_ranks
from perturbations.evaluation.page import scores as scoring
from perturbations.evaluation.page.displayed_names import model_names, retrievals_of, setting_of
from perturbations.evaluation.page.page_tables import (
    FORMS,
    Figure,
    PageLeaf,
    PagePart,
    PageTable,
    Section,
    as_csv,
    leaves,
    name_files,
)
from perturbations.evaluation.result_rows import RESULTS, ResultRow, ScenarioKey, backends_of, tables_of
from perturbations.evaluation.result_sets import check, with_clean
from perturbations.manifest import files
from perturbations.manifest.columns import columns_of
from perturbations.models import role_registry as models_registry
from perturbations.pages import templates
from perturbations.tta.methods import method_registry as methods

CSV_NAME = "tables.csv"
"""The file of every number of the page."""


def write(
    output: Path,
    *,
    results: Sequence[Path] = (),
    ranks: Sequence[Path] = (),
    statistics: Sequence[Path] = (),
    quarantine: Sequence[Path] = (),
    queries: Sequence[Path] = (),
    answers: Sequence[Section] = (),
) -> None:
    """Write the page, and beside it a folder of its tables and curves.

    `results` are manifests, and files of mteb (see `mteb_results`). `queries` are manifests of composed queries, of
    which the page shows a few. `answers` are the sections of answers to questions, which come first.

    Results without `ranks` have no intervals. Raises `ManifestError` when a file is not of its kind, when means of the
    results would mix models, or when ranks and results are of different runs.
    """
    frame = _read(results)
    manifests = [path for path in results if not mteb_results.is_mteb_result(path)]
    boards: list[PagePart] = []
    losses: list[PagePart] = []
    severity: list[PagePart] = []
    hubness: list[PagePart] = []
    costs: list[PagePart] = []
    published: list[PagePart] = []
    # Dataset by dataset, as the resamples of all need too much memory.
    for rows, of_directions in scoring.of_datasets(frame, query_ranks.read_ranks(ranks)):
        for choice in retrievals_of(rows):
            models = of_directions[choice.direction]
            # Results of composed queries in different galleries are not compared.
            galleries = [str(own.rows["gallery_name"].iloc[0]) * (own.direction == "composed") for own in models]
            for gallery in dict.fromkeys(galleries):
                same = [own for own, name in zip(models, galleries, strict=True) if name == gallery]
                of_gallery = choice._replace(gallery=gallery)
                boards += leaderboard.of_retrieval(same, of_gallery)
                losses += curves.losses_of(same, of_gallery)
                severity += curves.of_models(same, of_gallery)
                hubness += page_sections.hubs(same, of_gallery)
        for models in of_directions.values():
            costs += page_sections.costs(models)
        published += published_section.of_dataset(rows, of_directions)
    every = [
        *answers,
        Section("Results", boards, "results"),
        Section("Loss per perturbation", losses, "loss"),
        Section("R@1 against severity", severity, "severity"),
        Section("Published values", published and [published_section.READ, *published], "published"),
        page_sections.composed(frame),
        page_sections.examples(frame, ranks, queries),
        Section("Hubness", hubness and [page_sections.OF_HUBS, *hubness], "hubness"),
        Section("Cost", costs and [page_sections.OF_COSTS, *costs], "cost"),
        page_sections.corpora(frame, statistics, quarantine, manifests),
        page_sections.provenance(frame, manifests),
    ]
    every = [section for section in every if section.parts]
    parts = [*leaves(every)]
    name_files(parts)
    folder = tables_of(output)
    text = templates.rendered(
        "perturbations.evaluation.page",
        "page.html.j2",
        title="Questions under perturbation" if answers and frame.empty else "Retrieval under perturbation",
        summary="" if answers and frame.empty else _summary(frame),
        banner=_banner(frame),
        sections=every,
        guides=[],  # rows that an earlier table has
        forms={ending: title for ending, (title, _) in FORMS.items()},
        folder=quote(folder.name),
        csv=f"{quote(folder.name)}/{CSV_NAME}",
    )
    _write_files(folder, parts)
    storage.write_text(output, text)


def _write_files(folder: Path, parts: Sequence[PageLeaf]) -> None:
    """Write all tables as one CSV, main tables in their forms, and the curves; remove files of an earlier page."""
    tables = [part for part in parts if isinstance(part, PageTable)]
    texts = {CSV_NAME: as_csv(tables)}
    texts |= {f"{part.file}.svg": part.svg for part in parts if isinstance(part, Figure)}
    for ending, (_, written) in FORMS.items():
        texts |= {f"{table.file}.{ending}": written(table) for table in tables if table.has_files}
    for ending in (*FORMS, "csv", "svg"):
        for stale in folder.glob(f"*.{ending}"):
            if stale.name not in texts:
                stale.unlink()
    for name, text in texts.items():
        storage.write_text(folder / name, text)


def _read(paths: Sequence[Path]) -> pd.DataFrame:
    """The rows of manifests and of files of mteb, in the order of the papers' tables."""
    names = [column.name for column in columns_of(ResultRow)]
    rows = [row for path in paths if not mteb_results.is_mteb_result(path) for row in files.read_rows(path, RESULTS)]
    rows += mteb_results.read([path for path in paths if mteb_results.is_mteb_result(path)])
    check(rows)
    rows = with_clean(rows, ())
    frame = pd.DataFrame([[getattr(row, name) for name in names] for row in rows], columns=names)
    return frame.assign(
        model_name=frame["model_key"].map(model_names(frame["model_key"])),
        applied=[setting_of(row.method, row.label) for row in rows],
    ).sort_values(
        ["dataset", "model_name", "method", "seed"],
        key=lambda column: column.map(methods.place_of) if column.name == "method" else column,
        kind="stable",
        ignore_index=True,
    )


def _summary(frame: pd.DataFrame) -> str:
    if frame.empty:
        return "Nothing was evaluated yet: snakemake tta_<dataset>, then snakemake report."
    scenarios = len(frame[["dataset", "direction", *ScenarioKey._fields]].drop_duplicates())
    # Composed results name a gallery behind the model.
    names = zip(frame["model_name"], frame["gallery_name"], strict=True)
    models = sorted({name.removesuffix(f"@{gallery}") for name, gallery in names})
    name = f" ({models[0]})" if len(models) == 1 else ""  # tables name only several
    return (
        f"{shown.plural(frame['dataset'].nunique(), 'dataset')}, {shown.plural(len(models), 'model')}{name}, "
        f"{shown.plural(scenarios, 'scenario')}, {shown.plural(frame['applied'].nunique(), 'method')}."
    )


def _banner(frame: pd.DataFrame) -> list[str]:
    """What cannot be compared with published numbers: stand-ins of models, by role, and other severities."""
    offline: dict[str, set[str]] = {}
    for backend in frame["backend"].dropna().unique():
        for role, maker in backends_of(backend).items():
            stands_in = maker in ("offline", "demo_encoder") or role == "severities"
            if stands_in or (role == "captions" and models_registry.stand_ins() & set(maker.split(" + "))):
                offline.setdefault(role, set()).add(maker)
    words = {
        "retrieval": "a small encoder that the workflow trained on synthetic scenes",
        "captions": "perturbed or compared by {}",
        "severities": "{}, not the published ones",
    }
    texts = {
        role: words.get(role, "the offline backend").format(", ".join(sorted(own))) for role, own in offline.items()
    }
    return [f"{role.replace('_', ' ').capitalize()}: {text}." for role, text in sorted(texts.items())]
