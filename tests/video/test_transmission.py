"""What becomes of a stream on its way: damage, and what a player shows of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import av
import clips
import numpy as np
import pytest
from av.bitstream import BitStreamFilterContext

import perturbations
from perturbations.base.arrays import Image
from perturbations.base.errors import MediaError, ToolError
from perturbations.cli.main import main
from perturbations.corpus.plan import recipe, tiers
from perturbations.corpus.render import clean_clips, rendering
from perturbations.manifest import files
from perturbations.manifest.rows import VIDEOS, CompleteSource
from perturbations.media import damaged_streams, decoding, encoding, probing, profiles
from perturbations.media.clip import Frame, MediaClip
from perturbations.suites import suite_registry
from perturbations.video import rain, transport

pytestmark = pytest.mark.usefixtures("in_this_process")

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


def wrong_bits(seed: int, spacing: int, least: int = 1) -> np.ndarray:
    drawn = transport.draw_bits(np.random.default_rng(seed), 9, 48, 64)
    damaged = np.frombuffer(transport.flip_bits(drawn, STREAM, spacing=spacing, least=least), np.uint8)
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
    arrived = transport.lose_packets(drawn, stream, share=share, least=1)
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
        arrived = np.frombuffer(transport.lose_packets(drawn, numbered, share=share, least=1), np.uint8)
        packets = arrived.reshape(-1, 188)
        kept.append(set(packets[packets[:, 2] == 0][:, 187].tolist()))
    assert all(more >= fewer for more, fewer in itertools.pairwise(kept))


@pytest.mark.parametrize("stream", [TABLE + FRAME, TABLE, b""], ids=["one frame", "no frame", "empty"])
def test_without_a_second_frame_nothing_is_damaged(stream: bytes) -> None:
    bits = transport.draw_bits(np.random.default_rng(0), 1, 48, 64)
    packets = transport.draw_packets(np.random.default_rng(0), 1, 48, 64)
    assert transport.flip_bits(bits, stream, spacing=50, least=5) == stream
    assert transport.lose_packets(packets, stream, share=1.0, least=5) == stream


def test_severities_are_apart_on_the_shortest_streams() -> None:
    """A short clip has less than one wrong bit, or lost packet, at each severity."""
    rows: Sequence[Mapping[str, Any]] = suite_registry.get("transmission/bit_error").by_severity
    bits = [wrong_bits(0, **row).sum() for row in rows]
    assert bits == [1, 2, 3, 4, 5]
    drawn = transport.draw_packets(np.random.default_rng(0), 9, 48, 64)
    stream = STREAM[: len(TABLE + FRAME + TABLE + FRAME)]
    rows = suite_registry.get("transmission/packet_loss").by_severity
    lost = [(len(stream) - len(transport.lose_packets(drawn, stream, **row))) // 188 for row in rows]
    assert lost == [1, 2, 3, 4, 5]
    released: dict[str, Any] = suite_registry.get("transmission/packet_loss", "released").parameters(1)
    assert transport.lose_packets(drawn, stream, **released) == stream


# --- a player --------------------------------------------------------------------------------------------------------


def arrived(monkeypatch: pytest.MonkeyPatch, positions: list[int], **options: set[int]) -> list[tuple[int, int]]:
    """(position, level) of what is shown where frames at these positions are decoded; the level is the position."""

    def decoded(*_: object) -> Iterator[tuple[int, Image]]:
        return ((position, np.full((1, 1, 3), position, np.uint8)) for position in positions)

    monkeypatch.setattr(damaged_streams, "_decoded", decoded)
    shown = damaged_streams.shown(Path(), 6, RATE, **options)
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


# --- the source's own file --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> CompleteSource:
    """A clip of 20 frames, of which the last ten are shown twice as long, the third one eight times."""
    ticks = np.cumsum([0, 1, 1, 8, *[1] * 7, *[2] * 9]).tolist()
    path = tmp_path_factory.mktemp("uneven") / "clip.mp4"
    images = clips.noise(20, 48, 64)
    frames = (Frame(image, tick, at) for at, (image, tick) in enumerate(zip(images, ticks, strict=True)))
    encoding.encode(frames, path, profiles.PROFILES["compatible"], clips.TIMING)
    return clips.source_row(path)


def rendered(row: CompleteSource, name: str, severity: int, variant: str, **replaced: float) -> list[Frame]:
    entry = suite_registry.get(f"transmission/{name}", variant)
    wanted = recipe.make(entry, severity, seed=0, storage=tiers.UNSTORED, replaced=replaced or None)
    source = clean_clips.source_of(row)
    return list(rendering.planned_clip(wanted, replace(source, facts=clean_clips.facts_now(wanted, source))).frames())


def test_bytes_are_replaced_as_the_filter_says(uneven: CompleteSource) -> None:
    with av.open(uneven.path) as container:
        stream = container.streams.video[0]
        noise = BitStreamFilterContext(str(transport.byte_errors(spacing=50)["bsf"]), stream)
        state = replaced = 0
        for packet in container.demux(stream):
            if packet.size:
                before, (after,) = bytes(packet), (bytes(each) for each in noise.filter(packet))
                expected = bytearray(before)
                for at, value in enumerate(before):
                    state = (state + value + 1) % 2**32
                    if state % 50 == 0:
                        expected[at], replaced = state % 256, replaced + 1
                assert after == bytes(expected)
    assert replaced > 10


@pytest.mark.parametrize("span", [(None, None), (0.4, 0.9)])
def test_an_undamaged_stream_of_the_file_is_the_clip(uneven: CompleteSource, span: tuple[float, float]) -> None:
    """Whatever the times of its frames are, and wherever the clip begins."""
    clean = list(decoding.decode(MediaClip(Path(uneven.path), *span)))
    row = replace(uneven, start_s=span[0], end_s=span[1], frame_count=len(clean))
    same = rendered(row, "bit_error", 1, "released", spacing=10**9)
    assert [frame.pts for frame in same] == [frame.pts for frame in clean]
    assert all(np.array_equal(ours.image, frame.image) for ours, frame in zip(same, clean, strict=True))
    damaged = rendered(row, "bit_error", 1, "released", spacing=300)
    assert [frame.pts for frame in damaged] == [frame.pts for frame in clean]
    assert not all(np.array_equal(ours.image, frame.image) for ours, frame in zip(damaged, clean, strict=True))


@pytest.mark.parametrize("key", ["mlvp/fog", "transmission/frame_rate", "transmission/packet_loss"])
def test_frames_of_one_time_are_stored_one_after_the_other(key: str, tmp_path: Path) -> None:
    """Matroska counts milliseconds: of 1,600 frames per second some have the same one."""
    faster = ("-vf", "settb=1/1600,setpts=N", "-fps_mode", "passthrough", "-enc_time_base", "1/1600")
    path = clips.make(tmp_path / "fast.mkv", *faster, *clips.MPEG4)
    row = clips.made_row(key, tiers.stored_video("high"), clips.source_row(path), tmp_path / "stored")
    times = [frame.pts for frame in decoding.decode(MediaClip(Path(row.path or "")))]
    assert len(times) == clips.FRAMES
    assert times == sorted(set(times))


@pytest.mark.parametrize(
    ("key", "ticks"), [("mlvp/h264_compression", [0, 1, 2, 5, 6, 9]), ("msrvtt_p/mpeg2", [0, 1, 2, 3, 4, 5])]
)
def test_exported_streams_of_codecs_show_frames_in_time(key: str, ticks: list[int], tmp_path: Path) -> None:
    """An encoder counts frames with a clock of its own. (MPEG-4 has a constant rate, also of uneven frames.)"""
    path = clips.written(tmp_path / "clean.mp4", clips.noise(len(ticks)), ticks)
    row = clips.made_row(key, tiers.UNSTORED, clips.source_row(path), tmp_path)
    manifest = tmp_path / "manifests/videos.parquet"
    files.write(manifest, VIDEOS, [row], {"root": ".."})
    assert main(["export", str(manifest), "--format", "hub", "-o", str(tmp_path / "hub")]) == 0
    (exported,) = (tmp_path / "hub").rglob("*.mp4")
    assert clips.container_times(exported) == clips.container_times(path)


@pytest.mark.parametrize(("variant", "severity"), [("paper", 1), ("paper", 5), ("released", 4), ("released", 5)])
def test_a_lower_frame_rate_moves_no_frame(uneven: CompleteSource, variant: str, severity: int) -> None:
    """What is shown is a frame that was shown already, within one period of the lower rate."""
    clean = list(decoding.decode(MediaClip(Path(uneven.path))))
    held = rendered(uneven, "frame_rate", severity, variant)
    assert [frame.pts for frame in held] == [frame.pts for frame in clean]
    places = [next(at for at, own in enumerate(clean) if np.array_equal(own.image, frame.image)) for frame in held]
    assert places == sorted(places)
    number: Any = next(iter(suite_registry.get("transmission/frame_rate", variant).parameters(severity).values()))
    tick = probing.probe(Path(uneven.path)).time_base
    period = number * clean[-1].pts / 19 if variant == "paper" else 1 / (number * tick)
    slack = 0.1 * clean[-1].pts / 19
    for at, place in enumerate(places):
        assert place <= at
        # The newest frame at the last tick: the next frame begins after it.
        last = (clean[at].pts + slack) // period * period
        assert clean[place].pts <= last + slack
        assert place == 19 or clean[place + 1].pts > last - slack


def test_bitrates_are_shares_of_the_files(uneven: CompleteSource, monkeypatch: pytest.MonkeyPatch) -> None:
    bitrate = probing.file_bitrate(Path(uneven.path))
    with av.open(uneven.path) as container:
        assert bitrate == pytest.approx(8 * Path(uneven.path).stat().st_size / (container.duration / 1e6), rel=0.01)
    encoding_with_ffmpeg = MagicMock(wraps=encoding.encode_with_ffmpeg)
    monkeypatch.setattr(encoding, "encode_with_ffmpeg", encoding_with_ffmpeg)
    rendered(uneven, "h264_bitrate", 3, "released")
    expected = {**dict.fromkeys(("b:v", "maxrate", "bufsize"), int(bitrate / 8)), "preset": "medium"}
    assert expected.items() <= encoding_with_ffmpeg.call_args.args[-1].items()


@pytest.mark.parametrize("name", ["bit_error", "h265_bitrate"])
def test_an_array_has_no_stream_of_its_own(name: str) -> None:
    frames = clips.noise(5, 16, 16)
    with pytest.raises(ValueError, match="own stream or bitrate"):
        perturbations.perturb(frames, f"transmission/{name}", 1, seed=0, item_id="a", fps=25, variant="released")
    slower = perturbations.perturb(frames, "transmission/frame_rate", 5, seed=0, item_id="a", fps=25)
    assert all(np.array_equal(frame, frames[0]) for frame in slower)


def test_an_encoder_that_is_missing_is_named_before_any_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "ffmpeg"
    fake.write_text("#!/bin/sh\necho \"Codec 'libx265' is not recognized by FFmpeg.\"\n")
    fake.chmod(0o755)
    monkeypatch.setattr(encoding, "ffmpeg_program", lambda: str(fake))
    arguments = suite_registry.get("transmission/h265_crf").kernel(crf=27)
    with pytest.raises(ToolError, match="has no encoder libx265"):
        encoding.check_ffmpeg(arguments["vcodec"])


def test_drops_fall_and_stronger_rain_has_the_drops_of_the_milder() -> None:
    black = np.zeros((90, 120, 3), np.uint8)
    drawn = rain.draw_rain(np.random.default_rng(0), 3, 90, 120)
    few, many = (
        rain.rain(drawn, 3, 90, 120, density=density, length=0.1, contrast=1.0)(black, 0) for density in (0.001, 0.01)
    )
    assert few.any()
    assert (many >= few).all()
    assert not np.array_equal(few, rain.rain(drawn, 3, 90, 120, density=0.001, length=0.1, contrast=1.0)(black, 1))
