"""The command `perturb` as people type it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from test_pipeline import scene, write_clip

from perturbations.cli.main import main
from perturbations.plan import config
from perturbations.suites import registry

REPOSITORY = Path(__file__).parents[1]


def run(*arguments: str) -> int:
    return main(list(arguments))


def test_list_names_every_perturbation_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [entry.key for entry in registry.perturbations()]


@pytest.mark.parametrize("entry", registry.perturbations(), ids=lambda entry: entry.key)
def test_show_prints_the_table(entry: registry.Perturbation, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", entry.key) == 0
    shown = capsys.readouterr().out
    assert entry.source in shown
    for severity in entry.severities:
        for value in entry.parameters(severity).values():
            assert str(value) in shown


def test_a_wrong_name_is_one_line_with_the_nearest_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "mlvp/snwo") == 1
    message = capsys.readouterr().err
    assert "mlvp/snow" in message
    assert message.count("\n") == 1


def test_video_writes_a_video(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_clip(tmp_path / "in put.mp4", scene(5, 48, 64))
    target = tmp_path / "out" / "put.mp4"
    assert run("video", str(source), str(target), "-p", "mlvp/fog", "-s", "3") == 0
    assert target.is_file()
    assert "5 frames" in capsys.readouterr().out


def test_video_does_not_overwrite_its_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_clip(tmp_path / "in.mp4", scene(5, 48, 64))
    before = source.read_bytes()
    assert run("video", str(source), str(source), "-p", "mlvp/fog", "-s", "3") == 1
    assert source.read_bytes() == before
    assert "is the input itself" in capsys.readouterr().err


def test_video_says_what_is_wrong_with_its_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("video", str(tmp_path / "no.mp4"), str(tmp_path / "out.mp4"), "-p", "mlvp/fog", "-s", "3") == 1
    assert f"perturb: {tmp_path / 'no.mp4'}: no such file\n" == capsys.readouterr().err


def test_preview_draws_a_row_a_perturbation_and_a_column_a_severity(tmp_path: Path) -> None:
    source = write_clip(tmp_path / "in.mp4", scene(5, 48, 64))
    sizes = []
    for names in (["mlvp/snow"], ["mlvp/snow", "mlvp/fog"]):
        sheet = tmp_path / "sheet.png"
        assert run("preview", str(source), "-o", str(sheet), "-p", *names, "-s", "1", "5") == 0
        sizes.append(cv2.imread(str(sheet)).shape)
    assert sizes[1][0] > sizes[0][0]
    assert sizes[1][1] == sizes[0][1]


def test_verify_without_manifests_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("verify") == 1
    assert "no such manifest: manifests" in capsys.readouterr().err


def test_the_schema_file_is_the_configuration_s_own() -> None:
    path = REPOSITORY / "workflow" / "schemas" / "config.schema.json"
    assert path.read_text() == config.json_schema(), f"run: perturb schema > {path.relative_to(REPOSITORY)}"


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["show", "mlvp/fog"]])
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    heavy = ["numpy", "cv2", "av", "pandas", "pyarrow", "torch", "scipy"]
    program = (
        "import sys; from perturbations.cli.main import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: pass\n"
        f"sys.exit(str([name for name in {heavy!r} if name in sys.modules]) if "
        f"any(name in sys.modules for name in {heavy!r}) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_planning_imports_nothing_heavy() -> None:
    program = "import sys\nfrom perturbations.plan import config, evaluation_paths, paths, recipe, sharding, targets\n"
    program += "from perturbations.suites import registry\nregistry.suites()\n"
    program += "assert not {'numpy', 'cv2', 'av', 'pandas', 'pyarrow'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_perturbations_has_its_public_names() -> None:
    import perturbations

    assert set(perturbations.__all__) >= {"list_perturbations", "perturb", "read_manifest", "open_clip"}
    assert perturbations.list_perturbations("mlvp") == [entry.key for entry in registry.perturbations("mlvp")]
    assert isinstance(
        perturbations.perturb(np.zeros((1, 4, 4, 3), np.uint8), "mlvp/fog", 1, seed=0, item_id="", fps=1), np.ndarray
    )
