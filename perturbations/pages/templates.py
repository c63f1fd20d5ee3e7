"""HTML pages from templates."""

from __future__ import annotations

from functools import cache
from typing import Any

from perturbations.base import shown


def rendered(package: str, template: str, **values: object) -> str:
    """A page from a template of a package. Text of data is escaped, and no control character reaches the page."""
    page: str = _environment(package).get_template(template).render(**values)
    return page


@cache
def _environment(package: str) -> Any:
    """The templates of a package, each compiled once, and those that all pages share."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(own, ".") for own in (package, "perturbations.pages")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: shown.line(value) if type(value) is str else value,
    )
    environment.filters["line"] = shown.line  # `finalize` leaves alone what a template escaped itself
    return environment
