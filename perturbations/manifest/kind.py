"""What a kind of manifest is. `manifest.kinds` has them all, features have theirs. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

RowStatus = Literal["complete", "quarantined", "missing"]
COMPLETE: RowStatus = "complete"
QUARANTINED: RowStatus = "quarantined"
MISSING: RowStatus = "missing"
"""Listed, but there is no video file: known before any job."""

QuarantineStage = Literal["annotation", "source", "analysis", "video"]

RowT = TypeVar("RowT")


@dataclass(frozen=True)
class RowKind(Generic[RowT]):
    """One kind of manifest.

    Attributes:
        name: of the kind.
        row: the type of its rows.
        key: the columns that identify a row and order them.
        complete: the type of its complete rows, where those have more columns filled.
        files: the paths of the manifests of this kind, by the names that they have in `manifest.layout`, with their
            fields in braces.
    """

    name: str
    row: type[RowT]
    key: tuple[str, ...]
    complete: type[RowT] | None = None
    files: Mapping[str, str] = field(default_factory=dict, compare=False)

    def type_of(self, status: object) -> type[RowT]:
        """The type of a row of that status."""
        return self.complete if self.complete is not None and status == COMPLETE else self.row
