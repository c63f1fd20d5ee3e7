"""The page's other sections: hubs, which are retrieved too often, costs, examples, contents of corpora, provenance."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from perturbations.base import shown
from perturbations.evaluation.page.displayed_names import (
    DIRECTIONS,
    RetrievalChoice,
    groups,
    method_label,
    needs_all_queries,
    row_names,
    titled,
)
from perturbations.evaluation.page.leaderboard import HUB_K, NEAR_ZERO
from perturbations.evaluation.page.marks import marks
from perturbations.evaluation.page.page_tables import PagePart, PageTable, Section, cell_of, text_frame
from perturbations.evaluation.page.scores import Scores, are_paired
from perturbations.evaluation.result_rows import ResultRow, ScenarioKey
from perturbations.evaluation.result_sets import RANDOM
from perturbations.manifest import files, manifest_paths, sets
from perturbations.manifest.columns import columns_of
from perturbations.manifest.skipped import of_manifest, sentences
from perturbations.tta.methods import method_registry as methods

_COSTS = [*(f"{part}_ms_p50" for part in ("encode", "adapt", "rerank", "total")), "total_ms_p95", "peak_memory_mib"]
_COUNTS = ["updates", "empty", "non_finite"]
_FORMS = {**dict.fromkeys(_COSTS, ".2f"), "peak_memory_mib": ",.0f", **dict.fromkeys(_COUNTS, ".0f")}
_BY = ["model_name", "applied"]


OF_HUBS = (
    "0: all items are retrieved equally often. The k-occurrence of an item counts the queries that have it among their "
    "first k; of it, skewness, Atkinson's index, and the share of retrievals that would have to move for all items to "
    "be alike (Robin Hood). Antihub rate: the share of items that no query retrieves; occurrence: the share of "
    "retrievals that go to hubs, items retrieved at least twice as often as the average. Bold, underlined: nearest to "
    "0, second; no intervals. No mark where models differ in scenarios, queries or galleries."
)
"""How to read the tables of `hubs`."""
OF_COSTS = (
    "Encode: forward passes of the query encoder; adapt: losses, backward passes, optimizer; rerank: similarities; "
    "p50, p95: median and 95th percentile of the time per query; peak memory in MiB. "
    "Steps: done (updates), skipped because no query passed the method's filter (empty), skipped because of NaN or "
    "infinite values (non finite). Marked is the least cost beside no adaptation, where models do not differ in "
    "scenarios, queries or galleries."
)
"""How to read the tables of `costs`."""


def hubs(models: Sequence[Scores], choice: RetrievalChoice) -> Iterator[PageTable]:
    """The mean of each measure of hubness over the scenarios of a retrieval, per model and method."""
    measures = [column.name for column in columns_of(ResultRow) if column.name.startswith("hub_")]
    suite = choice.suite or "clean"
    rows, are_alike = _rows_of(models, lambda own: (own["side"] == choice.side) & (own["suite"] == suite))
    # Given features have no such measure.
    if rows["hub_skewness"].notna().any() and rows["gallery"].max() > HUB_K:
        what = "mean over perturbed scenarios" if choice.suite else "clean queries"
        caption = f"{choice.title(models[0].dataset)}: hubness of the k-occurrence, k = {HUB_K}, {what}"
        means = rows.groupby(_BY, sort=False)[measures].mean()
        # A mean over some of the scenarios does not compare with one over all.
        sizes = rows.drop_duplicates([*_BY, *ScenarioKey._fields]).groupby(_BY, sort=False).size()
        means[sizes < sizes.groupby(level=0).transform("max")] = float("nan")
        compared = means.assign(**{name: means[name].abs() for name in NEAR_ZERO})
        competes = [not needs_all_queries(method) and are_alike for _, method in compared.index]
        yield _of_methods(caption, means, compared[competes])


def costs(models: Sequence[Scores]) -> Iterator[PageTable]:
    """Milliseconds, memory and steps of each model and method in one direction."""
    # The queries of a perturbed gallery were encoded before, so that their time is not known; so are given features.
    rows, are_alike = _rows_of(models, lambda own: own["side"] != "gallery")
    rows = rows[rows["total_ms_p50"].notna()]
    if len(rows):
        title = titled(models[0].dataset, DIRECTIONS[models[0].direction])
        medians = rows.groupby(_BY, sort=False)[[*_COSTS, *_COUNTS]].median()
        others = (medians.index.get_level_values("applied") != methods.baseline().name) & are_alike
        caption = f"{title}: milliseconds per query, medians over scenarios"
        yield _of_methods(caption, medians, medians.loc[others, _COSTS])


def _rows_of(models: Sequence[Scores], chosen: Callable[[pd.DataFrame], pd.Series]) -> tuple[pd.DataFrame, bool]:
    """The rows of the `chosen` scenarios, and whether the models with such rows are paired."""
    columns = [own[chosen(own)] for own in (scores.scenarios for scores in models)]
    present = [(scores, own) for scores, own in zip(models, columns, strict=True) if len(own)]
    rows = pd.concat([scores.rows[chosen(scores.rows)] for scores in models])
    return rows, bool(present) and are_paired(*zip(*present, strict=True))


def _of_methods(caption: str, values: pd.DataFrame, compared: pd.DataFrame) -> PageTable:
    """A table of rows of models and methods. In the `compared` columns, the lowest value is marked."""
    corner, names = row_names(values.index)
    compared = compared.reindex(values.index)
    cells = {}
    for name, column in values.items():
        form, best = _FORMS.get(str(name), ".3f"), [""] * len(values)
        if name in compared:
            best = marks(compared[name].to_numpy()[:, None], form.strip(","), lower=True)
        title = str(name).removeprefix("hub_").replace("_", " ")
        cells["", title] = [cell_of(form, mark, value=value) for value, mark in zip(column, best, strict=True)]
    return PageTable(caption, corner, pd.DataFrame(cells, pd.Index(names)))


_MAPS = {f"map_at_{k}": f"mAP@{k}" for k in (5, 10, 25, 50)}
_OWN_CLIP = (
    "Own clip first: the share of queries whose own clip outranks every target; where the gallery holds the query's "
    "clip, that decides R@1. A perturbed clip no longer equals its clean copy in the gallery, so that R@1 can rise "
    "under a perturbation of clips: the copy gives its place to a target, and nothing was understood better."
)


def composed(frame: pd.DataFrame) -> Section:
    """mAP@k of composed queries with several targets, and how often the query's own clip is first."""
    rows = frame[frame["direction"] == "composed"]
    names = {"recall_at_1": "R@1", **_MAPS, "source_first": "own clip first"}
    parts: list[PagePart] = [_OWN_CLIP] if rows["source_first"].notna().any() else []
    for (dataset, gallery), own in groups(rows, "dataset", "gallery_name"):
        if not own[[*_MAPS, "source_first"]].notna().any(axis=None):
            continue
        what = own["perturbation"] + " " + own["severity"].astype("Int64").astype(str)
        both = own["text_perturbation"].fillna("").map(lambda name: f" + {name}" if name else "")
        index = (
            own["model_name"]
            + ", "
            + own["applied"].map(method_label)
            + ", "
            + what.where(own["side"] != "none", "clean")
            + both
        )
        known = {column: title for column, title in names.items() if own[column].notna().any()}
        cells = {("", title): [cell_of(".1f", value=value) for value in own[column]] for column, title in known.items()}
        caption = f"{titled(str(dataset), str(gallery))}: " + ", ".join(known.values())
        parts.append(PageTable(caption, "model, query, perturbed", pd.DataFrame(cells, pd.Index(index))))
    return Section("Several targets, and the query's own clip", parts, "composed")


_EXAMPLES, _RETRIEVED = 8, 3
"""How many composed queries are shown, and how many of the clips that each query retrieved first."""


def examples(frame: pd.DataFrame, ranks: Sequence[Path], queries: Sequence[Path]) -> Section:
    """A few composed queries of each dataset: clip, instruction, target, and what the best method retrieved first.

    `queries` are manifests of composed queries, beside which lies the pool of clips.
    """
    rows = frame[(frame["direction"] == "composed") & (frame["side"] == "none") & (frame["method"] != RANDOM)]
    parts = []
    for path in queries if ranks else ():
        names = ("dataset", "query_id", "clip_id", "instruction", "targets")
        asked = files.read_columns(path, *names).to_pandas().set_index("query_id")
        of_several = rows["dataset"].nunique() > 1  # a single dataset may have another name in its results
        of_dataset = rows[rows["dataset"].isin(asked["dataset"])] if of_several else rows
        if len(of_dataset):
            parts.append(_examples(of_dataset, asked, path, ranks))
    return Section("Examples", parts, "examples")


def _examples(rows: pd.DataFrame, asked: pd.DataFrame, path: Path, ranks: Sequence[Path]) -> PageTable:
    """The table of one dataset: a few of the `asked` queries that have ranks, evenly spread by id."""
    best = rows.iloc[int(rows["recall_at_1"].to_numpy().argmax())]
    names = ("dataset", "model_key", "method", "label", "seed", "side")
    filters = [(name, "==", best[name]) for name in names if pd.notna(best[name])]
    columns_read = ["query_id", "rank", "retrieved"]
    ranked = pd.concat([pq.read_table(own, columns=columns_read, filters=filters).to_pandas() for own in ranks])
    known = asked.join(ranked.set_index("query_id"), how="inner").sort_index()
    known = known.iloc[sorted({place * len(known) // _EXAMPLES for place in range(_EXAMPLES) if len(known)})]
    pool = files.read_columns(path.with_name(manifest_paths.name("composed_pool")), "clip_id", "narration").to_pandas()
    narrations = dict(zip(pool["clip_id"], pool["narration"], strict=True))

    def clip(name: str) -> str:
        """A clip: what happens in it, and its name."""
        return f"{narrations[name]} ({name})" if narrations.get(name) else name

    targets = [list(dict.fromkeys(json.loads(text))) for text in known["targets"]]
    first = [[name for name, _ in json.loads(text)][:_RETRIEVED] for text in known["retrieved"].fillna("[]")]
    columns = {
        "clip": map(clip, known["clip_id"]),
        "instruction": known["instruction"],
        "target": ["; ".join(map(clip, own)) for own in targets],
        "rank": map(str, known["rank"]),
        "retrieved first": [
            "; ".join(f"{'✓ ' * (name in own)}{clip(name)}" for name in names)
            for names, own in zip(first, targets, strict=True)
        ],
    }
    what = titled(str(best["dataset"]), str(best["model_name"]), method_label(str(best["applied"])))
    caption = f"{what}: {shown.plural(len(known), 'example')} of composed queries"
    note = "✓: a target." if any(first) else "evaluation.top_k keeps what is retrieved first."
    return PageTable(caption, "query", text_frame(columns, known.index), note, style="left")


def corpora(
    frame: pd.DataFrame, statistics: Sequence[Path], quarantine: Sequence[Path], results: Sequence[Path]
) -> Section:
    """Sentences: what corpora hold, which captions and results are left out, what gates accept and models read."""
    left_out = [
        f"{' on '.join(reversed(path.parts[-3:-1]))}: {line}."
        for path in (*statistics, *results)
        for line in sentences(of_manifest(files.read_metadata(path)))
    ]
    complete = [text for path in quarantine if (text := corpus_sentence(path))]
    read = [*_truncated(frame), *_read_as_clean(frame)]
    return Section("Corpora", [*complete, *left_out, *_accepted(statistics), *read], "corpora")


def _accepted(statistics: Sequence[Path]) -> Iterator[str]:
    """The share of perturbed captions that pass the fidelity gate, per corpus, and where it is lowest."""
    for path in statistics:
        names = ("perturbation", "severity", "similarity_mean", "accepted", "captions")
        rows = files.read_columns(path, *names).to_pandas()
        gated = rows[rows["similarity_mean"].notna() & (rows["captions"] > 0)]
        if len(gated):
            least = gated.loc[(gated["accepted"] / gated["captions"]).idxmin()]
            place = " on ".join(reversed(path.parts[-3:-1]))
            every = 100 * gated["accepted"].sum() / gated["captions"].sum()
            share = 100 * least["accepted"] / least["captions"]
            least_of = f"{least['perturbation']} {least['severity']}"
            yield f"{place}: the fidelity gate accepts {every:.1f} % of the captions, least {share:.1f} % ({least_of})."


def _truncated(frame: pd.DataFrame) -> Iterator[str]:
    """How many captions each model does not read to their end."""
    known = frame[frame["truncated_queries"].fillna(0) > 0]
    shares = known.assign(share=100 * known["truncated_queries"] / known["queries"])
    for (dataset, model), rows in shares.groupby(["dataset", "model"]):
        low, high = rows["share"].min(), rows["share"].max()
        share = f"{high:.1f} %" if low == high else f"{low:.1f} to {high:.1f} %"
        yield (
            f"{model} does not read {share} of the captions of {dataset} to their end: what a perturbation changes "
            "there changes no result."
        )


def _read_as_clean(frame: pd.DataFrame) -> Iterator[str]:
    """How many perturbed captions each model reads as clean captions, and which perturbation has most of them."""
    known = frame[frame["clean_input_queries"].fillna(0) > 0]
    shares = known.assign(share=100 * known["clean_input_queries"] / known["queries"])
    for (dataset, model, suite), rows in shares.groupby(["dataset", "model", "suite"]):
        most = rows.iloc[int(rows["share"].to_numpy().argmax())]
        yield (
            f"{model} reads up to {most['share']:.1f} % of the perturbed captions of {suite} on {dataset} as the clean "
            f"ones ({most['perturbation']}): they differ only behind its last token, or in what its tokenizer leaves "
            "out."
        )


def corpus_sentence(path: Path) -> str | None:
    """How many of a corpus's listed clips are complete, quarantined and missing, from its quarantine manifest.

    A manifest of captions that cannot be used lies in its dataset's folder.
    """
    listed = sets.read_listed(path)
    if listed is not None and path.name == manifest_paths.name("captions_quarantine"):
        return f"captions of {path.parent.name}: {listed.sentence('captions')}."
    return None if listed is None else f"{path.parent.name} on {path.parent.parent.name}: {listed.sentence('clips')}."


def provenance(frame: pd.DataFrame, paths: Sequence[Path]) -> Section:
    """Everything that the results depend on: a column per model, a line per fact and setting."""
    if frame.empty:
        return Section("How it was made")
    facts = {str(name): _facts(rows) for name, rows in frame.groupby("model_name", sort=True)}
    names = list(dict.fromkeys(name for own in facts.values() for name, values in own.items() if any(values)))
    columns = {
        model if len(facts) > 1 else "value": ["; ".join(filter(None, own.get(name, ()))) for name in names]
        for model, own in facts.items()
    }
    packages = sorted(
        {str(about["package_version"]) for about in map(files.read_metadata, paths) if "package_version" in about}
    )
    texts = [f"Made by version {', '.join(packages)} of this package."] if packages else []
    table = PageTable("what the results depend on", "name", text_frame(columns, names), style="left")
    return Section("How it was made", [*texts, table], "provenance")


def _facts(rows: pd.DataFrame) -> Mapping[str, list[str]]:
    """The distinct values of each fact of one model's results; JSON becomes one fact per key."""
    columns = {"model": "model_key", "setting": "setting", "seeds": "seed", "checkpoint (sha256)": "checkpoint_sha256"}
    facts = {name: sorted(set(rows[column].dropna().astype(str))) for name, column in columns.items()}
    for column in ("settings", "tools", "backend"):
        for text in sorted(set(rows[column].dropna())):
            (parsed,) = pd.json_normalize({column: json.loads(text)}, sep=": ").to_dict("records")
            for name, value in sorted(parsed.items()):
                values = facts.setdefault(_PLAIN.get(name, str(name)), [])
                values += [] if _text(value) in values else [_text(value)]
    return facts


_PLAIN: Mapping[Hashable, str] = {"settings: numbers": "settings: dimensions of a feature"}
"""The names of facts that do not say what they are."""


def _text(value: object) -> str:
    if isinstance(value, list) and not any(isinstance(entry, dict | list) for entry in value):
        return ", ".join(map(_text, value))
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, sort_keys=True)
