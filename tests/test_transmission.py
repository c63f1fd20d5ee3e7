"""What becomes of a stream on its way: damage, and what a player shows of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import clips
import numpy as np
import pytest

import perturbations
from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError, ToolError
from perturbations.base.progress import no_tick
from perturbations.engine import rendering, shards
from perturbations.media import program, received
from perturbations.plan import recipe
from perturbations.suites import registry
from perturbations.video import rain, transport

RATE = Fraction(25)


def packet(pid: int, *, begins: bool = False, fill: int = 0) -> bytes:
    """One packet of a transport stream; the first of a frame has a header of 14 bytes."""
    body = bytes([0, 0, 1, 0xE0, 0, 0, 0x80, 0x80, 5, *[0] * 5]) if begins else b""
    return bytes([0x47, (0x40 if begins else 0) | pid >> 8, pid & 0xFF, 0x10]) + body.ljust(184, bytes([fill]))


TABLE = packet(0)
FRAME = packet(0x100, begins=True) + packet(0x100) * 9
STREAM = TABLE + FRAME + TABLE + FRAME * 8
FIRST = len(TABLE + FRAME + TABLE)
"""What comes before the second frame arrives as it is."""


def wrong_bits(seed: int, spacing: int) -> np.ndarray:
    drawn = transport.draw_bits(np.random.default_rng(seed), 9, 48, 64)
    damaged = np.frombuffer(transport.flip_bits(drawn, STREAM, spacing=spacing), np.uint8)
    return np.unpackbits(damaged ^ np.frombuffer(STREAM, np.uint8))


@pytest.mark.parametrize("spacing", [50, 1000, 10**9])
def test_one_bit_is_wrong_per_so_many_bytes_of_video(spacing: int) -> None:
    wrong = wrong_bits(0, spacing)
    coded = 8 * (10 * 184 - 14 - 16)
    # Rarely two errors meet, and undo each other.
    assert max(1, round(coded / spacing)) - 2 <= wrong.sum() <= max(1, round(coded / spacing))
    assert not wrong[: 8 * FIRST].any()


def test_headers_arrive_as_they_are() -> None:
    for seed in range(20):
        bytes_of_packets = np.packbits(wrong_bits(seed, 50)).reshape(-1, 188)
        assert not bytes_of_packets[:, :4].any()
        begins = np.flatnonzero(np.frombuffer(STREAM, np.uint8).reshape(-1, 188)[:, 1] & 0x40)
        assert not bytes_of_packets[begins, : 4 + 14 + 16].any()
        assert bytes_of_packets[begins, 4 + 14 + 16 :].any()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_share_of_the_packets_is_lost(share: float) -> None:
    stream = STREAM + FRAME * 400
    drawn = transport.draw_packets(np.random.default_rng(0), 9, 48, 64)
    arrived = transport.lose_packets(drawn, stream, share=share)
    lost = (len(stream) - len(arrived)) // 188
    assert arrived.startswith(stream[:FIRST])
    assert lost == pytest.approx(share * 4080, rel=0.1) if share else lost == 1


def test_more_damage_contains_less() -> None:
    milder, stronger = wrong_bits(0, 4000), wrong_bits(0, 2000)
    assert (stronger[milder == 1] == 1).all()
    numbered = STREAM + b"".join(packet(0x100, fill=number) for number in range(256))
    drawn = transport.draw_packets(np.random.default_rng(1), 9, 48, 64)
    kept = []
    for share in (0.01, 0.1, 0.5):
        arrived = np.frombuffer(transport.lose_packets(drawn, numbered, share=share), np.uint8).reshape(-1, 188)
        kept.append(set(arrived[arrived[:, 2] == 0][:, 187].tolist()))
    assert all(more >= fewer for more, fewer in itertools.pairwise(kept))


@pytest.mark.parametrize("stream", [TABLE + FRAME, TABLE, b""], ids=["one frame", "no frame", "empty"])
def test_without_a_second_frame_nothing_is_damaged(stream: bytes) -> None:
    bits = transport.draw_bits(np.random.default_rng(0), 1, 48, 64)
    packets = transport.draw_packets(np.random.default_rng(0), 1, 48, 64)
    assert transport.flip_bits(bits, stream, spacing=50) == stream
    assert transport.lose_packets(packets, stream, share=1.0) == stream


# --- a player --------------------------------------------------------------------------------------------------------


def arrived(monkeypatch: pytest.MonkeyPatch, positions: list[int], **options: set[int]) -> list[tuple[int, int]]:
    """(position, level) of what is shown where frames at these positions are decoded; the level is the position."""

    def decoded(path: Path, rate: Fraction) -> Iterator[tuple[int, Image]]:
        return ((position, np.full((1, 1, 3), position, np.uint8)) for position in positions)

    monkeypatch.setattr(received, "_decoded", decoded)
    shown = received.shown(Path(), 6, RATE, **options)
    return [(frame.position, int(frame.image[0, 0, 0])) for frame in shown]


@pytest.mark.parametrize(
    ("positions", "levels"),
    [
        ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]),
        ([0, 3], [0, 0, 0, 3, 3, 3]),
        ([2, 1, 4], [2, 2, 2, 2, 4, 4]),
        ([0, 9], [0, 0, 0, 0, 0, 0]),
        ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5]),
    ],
    ids=["all", "missing", "late", "beyond", "more"],
)
def test_what_is_missing_freezes(monkeypatch: pytest.MonkeyPatch, positions: list[int], levels: list[int]) -> None:
    assert arrived(monkeypatch, positions) == list(enumerate(levels))
    assert arrived(monkeypatch, positions, only={1, 4}) == [(1, levels[1]), (4, levels[4])]


def test_a_stream_without_a_frame_is_the_clip_s_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MediaError, match="no frame of the damaged stream"):
        arrived(monkeypatch, [])


@pytest.mark.parametrize(("height", "width"), [(48, 64), (37, 53)])
@pytest.mark.parametrize(("name", "severity"), [("bit_error", 5), ("packet_loss", 3), ("packet_loss", 5)])
def test_a_damaged_clip_keeps_its_frames(name: str, severity: int, height: int, width: int) -> None:
    """And the key decides, not the run."""
    frames = np.random.default_rng(0).integers(0, 256, (30, height, width, 3), dtype=np.uint8)
    results = [
        perturbations.perturb(frames, f"transmission/{name}", severity, seed=0, item_id=item, fps=25)
        for item in ("a", "a", "b")
    ]
    assert results[0].shape == frames.shape
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])
    assert np.array_equal(results[0][0], results[2][0])  # the first frame arrives as it is


# --- encoders --------------------------------------------------------------------------------------------------------


def test_an_encoder_that_is_missing_is_named_before_any_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "ffmpeg"
    fake.write_text("#!/bin/sh\necho \"Codec 'libx265' is not recognized by FFmpeg.\"\n")
    fake.chmod(0o755)
    monkeypatch.setattr(program, "ffmpeg_program", lambda: str(fake))
    arguments = registry.resolve(registry.get("transmission/h265_crf").kernel)(crf=27)
    with pytest.raises(ToolError, match="has no encoder libx265"):
        program.check_ffmpeg(arguments["vcodec"])


@pytest.mark.parametrize("name", ["h264_bitrate", "h265_bitrate", "h264_crf", "h265_crf"])
def test_stronger_severities_need_fewer_bits(name: str, tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (50, 48, 64, 3), dtype=np.uint8)
    source = shards.source_of(clips.source_row(clips.write_scene(tmp_path / "clean.mp4", frames)))
    sizes = []
    for severity in (1, 3, 5):
        wanted = recipe.make(registry.get(f"transmission/{name}"), severity, seed=0, storage=recipe.Unstored())
        path = tmp_path / f"{severity}.mp4"
        rendering.encode_stream(wanted, source, path, no_tick)
        sizes.append(path.stat().st_size)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3


# --- rain ------------------------------------------------------------------------------------------------------------


def test_drops_fall_and_stronger_rain_has_the_drops_of_the_milder() -> None:
    black = np.zeros((90, 120, 3), np.uint8)
    drawn = rain.draw_rain(np.random.default_rng(0), 3, 90, 120)
    few, many = (
        rain.rain(drawn, 3, 90, 120, density=density, length=0.1, contrast=1.0)(black, 0) for density in (0.001, 0.01)
    )
    assert few.any()
    assert (many >= few).all()
    assert not np.array_equal(few, rain.rain(drawn, 3, 90, 120, density=0.001, length=0.1, contrast=1.0)(black, 1))
