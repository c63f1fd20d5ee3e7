"""Results, ranks and a page of features that any program computed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perturbations.base import shown
from perturbations.base.errors import ConfigError
from perturbations.base.project import need_models
from perturbations.cli.arguments import Parser, positive
from perturbations.corpus.jobs.job_metadata import provenance
from perturbations.manifest import manifest_paths

if TYPE_CHECKING:
    from perturbations.composed.split import Split
    from perturbations.evaluation.result_rows import RankRow, ResultRow

_WORDS = ("instruction", "tfcvr", "gt")
_STRATEGIES = ("text", "visual", "average", "two_stage", "two_stage_average")


def add_arguments(parser: Parser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "queries",
        nargs="?",
        type=Path,
        help="features by id (.npz or .pt of `ids` and `features`, .safetensors, .parquet, .csv, or .npy beside a CSV "
        "of ids), or a folder of clean.npz and SUITE/PERTURBATION/SEVERITY.npz; composed: those of the texts, by text",
    )
    parser.add_argument(
        "gallery", nargs="?", type=Path, help="the same for the gallery; composed: features of the clips, by name"
    )
    parser.add_argument(
        "--similarities",
        type=Path,
        metavar="FILE.npz",
        help="instead of features: `queries`, `gallery` (ids) and `similarities` (N x M), or a folder of such files",
    )
    parser.add_argument(
        "--direction",
        choices=("t2v", "v2t", "t2i", "i2t", "composed"),
        default="t2v",
        help="t2v: captions are the queries; v2t: videos are; t2i and i2t are the same for pictures",
    )
    parser.add_argument(
        "--relevant",
        type=Path,
        metavar="FILE",
        help="the dataset's qrels.parquet, or a table of query_id,gallery_id pairs; default: equal ids",
    )
    parser.add_argument(
        "--choices",
        type=Path,
        metavar="FILE.csv",
        help="multiple choice: query_id,gallery_id pairs, the items that a query chooses among; R@1 is the accuracy",
    )
    parser.add_argument(
        "--sides",
        nargs="+",
        choices=("query", "gallery", "both"),
        help="the perturbed sides; default: query and gallery; with --similarities: query",
    )
    parser.add_argument("--methods", nargs="+", default=[], metavar="NAME", help="methods on similarities; need torch")
    parser.add_argument("--bank", type=Path, help="features of training queries, for methods with a bank")
    parser.add_argument(
        "--gallery-bank", type=Path, help="features of items of the gallery's kind; default: the gallery"
    )
    parser.add_argument("--top-k", type=positive, help="keep this many of the items that each query retrieved first")
    parser.add_argument(
        "--protocol", metavar="NAME", help="the published protocol that was followed; its values are shown beside yours"
    )
    parser.add_argument("--dataset", default="features", help="the name in tables; default: features")
    parser.add_argument("--model", default="features", help="the name in tables; default: features")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("scored"),
        help="the folder of results, ranks and page; default: scored",
    )
    composed = parser.add_argument_group("composed retrieval")
    composed.add_argument(
        "--split",
        type=Path,
        metavar="FILE",
        help="the annotations: EgoCVR's or WebVid-CoVR's without --adapter; or a folder of a split's manifests",
    )
    composed.add_argument("--adapter", metavar="NAME", help="which adapter of composed queries reads --split")
    composed.add_argument(
        "--columns",
        nargs="+",
        default=[],
        metavar="ROLE=NAME",
        help="what the table of `--adapter composed_table` calls source, targets, instruction, ...",
    )
    composed.add_argument(
        "--pool", type=Path, metavar="FILE", help="the table of all clips, as the key `pool` of a dataset names it"
    )
    composed.add_argument(
        "--source-in-gallery",
        choices=("true", "false", "both"),
        help="whether the query's own clip is in galleries; default: as the dataset's authors have it",
    )
    composed.add_argument(
        "--first-stage",
        nargs="+",
        metavar=("NAME", "FILE"),
        help="the model that makes shortlists: its name, the features of clips, and perhaps those of texts",
    )
    composed.add_argument("--words", nargs="+", choices=_WORDS, help="default: all that every query has")
    composed.add_argument("--strategies", nargs="+", choices=_STRATEGIES, default=_STRATEGIES, help="default: all")
    composed.add_argument("--galleries", nargs="+", metavar="NAME", help="default: all")
    composed.add_argument(
        "--frames", choices=("mean", "middle"), default="mean", help="which feature of a clip with several is used"
    )
    composed.add_argument(
        "--shortlist", type=positive, default=15, help="number of clips that the first stage keeps; default: 15"
    )


_OF_PLAIN = (
    *("dataset", "model", "direction", "relevant", "choices", "sides", "methods", "bank", "gallery_bank", "top_k"),
    "protocol",
)
_OF_COMPOSED = (
    *("dataset", "model", "strategies", "words", "galleries", "source_in_gallery", "first_stage", "frames"),
    *("shortlist", "top_k", "protocol"),
)
"""The options that the functions of `evaluation` take under their own names."""


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from perturbations.evaluation.plan.evaluation_settings import direction_of_clips
    from perturbations.evaluation.published import protocols

    options.direction = direction_of_clips(options.direction)
    if options.methods:
        need_models("torch")
    if options.protocol is not None:
        protocols.protocol(options.protocol)
    given = [path for path in (options.queries, options.gallery) if path is not None]
    if len(given) != (0 if options.similarities else 2):
        raise ConfigError("give the features of the queries and of the gallery, or --similarities alone")
    if options.direction == "composed":
        return _composed(options)
    if options.similarities and (options.methods or options.bank or options.gallery_bank):
        raise ConfigError("--methods and their banks need the features of the queries and of the gallery")
    if options.split or options.first_stage:
        raise ConfigError(f"--split and --first-stage are of composed retrieval, not of {options.direction}")
    return _plain(options)


def _plain(options: argparse.Namespace) -> int:
    from perturbations.evaluation import result_sets
    from perturbations.evaluation.features import feature_scores
    from perturbations.evaluation.plan.method_settings import AS_IT_IS

    given = (options.similarities, None) if options.similarities else (options.queries, options.gallery)
    rows, ranks = feature_scores.scored(*given, **{name: getattr(options, name) for name in _OF_PLAIN})
    write(options.output, rows, ranks)
    for row in rows:
        scenario = "clean" if row.side == "none" else result_sets.scenario_name(row)
        recalls = ", ".join(f"R@{k} {getattr(row, f'recall_at_{k}'):.1f}" for k in (1, 5, 10))
        if options.choices is not None:
            recalls = f"accuracy {row.recall_at_1:.1f}"
        counts = f"{shown.plural(row.queries, 'query')}, {row.missing_queries:,} missing"
        counts += f", {shown.plural(row.gallery, 'item')}"
        method = "" if row.method == AS_IT_IS else f", {row.method}"
        print(f"{scenario}{method}: {recalls} ({counts})")
    return 0


def _composed(options: argparse.Namespace) -> int:
    """Score composed retrieval; the page shows examples of queries where it is kept what they retrieved first."""
    from perturbations.composed import audit, manifests
    from perturbations.evaluation.composed import composed_scores
    from perturbations.evaluation.composed.ways import MAP_KS
    from perturbations.retrieval.composed import GLOBAL_KS, LOCAL_KS

    if options.split is None or options.relevant is not None or options.choices is not None:
        raise ConfigError(
            "--direction composed needs --split, which says what answers a query, and no --relevant or --choices"
        )
    split = manifests.read(options.split) if options.split.is_dir() else _split_of_file(options)
    for comparison in audit.compared(split):
        print(shown.line(audit.words(comparison)))
    given = (None, options.similarities) if options.similarities else (options.queries, options.gallery)
    rows, ranks = composed_scores.scored(split, *given, **{name: getattr(options, name) for name in _OF_COMPOSED})
    for row in rows:
        figures = {f"R@{k}": f"recall_at_{k}" for k in (LOCAL_KS if "@local" in row.model_key else GLOBAL_KS)}
        figures |= {f"mAP@{k}": f"map_at_{k}" for k in MAP_KS if row.map_at_5 is not None}
        figures |= {"own clip first": "source_first"} if row.source_first is not None else {}
        recalls = ", ".join(f"{name} {getattr(row, column):.2f}" for name, column in figures.items())
        scenario = "" if row.side == "none" else f", {row.suite}/{row.perturbation} {row.severity}"
        print(shown.line(f"{row.model_key}: {row.method}{scenario}: {recalls} ({shown.plural(row.queries, 'query')})"))
    folder = options.split if options.split.is_dir() else options.output / "split"
    if options.top_k is not None and folder != options.split:
        manifests.write(split, folder, options.dataset, (), {"root": "."})
    asked = [] if options.top_k is None else [folder / manifest_paths.name("composed_queries")]
    write(options.output, rows, ranks, asked)
    return 0


def _split_of_file(options: argparse.Namespace) -> Split:
    """The split of an annotation file, by the adapter that is named."""
    from perturbations.composed import sources

    if options.adapter is None and (options.columns or options.pool):
        raise ConfigError("--columns and --pool need --adapter: composed_table reads any table")
    if lacking := [text for text in options.columns if "=" not in text]:
        raise ConfigError(f"--columns {lacking[0]}: write ROLE=NAME, as source=video_1 targets=video_2")
    columns = dict(text.split("=", 1) for text in options.columns)
    return sources.of_file(options.split, options.adapter, columns, options.pool)


def write(folder: Path, rows: Sequence[ResultRow], ranks: Sequence[RankRow], queries: Sequence[Path] = ()) -> None:
    """Write results, ranks, and their page, into a folder; `queries` are manifests of composed queries."""
    from perturbations.evaluation.page import evaluation_page
    from perturbations.evaluation.result_rows import RANKS, RESULTS
    from perturbations.evaluation.result_sets import check
    from perturbations.manifest import files

    check(rows)
    results, of_ranks = (folder / manifest_paths.name(name) for name in ("results", "ranks"))
    about = {**provenance(results), "root": "."}  # rows of features name no files
    files.write(results, RESULTS, rows, about)
    files.write(of_ranks, RANKS, ranks, about)
    page = folder / manifest_paths.name("results_page")
    evaluation_page.write(page, results=[results], ranks=[of_ranks], queries=queries)
    print(shown.line(f"page: {page}"))
