"""A method is one file: with it, and nothing else edited, everything that lists methods knows it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import needs
import pytest
import shelves
import yaml

from perturbations.base import shelf
from perturbations.base.errors import ConfigError, ShelfError
from perturbations.tta.methods import registry

pytestmark = needs.wings("composed", "demo", "evaluation")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with one more file on the shelf, and a configuration that asks for it."""
    files = {"perturbations/tta/methods/centred.py": shelves.example("add-a-method")}
    root = shelves.copy_with(tmp_path_factory.mktemp("copy"), files)
    config = yaml.safe_load((root / "config.yaml").read_text())
    config["evaluation"]["methods"] = ["tent", "centred"]
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    return root


def test_the_configuration_and_its_schema_know_it(copy: Path) -> None:
    program = (
        "import json, sys; from perturbations.config import file as config_file;"
        "from perturbations.config import sections as config;"
        "from perturbations.evaluation import planning as evaluation;"
        "print(config.__file__);"
        "parsed = config_file.parse({'datasets': {'demo': {'adapter': 'demo'}}, 'suites': {'mlvp': {}}});"
        "print(json.dumps(evaluation.methods(parsed, 'adapted')));"
        "print(json.dumps(json.loads(config.json_schema())['$defs']['Evaluation']['properties']['methods']))"
    )
    place, by_default, schema = shelves.run(copy, "-c", program).splitlines()
    assert Path(place).is_relative_to(copy)
    assert json.loads(by_default)[:4] == ["none", "tent", "read", "centred"]
    assert json.loads(schema)["items"]["oneOf"][0]["enum"][:4] == ["none", "tent", "read", "centred"]
    assert json.loads(schema)["default"] == json.loads(by_default)[1:]


def test_the_workflow_plans_it(copy: Path) -> None:
    planned = shelves.run(
        copy, "-m", "snakemake", "--dry-run", "--printshellcmds", "--quiet", "host", "--cores", "1", "tta_demo"
    )
    jobs = [line for line in planned.splitlines() if "perturb rule evaluate " in line and "/adapted.parquet" in line]
    assert jobs
    assert all('"name":"tent"' in line and '"name":"centred"' in line for line in jobs)


def test_it_adapts(copy: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    program = (
        "import torch; from tta_models import model_of, queries_and_gallery; from perturbations.tta import adapt;"
        "batches, gallery = queries_and_gallery('v2t', [3, 2]); model = model_of('clip4clip');"
        "run = lambda name: list(adapt(model, name, batches, gallery, direction='v2t'));"
        "plain, centred = run('none'), run('centred');"
        "print(all(torch.equal(a - a.mean(0), b) for a, b in zip(plain, centred, strict=True)))"
    )
    assert shelves.run(copy, "-c", program).split() == ["True"]


def test_the_page_has_a_row_of_it(copy: Path) -> None:
    program = (
        "import json; from pathlib import Path; import synthetic_results as pages;"
        "rows = [pages.result(name, 1.0 + len(name)) for name in ('read', 'sar', 'none', 'centred')];"
        "path = Path('results.parquet'); pages.files.write(path, pages.RESULTS, rows);"
        "pages.page.write(Path('page.html'), results=[path]);"
        "print(json.dumps(pages.Page(Path('page.html')).tables))"
    )
    tables = json.loads(shelves.run(copy, "-c", program))
    unperturbed = tables["R@1: demo, video-to-text (v2t), unperturbed queries"]
    names = [line[0][0] for line in unperturbed[1:]]
    assert names == ["none", "READ", "Mean-centred <1>", "SAR"]
    costs = next(table for caption, table in tables.items() if "milliseconds" in caption)
    assert "Mean-centred <1>" in [line[0][0] for line in costs]


# --- the shelf -------------------------------------------------------------------------------------------------------


def test_exactly_one_method_is_the_baseline_and_an_unknown_one_brings_the_nearest() -> None:
    assert not registry.baseline().adapts
    assert registry.baseline().name not in registry.defaults()
    assert next(iter(registry.methods())) == registry.baseline().name
    with pytest.raises(ConfigError, match="method 'hatvr' is unknown; allowed: none, .*; did you mean hatvtr"):
        registry.method("hatvr")
    assert (registry.title_of("gone"), registry.place_of("gone")) == ("gone", len(registry.methods()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tent": {"name": "tnet"}}, "declares the method 'tnet'"),
        ({"tent": {"title": "SAR"}}, "two methods .* have the title 'SAR'"),
        ({"tent": {"is_baseline": True}}, "has the baselines none, tent"),
        ({"none": {"is_baseline": False}}, r"has the baselines \(none\)"),
    ],
)
def test_a_wrong_declaration_is_named(
    changes: dict[str, dict[str, object]], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = dict(registry.methods())
    for name, fields in changes.items():
        declared[name] = replace(declared[name], **fields)
    monkeypatch.setattr(shelf, "things", lambda *arguments: declared)
    with pytest.raises(ShelfError, match=message):
        registry.methods.__wrapped__()
