"""What a card says of a whole corpus, gathered from its rows in one pass: there may be millions of rows."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, Self, TypeVar

from perturbations.manifest.rows import COMPLETE, ClipRow, TextRow
from perturbations.media import profiles

_Row = TypeVar("_Row", bound=ClipRow | TextRow)

_WAY = attrgetter("dataset", "suite", "perturbation", "severity", "variant", "params", "recipe")


class Tally:
    """Counts of rows of perturbed clips, or of perturbed captions; attributes after `distinct` are of clips alone.

    Attributes:
        rows: the number of rows.
        first: the first row.
        items: the ids of the clips.
        captions: the ids of the captions.
        distinct: one row for each different way in which rows were made.
        complete: the number of complete rows per item.
        failed: the rows that are not complete.
        losses: the finite PSNRs of stored against intended frames, by suite and storage.
        donors: the SHA-256 of the files that frames were taken from; `receivers`: of those that got frames.
        scenarios: for each perturbation and severity, in order of appearance, the number of complete rows per backend,
            and their PSNRs against clean clips.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.first: Any = None
        self.items: set[str] = set()
        self.captions: set[str] = set()
        self.distinct: dict[tuple[object, ...], Any] = {}
        self.complete: Counter[str] = Counter()
        self.failed: list[ClipRow] = []
        self.losses: defaultdict[tuple[str, str], array[float]] = defaultdict(lambda: array("d"))
        self.donors: set[str] = set()
        self.receivers: set[str] = set()
        self.scenarios: dict[tuple[str, int], tuple[Counter[str | None], array[float]]] = {}

    def counted(self, rows: Iterable[ClipRow | TextRow]) -> Self:
        """Count rows; returns this tally."""
        for _ in self.over(rows):
            pass
        return self

    def over(self, rows: Iterable[_Row]) -> Iterator[_Row]:
        """Pass the rows on, and count them."""
        for row in rows:
            self.rows += 1
            self.first = self.first or row
            self.items.add(row.item_id)
            way = _WAY(row)
            if isinstance(row, ClipRow):
                way = *way, row.backend, bool(row.guide), row.storage
                self._measure(row)
                if row.donor_id is not None:
                    self.donors.add(json.loads(row.guide or "{}").get("donor", {}).get("sha256", ""))
                    self.receivers.add(row.source_sha256)
            else:
                self.captions.add(row.caption_id)
            self.distinct.setdefault(way, row)
            yield row

    def _measure(self, row: ClipRow) -> None:
        loss = row.storage_psnr_db
        if loss is not None and loss < math.inf:
            self.losses[row.suite, row.storage].append(loss)
        backends, psnr_db = self.scenarios.setdefault((str(row.perturbation), row.severity), (Counter(), array("d")))
        if row.status != COMPLETE:
            self.failed.append(row)
            return
        self.complete[row.item_id] += 1
        backends[row.backend] += 1
        if row.psnr_db is not None:
            psnr_db.append(row.psnr_db)

    @property
    def has_own_donors(self) -> bool:
        """Whether frames were taken from clips that are evaluated themselves, whatever dataset names them."""
        return not self.donors.isdisjoint(self.receivers)

    @property
    def has_pictures(self) -> bool:
        """Whether the clips are pictures."""
        return self.first is not None and profiles.is_picture(self.first.source_path)
