"""A user's own video encoder: two functions, named on the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import clips
import numpy as np
import pytest

from perturbations.base.errors import ConfigError, ManifestError
from perturbations.composed import embeddings as composed_embeddings
from perturbations.composed import encoder as composed_encoder
from perturbations.composed import official
from perturbations.composed.encoder import load, sampled, write
from perturbations.composed.records import ComposedQuery, PoolClip, Split

CODE = '''
import numpy as np


class Encoder:
    """The mean colour of a clip, and the length of a text."""

    def encode_clips(self, clips):
        assert all(frames.dtype == np.uint8 and frames.shape[-1] == 3 for frames in clips)
        return np.stack([frames.mean(axis=(0, 1, 2)) for frames in clips])

    def encode_texts(self, texts):
        return np.array([[len(text), 1, 2] for text in texts])


class Half:
    encode_clips = Encoder.encode_clips
'''
NAMES = ["v_0_8", "v_10_18", "v_20_28"]
SPLIT = Split(
    tuple(PoolClip(name=name, video_id="v", narration="") for name in [*NAMES, NAMES[0]]),
    (
        ComposedQuery(
            query_id="0", clip=NAMES[0], targets=(NAMES[1],), instruction="Shake it.", target_narration="shakes"
        ),
    ),
    {},
)


class Encoder:
    def __init__(self, clips: np.ndarray | None = None, texts: np.ndarray | None = None) -> None:
        self.clips, self.texts = clips, texts

    def encode_clips(self, clips: Sequence[np.ndarray]) -> np.ndarray:
        return np.ones((len(clips), 3)) if self.clips is None else self.clips

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.ones((len(texts), 3)) if self.texts is None else self.texts


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    (folder / "v").mkdir()
    for number, name in enumerate(NAMES):
        clips.make(folder / "v" / f"{name}.mp4", frames=3 + number)
    return folder


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder."""
    (tmp_path / "own_encoder.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_encoder", raising=False)
    return "own_encoder"


def test_the_command_writes_features_that_the_evaluation_reads(
    module: str, videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from perturbations.cli.main import main

    official.write(SPLIT, tmp_path)
    annotations = str(tmp_path / official.ANNOTATIONS)
    arguments = ["--encoder", f"{module}:Encoder", "--videos", str(videos), "--num-frames", "2", "--batch", "2"]
    assert main(["composed-encode", annotations, *arguments, "-o", str(tmp_path / "own")]) == 0
    assert "3 clips encoded, 0 cannot be read" in capsys.readouterr().out
    held = composed_embeddings.read(tmp_path / "own/clips.csv")
    expected = [sampled(videos / f"v/{name}.mp4", 2).mean(axis=(0, 1, 2)) for name in NAMES]
    assert held.names == tuple(NAMES)
    assert np.allclose(held.rows, expected)
    texts = composed_embeddings.read(tmp_path / "own/texts.npy", composed_embeddings.TEXTS)
    assert composed_embeddings.of_texts(texts, ["shakes", "Shake it."]).tolist() == [[6, 1, 2], [9, 1, 2]]
    model = ["--model", "own", str(tmp_path / "own/clips.csv"), str(tmp_path / "own/texts.csv")]
    assert main(["composed-evaluate", annotations, *model, "--gallery", "global_distinct"]) == 0
    assert "own text, instruction" in capsys.readouterr().out


def test_clips_that_cannot_be_read_are_left_out_and_named(videos: Path, tmp_path: Path) -> None:
    pool = (*SPLIT.pool, PoolClip(name="v_30_38", video_id="v", narration=""))
    failed = write(Split(pool, SPLIT.queries, {}), Encoder(), videos, tmp_path, num_frames=2, batch=3)
    assert [name for name, _ in failed] == ["v_30_38"]
    assert "no such file" in failed[0][1]
    assert composed_embeddings.read(tmp_path / "clips.npy").names == tuple(NAMES)
    with pytest.raises(ConfigError, match="no clip of the split can be read"):
        write(SPLIT, Encoder(), tmp_path, tmp_path, num_frames=2, batch=3)


def test_annotations_cannot_lead_out_of_the_videos_folder(videos: Path, tmp_path: Path) -> None:
    split = Split((PoolClip(name="v_0_8", video_id="../../v", narration=""),), (), {})
    with pytest.raises(ManifestError, match="leaves the corpus' folder"):
        write(split, Encoder(), videos, tmp_path, num_frames=2, batch=1)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (Encoder(clips=np.ones((2, 3))), "encode_clips returned float64 .2, 3. for 3"),
        (Encoder(clips=np.ones((3, 2, 3))), "encode_clips returned"),
        (Encoder(clips=np.full((3, 3), np.nan)), "encode_clips returned NaN or infinity"),
        (Encoder(texts=np.full((2, 3), "a")), "encode_texts returned"),
        (Encoder(texts=np.ones((2, 4))), "several widths: 3, 4"),
    ],
)
def test_features_that_do_not_fit_are_refused(encoder: Encoder, message: str, videos: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        write(SPLIT, encoder, videos, tmp_path, num_frames=2, batch=3)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_encoder", "named module:factory"),
        ("own_encoder:Encoder()", "named module:factory"),
        ("own_encoder:None_such", "no attribute"),
        ("none_such:Encoder", "No module named 'none_such'"),
        ("own_encoder:Half", "has no function encode_texts"),
    ],
)
def test_encoders_that_are_not_there_are_named(name: str, message: str, module: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(name)


def test_tensors_are_taken_too(videos: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    encoder = Encoder(torch.ones(3, 4, dtype=torch.bfloat16), torch.ones(2, 4, requires_grad=True))
    assert composed_encoder.write(SPLIT, encoder, videos, tmp_path, num_frames=1, batch=9) == []
    assert composed_embeddings.read(tmp_path / "clips.npy").rows.shape == (3, 4)
