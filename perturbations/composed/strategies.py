"""Composed retrieval of one or two models: every way to use a query, in every gallery, beside chance.

EgoCVR's first stage makes a shortlist that its second stage ranks by text; `evaluate` does that with two models, and
every strategy of a single stage with each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perturbations.base.errors import ConfigError
from perturbations.composed.gallery_sets import gallery, targets_in
from perturbations.composed.split import Split
from perturbations.retrieval.composed import (
    AVERAGES,
    FEWEST,
    GIVEN,
    SHORTLIST,
    STRATEGIES,
    TWO_STAGE,
    Average,
    Half,
    Strategy,
    chance,
    composed_places,
)
from perturbations.retrieval.metrics import first_places, retrieved_first

_Floats = NDArray[np.float32]
_NO_PLACES = np.empty(0, np.int64)

_AS_RELEASED = (
    *("global_rows", "global_distinct", "global_targets", "local_released"),
    *("global_official", "local_official"),
)
"""Galleries in which a query without any target is a miss, as in the authors' code; in others it is left out."""

KS = (1, 2, 3, 5, 10, 50, 100)
"""The k of results: EgoCVR's are 1, 5, 10 in global galleries and 1, 2, 3 in local ones."""

_WORDS = {"instruction": "instruction", "tfcvr": "modified_caption", "gt": "target_narration"}
WORDS = tuple(_WORDS)
"""A query's words: its instruction, the changed caption of its clip (TF-CVR), or its target's narration."""


def words_of(split: Split, words: str) -> list[str]:
    """The words of each query; empty texts where the split has none. Raises `ConfigError` for an unknown name."""
    if words not in _WORDS:
        raise ConfigError(f"no words {words!r}; choose one of {', '.join(WORDS)}")
    return [getattr(query, _WORDS[words]) for query in split.queries]


@dataclass(frozen=True)
class ScoredModel:
    """A model's features, as they are stored: no length is changed.

    Attributes:
        name: what results call it.
        clips: float32, one row per row of the split's pool x D.
        texts: float32, one row per query x D, by `WORDS`; empty for a model of clips alone.
        queries: the queries' clips, one row per query x D, where they differ from the gallery's, as perturbed ones do.
        similarities: queries x rows of the pool, of a model that has no feature of a query; its `clips` count for
            nothing.
    """

    name: str
    clips: _Floats
    texts: Mapping[str, _Floats] = field(default_factory=dict)
    queries: _Floats | None = None
    similarities: _Floats | None = None

    def visual(self, split: Split) -> _Floats:
        """The features of the queries' clips."""
        if self.queries is not None:
            return self.queries
        return self.clips[[split.last[query.clip_id] for query in split.queries]]


@dataclass(frozen=True, kw_only=True)
class ScoredSetting:
    """What is compared with what.

    Attributes:
        model: whose features rank.
        strategy: of the ranking.
        words: of the queries; empty where only clips count.
        average: how the two halves are added; empty where they are not.
        shortlist_model, shortlist_strategy: of the first of two stages; empty where there is one.
    """

    model: str
    strategy: Strategy
    words: str = ""
    average: Average | Literal[""] = ""
    shortlist_model: str = ""
    shortlist_strategy: Half | Literal[""] = ""

    @property
    def method(self) -> str:
        """Its name in results: "text, instruction", "average released, tfcvr", "two_stage [first model] visual, gt"."""
        first = self.shortlist_model if self.shortlist_model != self.model else ""
        how = " ".join(part for part in (self.strategy, first, self.shortlist_strategy, self.average) if part)
        return f"{how}, {self.words}" if self.words else how


class Score(NamedTuple):
    """A setting's result in a gallery.

    Attributes:
        setting: what was compared; None: nothing, galleries are ordered at random.
        gallery: the gallery's name.
        counted: bool, one per query: galleries of at least two clips that hold a target, or that count without one.
        mean_size: clips in the galleries of the counted queries.
        places: of each query's best target, as `composed_places` gives them; of random orders empty.
        chances: of random orders: R@k in percent by k; else empty.
        first: what each query retrieved first, as `retrieved_first` writes it, where that is kept.
    """

    setting: ScoredSetting | None
    gallery: str
    counted: NDArray[np.bool_]
    mean_size: float
    places: NDArray[np.int64] = _NO_PLACES
    chances: Mapping[int, float] = {}
    first: Sequence[str | None] = ()


@dataclass(frozen=True, kw_only=True)
class Ways:
    """The ways to use queries.

    Attributes:
        galleries: names, see `perturbations.composed.gallery_sets`. A query without any target in its gallery is a miss
            in those `_AS_RELEASED`, as in the authors' code, and is left out of the others.
        strategies, words, averages: what is compared.
        first_stage: which halves of a query make shortlists.
        deduplicate: leave out distractors that show the query's or a target's moment.
        shortlist: how many clips the first of two stages keeps.
        top_k: how many clips that a query retrieved first are kept; None: nothing is.
    """

    galleries: Sequence[str] = ()
    strategies: Sequence[Strategy] = STRATEGIES
    words: Sequence[str] = WORDS
    averages: Sequence[Average] = AVERAGES
    first_stage: Sequence[Half] = ("visual",)
    deduplicate: bool = False
    shortlist: int = SHORTLIST
    top_k: int | None = None


def settings(models: Sequence[ScoredModel], ways: Ways) -> Iterator[ScoredSetting]:
    """Every setting that the models' features allow: the first model makes shortlists, the last one ranks them.

    Only another model's shortlists are ranked by anything but text.
    """
    first, last = models[0], models[-1]
    for strategy in ways.strategies:
        if not strategy.startswith(TWO_STAGE):
            for model in models:
                if (strategy in GIVEN) != (model.similarities is not None):
                    continue
                texts = [""] if strategy in ("visual", *GIVEN) else _known(model, ways.words)
                for text, average in product(texts, _averages(strategy, ways.averages)):
                    yield ScoredSetting(model=model.name, strategy=strategy, words=text, average=average)
        elif strategy == TWO_STAGE or first is not last:
            shortlist: dict[str, Any] = {"model": last.name, "strategy": strategy, "shortlist_model": first.name}
            texts = [""] if strategy in GIVEN else _known(last, ways.words)
            for text, half in product(texts, ways.first_stage):
                averages = _averages(half if half == "average" else strategy, ways.averages)
                for average in averages if half == "visual" or text in first.texts else ():
                    yield ScoredSetting(words=text, average=average, shortlist_strategy=half, **shortlist)


def _averages(strategy: str, averages: Sequence[Average]) -> Sequence[Average | Literal[""]]:
    return averages if strategy.endswith("average") else ("",)


def _known(model: ScoredModel, words: Sequence[str]) -> list[str]:
    return [name for name in words if name in model.texts]


def evaluate(
    split: Split, models: Sequence[ScoredModel], wanted: Sequence[ScoredSetting], ways: Ways
) -> Iterator[Score]:
    """The result of every setting in every gallery, beside random orders; scores are computed once per setting.

    Args:
        split: the queries and the pool.
        models: the features, by the names that settings use.
        wanted: see `settings`.
        ways: the galleries, and what is kept of them.

    Raises `ConfigError` for features of another number of rows, and ValueError for an unknown gallery.
    """
    by_name = {model.name: model for model in models}
    for model in models:
        _check(split, model)
    targets = [targets_in(split, query) for query in split.queries]
    # Four bytes per row: a global gallery of 2,295 queries and 12,526 rows takes 115 MB.
    candidates = {
        name: [np.unique(np.asarray(rows, np.int32)) for rows in gallery(split, name, deduplicate=ways.deduplicate)]
        for name in dict.fromkeys(ways.galleries)
    }
    counted, means = {}, {}
    for name, members in candidates.items():
        sizes = np.array([len(rows) for rows in members])
        present = np.array([np.isin(rows, own).sum() for rows, own in zip(members, targets, strict=True)])
        counted[name] = (sizes >= FEWEST) & ((present > 0) | (name in _AS_RELEASED))
        known, num_targets = sizes[counted[name]].tolist(), present[counted[name]].tolist()
        means[name] = float(np.mean(known)) if known else float("nan")
        chances = {k: chance(known, num_targets, k) if known else float("nan") for k in KS}
        yield Score(None, name, counted[name], means[name], chances=chances)
    for setting in wanted:
        model, filtering = by_name[setting.model], by_name[setting.shortlist_model or setting.model]
        first: dict[str, list[str | None]] = {name: [None] * len(split.queries) for name in candidates}
        places = composed_places(
            setting.strategy,
            candidates,
            gallery=model.clips,
            targets=targets,
            visual=model.visual(split) if setting.strategy.endswith(("visual", "average")) else None,
            text=model.texts.get(setting.words),
            similarities=model.similarities,
            average=setting.average or "released",
            shortlist=ways.shortlist,
            filter_gallery=filtering.clips,
            filter_visual=filtering.visual(split) if setting.shortlist_strategy in ("visual", "average") else None,
            filter_text=filtering.texts.get(setting.words),
            filter_strategy=setting.shortlist_strategy or "visual",
            kept=_keeper(split, ways.top_k, first) if ways.top_k else None,
        )
        for name, own in counted.items():
            yield Score(setting, name, own, means[name], places[name], first=first[name])


def _keeper(
    split: Split, top_k: int, first: Mapping[str, list[str | None]]
) -> Callable[[str, int, NDArray[np.int64], _Floats], None]:
    """Keeps in `first` what each query retrieved first in a gallery: the clips of the highest scores."""

    def keep(name: str, query: int, rows: NDArray[np.int64], scores: _Floats) -> None:
        best = first_places(scores[None], top_k)[0]
        names = [split.pool[row].clip_id for row in rows[best]]
        (first[name][query],) = retrieved_first(scores[None, best], names, top_k)

    return keep


def _check(split: Split, model: ScoredModel) -> None:
    """Raise `ConfigError` where a model's features do not fit the split or each other."""
    width = model.clips.shape[1]
    expected = {"clips": (model.clips, len(split.pool))}
    expected |= {f"texts {words!r}": (rows, len(split.queries)) for words, rows in model.texts.items()}
    if model.queries is not None:
        expected["query clips"] = (model.queries, len(split.queries))
    for what, (rows, count) in expected.items():
        if rows.shape != (count, width):
            shape = " x ".join(map(str, rows.shape))
            raise ConfigError(
                f"{model.name}: the features of {what} are {shape}; expected {count} x {width}, as many as there are "
                "clips or queries, and as wide as the clips'"
            )
