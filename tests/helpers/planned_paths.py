"""Configurations whose planned files tests look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perturbations.config import file as config_file
from perturbations.config.sections import Config
from perturbations.corpus.plan.sharding import DatasetPlan
from perturbations.corpus.plan.targets import Plans
from perturbations.evaluation.plan import planned_runs as evaluation

FOLDER = {"adapter": "folder", "annotations": "captions.json", "videos": "videos"}


SPANS = {"adapter": "youcook2", "annotations": "captions.csv", "videos": "videos"}


def configured(**settings: Any) -> Config:
    datasets = {"tiny": {**FOLDER, "donors": "train"}, "train": FOLDER, "cooking": SPANS}
    suites: dict[str, Any] = {"mlvp": {"severities": [2, 5]}, "msrvtt_p": {"severities": [2]}}
    return config_file.parse({"datasets": datasets, "suites": suites, **settings})


def not_planned(collection: str) -> DatasetPlan:
    raise AssertionError(f"{collection} is planned, and nothing needs it")


def planned(**videos: Mapping[str, set[str]]) -> Plans:
    """Plans of collections by name (`cooking_whole` for `cooking/whole`): of each shard, the ids of its videos."""

    def plan_of(collection: str) -> DatasetPlan:
        shards = {name: frozenset(ids) for name, ids in videos[collection.replace("/", "_")].items()}
        return DatasetPlan(tuple(shards), shards, listed=7, rejected=0)

    return plan_of


KEY = evaluation.model_key(configured())
