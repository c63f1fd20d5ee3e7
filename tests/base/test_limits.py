"""Where limits come from: the configuration and a command's option."""

from __future__ import annotations

from pathlib import Path

import pytest
from clips import DATASET, make

from perturbations.base import limits
from perturbations.base.settings import parse_limits
from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.corpus.plan import recipe

CONFIG = {"datasets": {"demo": DATASET}, "suites": {"mlvp": {}}}


@pytest.fixture(autouse=True)
def _own_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_current", limits.DEFAULTS)


def test_limits_have_the_defaults_of_the_package_and_are_in_no_recipe() -> None:
    assert config_file.parse(CONFIG).limits.model_dump() == parse_limits("{}") == limits.DEFAULTS
    other = config_file.parse({**CONFIG, "limits": {"frames": 7, "decode_mib": 9}})
    assert other.limits.frames == 7
    texts = {recipe.from_config(parsed, "demo", "mlvp", "fog", 3).text for parsed in (config_file.parse(CONFIG), other)}
    assert len(texts) == 1
    assert "limits" not in texts.pop()


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ('{"frames": 0}', "limits.frames: Input should be greater than or equal to 1"),
        ('{"frames": true}', "limits.frames: Input should be a valid integer"),
        ('{"frames": 1.5}', "limits.frames: Input should be a valid integer"),
        ('{"frame": 1}', "limits.frame: Extra inputs are not permitted; known: frame_pixels, frames, seconds,"),
        ("[]", "limits: Input should be an object"),
        ("frames=1", "limits: Invalid JSON"),
    ],
)
def test_limits_of_a_command_are_checked(setting: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--limits", setting, "list"]) == 1
    assert reason in capsys.readouterr().err


def test_a_command_takes_limits_from_its_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = make(tmp_path / "a.mp4", frames=40)
    video = ["video", str(clip), str(tmp_path / "b.mp4"), "-p", "mlvp/fog", "-s", "1"]
    assert main(["--limits", '{"frames": 39}', *video]) == 1
    assert "limits.frames allows 39" in capsys.readouterr().err
    assert main(["--limits", '{"frames": 40}', *video]) == 0
