"""The pages of docs/how-to add a suite, dataset, guide, method and backbone: a file and its name in a list."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import copies
import pytest
import yaml
from workflow_project import tiny_clip

from perturbations.base import plugins
from perturbations.base.errors import ConfigError, RegistryError

LAMP = '''
"""A kernel that puts the brightest channel out: it takes the guide that a page adds."""

from __future__ import annotations

from perturbations.base.bounds import SHARE
from perturbations.suites.suite_registry import Paper, Suite, table
from perturbations.base.kernel import Kernel


def put_out(realization, channel, num_frames, height, width, *, share):
    """Take a share of one channel away."""

    def apply(frame, index):
        changed = frame.copy()
        changed[..., channel] = frame[..., channel] * (1 - share)
        return changed

    return apply


PUT_OUT = Kernel(kernel=put_out, guide="brightest", bounds={"share": SHARE})
PAPER = Paper(suite="lamp", video_source="Nobody 2026")
SUITE = Suite(
    name="lamp",
    title="Lamp",
    reference="Nobody",
    videos=(PAPER.video("put_out", "light", PUT_OUT, table("share", 0.5, 1.0), "one channel goes out"),),
)
'''
REGISTRY = (copies.ROOT / "perturbations/models/guides/guide_registry.py").read_text(encoding="utf-8")
for line, with_another in (  # as the page says
    ('    "clock": "timing"', '    "brightest": "brightest",\n{}'),
    ('    "embedding": "donor"', '    "brightness": "brightest",\n{}'),
):
    assert line in REGISTRY
    REGISTRY = REGISTRY.replace(line, with_another.format(line))

BACKBONES = (copies.ROOT / "perturbations/evaluation/backbones.py").read_text(encoding="utf-8")
BACKBONES = BACKBONES.replace("_OWN = (\n", f"_OWN = (\n{copies.example('add-a-backbone')},\n")

LISTS = {  # registry -> a name in its list, and the names that go before it
    "perturbations/suites/suite_registry.py": ('"mlvp"', '"novel", "lamp"'),
    "perturbations/datasets/adapter_registry.py": ('"activitynet"', '"lines"'),
    "perturbations/tta/methods/method_registry.py": ('"none"', '"centred"'),
}


def listed(path: str) -> str:
    """A registry with further names in its list."""
    text, (name, added) = (copies.ROOT / path).read_text(encoding="utf-8"), LISTS[path]
    assert text.count(f"{name}, ") == 1
    return text.replace(f"{name}, ", f"{added}, {name}, ")


FILES = {
    **{path: listed(path) for path in LISTS},
    "perturbations/suites/novel.py": copies.example("add-a-suite"),
    "perturbations/suites/lamp.py": LAMP,
    "perturbations/models/guides/brightest.py": copies.example("add-a-guide"),
    "perturbations/models/guides/guide_registry.py": REGISTRY,
    "perturbations/datasets/lines.py": copies.example("add-a-dataset"),
    "perturbations/tta/methods/centred.py": copies.example("add-a-method"),
    "perturbations/evaluation/backbones.py": BACKBONES,
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with these files, three clips, and a configuration that asks for what was added."""
    root = copies.copy_with(tmp_path_factory.mktemp("copy"), FILES)
    for index in range(3):
        tiny_clip(root / f"videos/clip{index}.mp4", seed=index)
    (root / "captions.txt").write_text("".join(f"clip{index};a man is clip number {index}\n" for index in range(3)))
    dataset = {"adapter": "lines", "annotations": "captions.txt", "videos": "videos", "separator": ";"}
    config: dict[str, Any] = {
        "datasets": {"tiny": dataset},
        "suites": {"novel": {"severities": [2]}, "lamp": {"severities": [2]}},
        "storage": {"tier": "frames", "num_frames": 4},
        "evaluation": {"methods": ["tent", "centred"]},
    }
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    return root


def test_menus_and_the_schema_list_them(copy: Path) -> None:
    assert "thin mist" in copies.run(copy, "-m", "perturbations", "list", "novel/mist")
    backbones = json.loads(copies.run(copy, "-m", "perturbations", "list", "backbones", "--json"))
    assert "GroupViTModel" in [backbone["model_class"] for backbone in backbones]
    schema = json.loads(copies.run(copy, "-m", "perturbations", "--schema"))
    assert "novel" in schema["properties"]["suites"]["propertyNames"]["enum"]
    assert schema["$defs"]["Lines"]["properties"]["separator"]["description"].startswith("lines:")
    assert "centred" in schema["$defs"]["Evaluation"]["properties"]["methods"]["items"]["oneOf"][0]["enum"]


def test_corpora_of_them_are_made_and_verified(copy: Path) -> None:
    """A pixel kernel, one of the suite's own, a temporal one, one that follows motion, and one with an added guide."""
    names = ("novel/videos", "novel/captions", "lamp/videos")
    targets = [f"manifests/tiny/{name}.parquet" for name in names]
    copies.run(copy, "-m", "snakemake", "--cores", "2", "--no-hooks", "--", *targets)
    program = (
        "import numpy as np, perturbations;"
        "rows = perturbations.read_manifest('manifests/tiny/novel/videos.parquet');"
        "frames = [perturbations.open_clip(row) for _, row in rows.iterrows()];"
        "print((len(rows), set(rows.status), {clip.shape[0] for clip in frames}));"
        "texts = perturbations.read_manifest('manifests/tiny/novel/captions.parquet');"
        "print((len(texts), bool(texts.changed.sum() > 0)));"
        "row = perturbations.read_manifest('manifests/tiny/lamp/videos.parquet').iloc[0];"
        "source = perturbations.read_manifest('manifests/tiny/sources.parquet').iloc[0];"
        "print((row.guide, int(perturbations.open_clip(source)[0].mean((0, 1)).argmax())))"
    )
    videos, texts, guided = map(ast.literal_eval, copies.run(copy, "-c", program).splitlines())
    assert videos == (12, {"complete"}, {4})
    assert texts == (3, True)
    assert json.loads(guided[0]) == {"channel": guided[1]}
    copies.run(copy, "-m", "perturbations", "verify", "manifests")


def test_a_method_is_planned_and_adapts_and_a_folder_of_a_backbone_is_checked(copy: Path) -> None:
    shown = ("--dry-run", "--printshellcmds", "--quiet", "host")
    planned = copies.run(copy, "-m", "snakemake", *shown, "--cores", "1", "--", "tta_tiny")
    assert '"method":"centred"' in planned
    tiny_models = pytest.importorskip("tiny_models")
    folder = tiny_models.save_groupvit(copy / "groupvit")
    model = {"pooling": "clip4clip", "pretrained": str(folder), "num_frames": 2}
    settings = json.dumps({"model": model, "device": "cpu", "reader": "pyav"})
    check = ["rule", "check_model", settings, "--output", "checked.json"]
    program = (
        f"from perturbations.cli.main import main; assert main({check!r}) == 0;"
        "import torch; from tta_models import model_of, queries_and_gallery; from perturbations.tta import adapt;"
        "batches, gallery = queries_and_gallery('v2t', [3, 2]); model = model_of('clip4clip');"
        "run = lambda name: list(adapt(model, name, batches, gallery, direction='v2t'));"
        "plain, centred = run('none'), run('centred');"
        "print(all(torch.equal(a - a.mean(0), b) for a, b in zip(plain, centred, strict=True)))"
    )
    assert copies.run(copy, "-c", program).split()[-1] == "True"
    assert json.loads((copy / "checked.json").read_text())["images"]["size"] == 32


# --- mistakes in added files ------------------------------------------------------------------------------------------


def test_an_unknown_name_brings_the_nearest() -> None:
    from perturbations.evaluation import backbones
    from perturbations.models.guides import guide_registry as guides
    from perturbations.tta.methods import method_registry as methods

    with pytest.raises(ConfigError, match="method 'hatvr' is unknown; allowed: none, .*; did you mean hatvtr"):
        methods.method("hatvr")
    with pytest.raises(ConfigError, match="'chinese-clip' model; allowed: clip, .*; did you mean chinese_clip"):
        backbones.backbone("chinese-clip", "folder")
    with pytest.raises(RegistryError, match="no guide 'brigthest'; known: "):
        guides.get("brigthest")


# --- things of other packages ----------------------------------------------------------------------------------------


def test_another_package_brings_a_suite(tmp_path: Path) -> None:
    """By an entry point, as its installed metadata has it; one that is no suite is refused by name."""
    metadata = tmp_path / "lamps-1.dist-info"
    metadata.mkdir()
    (tmp_path / "lamps.py").write_text(LAMP)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lamps\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[perturbations.suites]\nlamp = lamps:SUITE\nbroken = lamps:PAPER\n")
    program = (
        "from perturbations.suites import suite_registry as registry\n"
        "from perturbations.base.errors import RegistryError\n"
        "print(registry.get('lamp/put_out').kernel.__module__)\n"
        "try: registry.suites()\n"
        "except RegistryError as error: print(error)"
    )
    module, refused = copies.run(tmp_path, "-c", program, folder=copies.ROOT).splitlines()
    assert module == "lamps"
    assert "'broken' of perturbations.suites must be a Suite of that name" in refused


def test_files_declare_what_lists_name() -> None:
    """No file is left out of its list; titles in tables are different; one method is the baseline."""
    from perturbations.datasets import adapter_registry as datasets
    from perturbations.evaluation import backbones
    from perturbations.models import role_registry as models
    from perturbations.questions import adapters
    from perturbations.suites import suite_registry as suites
    from perturbations.tta.methods import method_registry as methods

    for registry, constant in (
        (suites, "SUITE"),
        (datasets, "ADAPTER"),
        (methods, "METHOD"),
        (models, "MODELS"),
    ):
        folders = [Path(registry.__file__).parent]
        folders += [Path(adapters.__file__).parent] if registry is datasets else []
        files = (file for folder in folders for file in folder.glob("*.py"))
        declaring = {file.stem for file in files if f"\n{constant}" in file.read_text(encoding="utf-8")}
        assert declaring == registry._OWN.keys() - {"demo"}, registry.__name__
        assert plugins.load_all("none", registry._OWN, constant, object).keys() == registry._OWN.keys()
    for known in (methods.methods(), backbones.backbones()):
        titles = [entry.title for entry in known.values()]
        assert len(set(titles)) == len(titles)
    assert [entry.name for entry in methods.methods().values() if entry.is_baseline] == ["none"]
