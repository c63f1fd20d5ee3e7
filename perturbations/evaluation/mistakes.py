"""What is wrong with the section `evaluation` of a configuration, one line per mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perturbations.base.errors import cut, short
from perturbations.config.problems import Problem, is_known, not_among, not_configured, problem, unknown
from perturbations.suites import registry
from perturbations.tta.methods import registry as methods

if TYPE_CHECKING:
    from perturbations.config.sections import Config
    from perturbations.evaluation.section import Evaluation


def of_evaluation(config: Config) -> list[Problem]:
    """What an evaluation asks for that is not configured, or not there."""
    wanted = config.evaluation
    problems = not_configured("evaluation", {"suites": wanted.suites}, config.suites)
    if wanted.querybank is None:
        problems += [
            problem("evaluation.querybank", f"the method `{name}` needs a bank: a dataset of training queries")
            for name in wanted.methods
            if methods.method(name).needs_bank
        ]
    if wanted.querybank is not None and wanted.querybank not in config.datasets:
        problems.append(problem("evaluation.querybank", not_among(wanted.querybank, "datasets", config.datasets)))
    problems += [
        Problem(("evaluation", "parameters", name, parameter), text)
        for name, values in wanted.parameters.items()
        for parameter, text in methods.parameter_mistakes(name, values).items()
    ]
    if wanted.continual and wanted.sides != ("query",):
        text = "what a method keeps is of one gallery: `sides` can only be [query]"
        problems.append(problem("evaluation.continual", text))
    suites = [name for name in (config.suites if wanted.suites is None else wanted.suites) if is_known(name, config)]
    if "both" in wanted.sides and not any(registry.suite(name).combined for name in suites):
        declaring = ", ".join(name for name, suite in registry.suites().items() if suite.combined)
        problems.append(problem("evaluation.sides", f"`both` needs a suite that declares combinations: {declaring}"))
    if isinstance(wanted.severities, dict):
        known = {entry.level for name in suites for entry in registry.suite(name).perturbations}
        problems += [
            problem("evaluation.severities", unknown(name, sorted(known), "unknown category"))
            for name in wanted.severities
            if name not in known
        ]
    names = [re.sub(r"[^a-z0-9_]+", "-", entry.name.lower()) for entry in wanted.models]
    if len(set(names)) < len(names):
        problems.append(problem("evaluation.models", "two of them have one name, in lower case"))
    if wanted.models and (wanted.pretrained or wanted.checkpoint or wanted.revision):
        text = "`pretrained`, `checkpoint` and `revision` are of a single model: give them to members of the list"
        problems.append(problem("evaluation.models", text))
    for key, own in wanted.each_model():
        problems += _of_model(key, own, "backbone" if wanted.models else "pretrained")
    return problems


def _of_model(key: str, wanted: Evaluation, backbone: str) -> Iterator[Problem]:
    """What a model is given and cannot be; `key` is where its keys stand, `backbone` the key of its weights."""
    if wanted.precision == "tf32" and not wanted.device.startswith("cuda"):
        yield problem(f"{key}precision", f"tf32 needs an NVIDIA GPU, and `device` is {short(wanted.device)}")
    if wanted.model == "xpool" and wanted.checkpoint is None:
        text = "`xpool` needs the weights of its pooling: a published X-Pool checkpoint"
        yield problem(f"{key}checkpoint", text)
    if wanted.pretrained is None and (wanted.checkpoint is not None or wanted.revision is not None):
        yield problem(f"{key}{backbone}", "weights are given, but not the model they are for")
    if wanted.checkpoint is not None and not os.path.isfile(wanted.checkpoint):
        yield problem(f"{key}checkpoint", f"no such file: {cut(str(wanted.checkpoint))}")
