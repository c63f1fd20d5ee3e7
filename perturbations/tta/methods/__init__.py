"""One file a method. Each takes a scenario's task and the batches, and yields a B x N_G tensor a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor

from perturbations.tta.methods.dsl import dsl
from perturbations.tta.methods.eata import eata
from perturbations.tta.methods.hatvtr import hatvtr
from perturbations.tta.methods.none import none
from perturbations.tta.methods.qbnorm import qbnorm
from perturbations.tta.methods.read import read
from perturbations.tta.methods.sar import sar
from perturbations.tta.methods.tcr import tcr
from perturbations.tta.methods.tent import tent
from perturbations.tta.task import Task

Method = Callable[[Task, Iterable[Any]], Iterator[Tensor]]

METHODS: dict[str, Method] = {
    "none": none,
    "tent": tent,
    "read": read,
    "sar": sar,
    "eata": eata,
    "tcr": tcr,
    "hatvtr": hatvtr,
    "dsl": dsl,
    "qbnorm": qbnorm,
}
