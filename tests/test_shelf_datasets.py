"""An adapter is one file: with it, and nothing else edited, the configuration, the schema and the workflow know it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import yaml
from shelves import copy_with, example, run

from perturbations.plan import listed


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with one more adapter, and its annotations of two videos."""
    root = copy_with(tmp_path_factory.mktemp("copy"), {"perturbations/datasets/lines.py": example("add-a-dataset")})
    (root / "lines.txt").write_text("a;a man walks\nb;a dog runs\nno separator\n")
    (root / "videos").mkdir()
    (root / "videos/a.mp4").write_bytes(b"not a video")
    settings = {"adapter": "lines", "annotations": "lines.txt", "videos": "videos", "separator": ";"}
    config = {"datasets": {"mine": settings}, "suites": {"mlvp": {}}}
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    return root


def parsed(copy: Path, settings: dict[str, object]) -> str:
    """What a configuration with one dataset comes to: its settings, or the error."""
    program = (
        "import sys, json; from perturbations.config import file as config;"
        "from perturbations.base.errors import ConfigError\n"
        "try: print(config.parse({'datasets': {'mine': json.loads(sys.argv[1])}, 'suites': {'mlvp': {}}}).datasets)\n"
        "except ConfigError as error: print(error)"
    )
    return run(copy, "-c", program, json.dumps(settings))


def test_the_configuration_and_its_schema_know_it(copy: Path) -> None:
    paths = {"annotations": "lines.txt", "videos": "videos"}
    assert "Lines(adapter='lines'" in parsed(copy, {"adapter": "lines", **paths, "separator": ";"})
    assert "datasets.mine.separator: unknown key" in parsed(copy, {"adapter": "msrvtt", **paths, "separator": ";"})
    assert "datasets.mine.separator: String should have" in parsed(copy, {"adapter": "lines", **paths, "separator": ""})
    assert "datasets.mine.videos: the adapter 'lines' needs it" in parsed(
        copy, {"adapter": "lines", "annotations": "a"}
    )
    assert "'lines'" in parsed(copy, {"adapter": "lnes", **paths})
    schema = json.loads(run(copy, "-m", "perturbations", "--schema"))
    assert schema["$defs"]["Lines"]["properties"]["separator"]["description"].startswith("lines:")
    assert "lines" in schema["$defs"]["Dataset"]["properties"]["adapter"]["enum"]


def test_the_workflow_plans_it(copy: Path) -> None:
    planned = run(copy, "-m", "snakemake", "--dry-run", "-p", "--quiet", "host", "--cores", "1", "--", "mlvp_mine")
    assert "rule sources:" in planned
    program = (
        "import yaml; from pathlib import Path; from perturbations.config import file as config;"
        "from perturbations.plan import sharding;"
        "plan = sharding.make('mine', config.parse(yaml.safe_load(open('config.yaml'))), Path('planned'));"
        "print((plan.listed, plan.rejected, len(plan.shards)))"
    )
    assert ast.literal_eval(run(copy, "-c", program)) == (3, 2, 1)  # one line without a separator, one without a video
    captions = listed.read(copy / "planned/captions.jsonl", listed.ListedCaption)
    assert [caption.text for caption in captions] == ["a man walks", "a dog runs"]
