"""Where limits come from: the configuration and a command's option."""

from __future__ import annotations

def test_a_command_takes_limits_from_its_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = make(tmp_path / "a.mp4", frames=40)
    video = ["video", str(clip), str(tmp_path / "b.mp4"), "-p", "mlvp/fog", "-s", "1"]
    assert main(["--limits", '{"frames": 39}', *video]) == 1
    assert "limits.frames allows 39" in capsys.readouterr().err
    assert main(["--limits", '{"frames": 40}', *video]) == 0
