"""A guide is one file: corpora, arrays and verify know it; a kernel that takes it is declared by a suite."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import yaml
from shelves import copy_with, example, run
from test_workflow import tiny_clip

SUITE = '''
"""A kernel that puts the brightest channel out."""

from __future__ import annotations

from perturbations.base.bounds import SHARE
from perturbations.suites.kernels import Kernel
from perturbations.suites.registry import Paper, Suite, table


def put_out(realization, channel, num_frames, height, width, *, share):
    """Take a share of one channel away."""

    def apply(frame, index):
        changed = frame.copy()
        changed[..., channel] = frame[..., channel] * (1 - share)
        return changed

    return apply


PUT_OUT = Kernel(kernel="perturbations.suites.lamp:put_out", guide="brightest", bounds={"share": SHARE})
PAPER = Paper(suite="lamp", video_source="Nobody 2026")
SUITE = Suite(
    name="lamp",
    title="Lamp",
    reference="Nobody",
    perturbations=(PAPER.video("put_out", "light", PUT_OUT, table("share", 0.5, 1.0), "one channel goes out"),),
)
'''


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with one more guide, a suite that uses it, and a clip."""
    files = {"perturbations/guides/brightest.py": example("add-a-guide"), "perturbations/suites/lamp.py": SUITE}
    root = copy_with(tmp_path_factory.mktemp("copy"), files)
    tiny_clip(root / "videos/a.mp4", seed=1)
    (root / "captions.json").write_text(json.dumps([{"item_id": "a", "caption": "a clip"}]))
    config = {
        "datasets": {"tiny": {"adapter": "folder", "annotations": "captions.json", "videos": "videos"}},
        "suites": {"lamp": {"severities": [2]}},
        "storage": {"tier": "recipe"},
    }
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    return root


def test_corpora_arrays_and_verify_know_it(copy: Path) -> None:
    run(copy, "-m", "snakemake", "--cores", "2", "--no-hooks", "lamp_tiny")
    program = (
        "import numpy as np, perturbations;"
        "rows = perturbations.read_manifest('manifests/tiny/lamp/videos.parquet');"
        "source = perturbations.read_manifest('manifests/tiny/sources.parquet').iloc[0];"
        "clip = perturbations.open_clip(source); row = rows.iloc[0];"
        "corpus = perturbations.open_clip(row);"
        "array = perturbations.perturb(clip, 'lamp/put_out', 2, seed=0, item_id='a', dataset='tiny', fps=25);"
        "channel = int(clip[0].mean((0, 1)).argmax());"
        "print((row.guide, channel, bool(np.array_equal(corpus, array)), int(array[..., channel].max())))"
    )
    guide, channel, same, brightest = ast.literal_eval(run(copy, "-c", program))
    assert json.loads(guide) == {"channel": channel}
    assert same
    assert brightest == 0
    run(copy, "-m", "perturbations", "verify", "--render", "manifests")


def test_a_perturbation_with_an_unknown_guide_is_named(copy: Path) -> None:
    program = (
        "from perturbations.guides import registry; from perturbations.base.errors import ShelfError\n"
        "try: registry.get('brigthest')\n"
        "except ShelfError as error: print(error)"
    )
    assert "no guide 'brigthest'; known: brightest, " in run(copy, "-c", program)
