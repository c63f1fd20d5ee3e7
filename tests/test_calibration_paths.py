"""The paths from mild to strong, on which severities are calibrated."""

from __future__ import annotations

import numpy as np
from looping import each
from test_calibration import FORMS, kind_of

from perturbations.plan import recipe
from perturbations.suites import registry
from perturbations.suites.strengths import Axis, Stages, between


@each("entry", FORMS)
def test_paths_give_what_kernels_take(entry: registry.Perturbation) -> None:
    path = entry.path
    published = [entry.parameters(severity) for severity in entry.severities]
    for name in published[0]:
        if path is not None and name not in path:
            assert len({str(parameters[name]) for parameters in published}) == 1, (
                f"{name} differs between severities: say how it moves"
            )
    tried = [entry.parameters_at(strength) for strength in np.linspace(0, 1, 21).tolist()]
    for parameters in tried:
        assert set(parameters) == set(published[0])
        for name, value in parameters.items():
            assert type(value) is kind_of(entry, name), name
            if isinstance(value, str):
                assert value in {step[name] for step in published}
    assert len({recipe.canonical(parameters) for parameters in tried}) >= 5, "too few places for five severities"


def test_an_axis_goes_where_it_says() -> None:
    axis = Axis(3, 61, step=2)
    values = [axis.at(strength) for strength in np.linspace(0, 1, 50).tolist()]
    assert values[0] == 3
    assert values[-1] == 61
    assert all(isinstance(value, int) and value % 2 for value in values)
    assert values == sorted(values)
    assert Axis(0.01, 100.0, geometric=True).at(0.5) == 1.0
    assert Axis(0.0, 1.0).at(1 / 3) == 0.3333
    assert Axis(2, 400, geometric=True, step=1, most=31).at(1.0) == 31
    stages = Stages(("a", "b"))
    assert [stages.at(strength) for strength in (0.0, 0.49, 0.5, 1.0)] == ["a", "a", "b", "b"]


def test_without_a_path_the_way_leads_through_the_published_table() -> None:
    table = [{"radius": 2, "share": 0.1, "place": "end"}, {"radius": 5, "share": 0.4, "place": "middle"}]
    assert between(table, 0.0) == table[0]
    assert between(table, 1.0) == table[1]
    assert between(table, 0.4) == {"radius": 3, "share": 0.22, "place": "end"}
    assert between(table, 0.6) == {"radius": 4, "share": 0.28, "place": "middle"}
    assert between(table[:1], 0.7) == table[0]
