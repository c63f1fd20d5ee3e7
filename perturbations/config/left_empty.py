"""Parts of a configuration that hold keys, and are named and left empty: YAML reads `mlvp:` as null."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from perturbations.guides import registry as guides

_SECTIONS = ("backends", "evaluation", "composed", "storage", "limits")


def filled(raw: object) -> object:
    """The configuration as it is without them, so that they have their defaults; a suite stays, with all of its."""
    if not isinstance(raw, dict):
        return raw
    rest = _without_empty(raw, _SECTIONS)
    if isinstance(suites := rest.get("suites"), dict):
        rest["suites"] = {name: _suite(wanted) for name, wanted in suites.items()}
    if isinstance(named := rest.get("datasets"), dict):
        rest["datasets"] = {name: _without_empty(dataset, ("columns",)) for name, dataset in named.items()}
    if "backends" in rest:
        roles = ("captions", *(role.name for role in guides.roles()))
        rest["backends"] = _without_empty(rest["backends"], roles)
    return rest


def _suite(wanted: Any) -> Any:
    if wanted is None:
        return {}
    rest = _without_empty(wanted, ("parameters", "captions"))
    if isinstance(rest, dict) and "captions" in rest:
        rest["captions"] = _without_empty(rest["captions"], ("parameters",))
    return rest


def _without_empty(section: Any, keys: Collection[str]) -> Any:
    """A section without those members of it, named in `keys`, that are empty."""
    if not isinstance(section, dict):
        return section
    return {key: value for key, value in section.items() if value is not None or key not in keys}
