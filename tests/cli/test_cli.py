"""The command `perturb` as people type it."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import clips
import cv2
import numpy as np
import pytest
import yaml
from copies import ROOT
from pipeline_rows import scene

from perturbations.base import storage
from perturbations.cli import rule as rules
from perturbations.cli.main import main, parser
from perturbations.corpus import verification
from perturbations.corpus.plan import recipe, tiers
from perturbations.manifest import files
from perturbations.manifest.rows import SOURCES, VIDEOS
from perturbations.media import decoding, probing
from perturbations.media.clip import MediaClip
from perturbations.suites import suite_registry


def run(*arguments: str) -> int:
    return main(list(arguments))


def test_list_names_all_and_prints_one_or_the_nearest_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [entry.key for entry in suite_registry.perturbations()]
    for entry in suite_registry.perturbations():
        assert run("list", entry.key) == 0
        head, _, text = capsys.readouterr().out.partition("\n")
        facts = yaml.safe_load(text)
        assert (head, facts["source"]) == (entry.key, entry.source)
        assert facts.get("bounds", {}) == {name: str(bound) for name, bound in entry.bounds.items()}
        of_variant = facts["variants"][entry.variant]["parameters"]
        assert of_variant == {severity: entry.parameters(severity) for severity in entry.severities}
    assert run("list", "mlvp/snwo") == 1
    message = capsys.readouterr().err
    assert "mlvp/snow" in message
    assert message.count("\n") == 1


def test_the_help_lists_what_people_type_in_sections(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        run("--help")
    assert done.value.code == 0
    listed = re.findall(r"^  ([a-z][a-z-]*) +\S", capsys.readouterr().out, re.MULTILINE)
    assert len(listed) <= 16
    assert set(listed) == commands()
    assert {"init", "list", "verify"} <= set(listed)


def commands(command: str | None = None) -> set[str]:
    """The commands of all modules, or of one command's."""
    (names,) = (action.choices for action in parser(command)._actions if isinstance(action, argparse._SubParsersAction))
    return set(names)


def test_every_rule_calls_a_command_that_there_is_and_needs_no_other_module() -> None:
    for command in commands():
        assert command in commands(command)
        assert commands(command) < commands()
    text = "".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    called = set(re.findall(r'"perturb (rule )?([a-z_]+)', text))
    assert len(called) > 10
    for rule, name in called:
        assert callable(rules.job(name)) if rule else name in commands(), name


def test_a_job_s_words_are_its_settings_and_paths() -> None:
    words = ['{"a": 1}', '{"b": {"c": null}}', "--one", "x y", "--none", "--many+", "1", "2", "--few+"]
    assert rules.arguments(words) == {
        "a": 1,
        "b": {"c": None},
        "one": Path("x y"),
        "many": [Path("1"), Path("2")],
        "few": [],
    }


SECONDS = ("0", "-1", "nan", "soon")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["lisst"], "did you mean list?"),
        (["export", "x", "--format", "vtr-tta", "-o", "y"], "did you mean vtr_tta?"),
        (["list", "mlvp/fgo"], "did you mean mlvp/fog"),
        (["list", "impulse_noise"], "did you mean mlvp/impulse_noise or mm_robustness/impulse_noise or"),
        (["video", "x.mp4", "y.mp4", "-p", "mlvp/fogg", "-s", "1"], "did you mean mlvp/fog"),
        (["video", "x.mp4", "y.mp4", "-p", "mm_robustness/ocr", "-s", "1"], "mm_robustness/ocr perturbs captions"),
        (["list", "MLPV"], "did you mean mlvp?"),
        (["video", "x.mp4", "y.mp4", "-p", "mlvp", "-s", "1"], "it is a suite. Name one of its perturbations"),
        pytest.param(["list", "hat_vtr_tabel_1"], "hat_vtr_table_1"),
        pytest.param(["list", "backbone"], "did you mean backbones?"),
        (["export", "x", "--format", "hub", "-o", "y", "--cleann"], "did you mean --clean?"),
        (["verify", "--redner=1"], "did you mean --render?"),
        pytest.param(["check", "--config", "seed=1"], "did you mean --configfile?"),
        (
            ["retry", "--item", "-0aB"],
            "argument; before a value that begins with a dash, write =",
        ),
        (["init", ""], "the name is empty; `.` is the working directory"),
        (["verify", "--jobs", "two"], "must be a whole number, not 'two'"),
        *((["verify", "--stall-limit", wrong], f"must be seconds above 0, not '{wrong}'") for wrong in SECONDS),
    ],
)
def test_a_mistyped_name_brings_what_it_may_have_meant(
    typed: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        assert run(*typed) == 1
    except SystemExit as done:
        assert done.code == 2
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize("name", ["zzzzzzz", "x" * 10_000_000, "\x1b[2J"])
def test_a_name_like_none_brings_none(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", name) == 1
    message = capsys.readouterr().err
    assert "did you mean" not in message
    assert "See `perturb list`" in message
    assert len(message) < 300
    assert "\x1b" not in message


def test_list_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "mlvp", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["key"] for row in rows] == [entry.key for entry in suite_registry.perturbations("mlvp", "video")]
    assert run("list", "mlvp/fog", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    entry = suite_registry.get("mlvp/fog")
    for form in entry.forms():
        for severity in form.severities:
            assert shown["variants"][form.variant]["parameters"][str(severity)] == dict(form.parameters(severity))


def test_list_prints_methods_with_their_papers_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "methods") == 0
    assert re.search(r"^hatvtr +HAT-VTR: HAT-VTR, Sec. 4; minimizes", capsys.readouterr().out, re.MULTILINE)
    assert run("list", "methods", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["qbnorm"]["title"] == "QB-Norm"
    assert rows["hatvtr"]["rates"] == {"v2t": 3e-4, "t2v": 3e-5}


def test_list_finds_a_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "hat_vtr_table_1") == 0
    shown = yaml.safe_load(capsys.readouterr().out.partition("\n")[2])
    assert shown["needs"].keys() == {"model", "checkpoint"}
    assert run("list", "mlvp", "fog") == 0
    assert capsys.readouterr().out.startswith("mlvp/fog\n")


def test_verify_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, damaged = tmp_path / "good" / "sources.parquet", tmp_path / "damaged.parquet"
    files.write(good, SOURCES, [])
    damaged.write_bytes(b"PAR1")
    assert run("verify", "--json", str(tmp_path)) == 1
    by_name = {Path(entry["manifest"]).name: entry for entry in json.loads(capsys.readouterr().out)["manifests"]}
    assert by_name["sources.parquet"]["rows"] == 0
    assert [Path(entry["file"]).name for entry in by_name["damaged.parquet"]["problems"]] == ["damaged.parquet"]


def test_video_writes_a_video_and_never_over_its_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = clips.write_scene(tmp_path / "in put.mp4", scene(5, 48, 64))
    target = tmp_path / "out" / "put.mp4"
    assert run("video", str(source), str(target), "-p", "mlvp/fog", "-s", "3") == 0
    assert target.is_file()
    assert "5 frames" in capsys.readouterr().out
    source = clips.write_scene(tmp_path / "in.mp4", scene(5, 48, 64))
    before = source.read_bytes()
    assert run("video", str(source), str(source), "-p", "mlvp/fog", "-s", "3") == 1
    assert source.read_bytes() == before
    assert "is the input itself" in capsys.readouterr().err
    assert run("video", str(tmp_path / "no.mp4"), str(tmp_path / "out.mp4"), "-p", "mlvp/fog", "-s", "3") == 1
    assert f"perturb: {tmp_path / 'no.mp4'}: no such file\n" == capsys.readouterr().err


def test_preview_draws_a_row_a_perturbation_and_a_column_a_severity(tmp_path: Path) -> None:
    source = clips.write_scene(tmp_path / "in.mp4", scene(5, 48, 64))
    sizes = []
    for names in (["mlvp/snow"], ["mlvp/snow", "mlvp/fog"]):
        sheet = tmp_path / "sheet.png"
        assert run("preview", str(source), "-o", str(sheet), "-p", *names, "-s", "1", "5") == 0
        sizes.append(cv2.imread(str(sheet)).shape)
    assert sizes[1][0] > sizes[0][0]
    assert sizes[1][1] == sizes[0][1]


def test_preview_of_a_video_needs_nothing_but_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = clips.write_scene(tmp_path / "in.mp4", scene(130, 48, 64))
    monkeypatch.chdir(tmp_path)
    assert run("preview", str(source)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "made by stand-ins of models, not comparable with published results: mlvp/main_object_occlusion, "
        "mlvp/style_transfer",
        "left out, because they need several frames, or frames of other videos (--donors): mlvp/event_insertion",
        "in.preview.jpg",
    ]
    assert cv2.imread("in.preview.jpg").shape[0] > 11 * 120
    assert run("preview", str(source), "-p", "temporal_scrambling", "-s", "1") == 0  # of one suite


@pytest.mark.parametrize(
    ("name", "severities", "ending"),
    [
        ("mlvp/fog", [1, 5], ".webp"),
        ("mlvp/temporal_scrambling", None, ".mp4"),
        ("mlvp/h264_compression", [5], ".webp"),
    ],
)
def test_an_animation_has_the_clean_clip_and_each_severity_side_by_side(
    name: str, severities: list[int] | None, ending: str, tmp_path: Path
) -> None:
    from PIL import Image

    source = clips.write_scene(tmp_path / "in.mp4", scene(20, 48, 65))
    output = tmp_path / f"new/film{ending}"
    chosen = ["-s", *map(str, severities)] if severities else []
    assert run("preview", str(source), "--animate", name, "-o", str(output), *chosen) == 0
    if ending == ".mp4":
        about = probing.probe(output)
        assert (about.codec, about.pix_fmt) == ("h264", "yuv420p"), "what slides play"
        frames = [frame.image for frame in decoding.decode(MediaClip(output))]
    else:
        with Image.open(output) as film:
            assert film.info["loop"] == 0
            frames = []
            for place in range(film.n_frames):
                film.seek(place)
                frames.append(np.asarray(film.convert("RGB")))
    assert len(frames) == 16
    assert frames[0].shape[1] >= (1 + len(severities or range(5))) * 65
    changes = np.abs(np.diff(np.asarray(frames, np.int16), axis=0)).max(axis=(0, 3))
    assert changes[:30].max() < 60 < changes[40:].max(), "the clips move, and the words above them do not"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--animate"],
            "--animate shows one perturbation, not 0: perturb preview "
            + shlex.quote("it's in.mp4")
            + " --animate mlvp/fog",
        ),
        (["--animate", "mlvp/fog", "-o", "it's in.mp4"], "the output it's in.mp4 is the input itself"),
        (["-p", "mlvp/fog", "-o", "it's in.mp4"], "the output it's in.mp4 is the input itself"),
        (["-o", "sheet.gif"], "its name must end in .png"),
        (["-p", "mm_robustness/ocr"], "mm_robustness/ocr perturbs captions, not videos"),
        (["-p", "fog"], "fog is a perturbation of several suites: mlvp/fog, mm_robustness/fog"),
        (["-p", "fogg"], "no perturbation 'fogg'; did you mean mlvp/fog or mm_robustness/fog?"),
        (["-p", "mlpv"], "no perturbation 'mlpv'; did you mean mlvp?"),
        (["-p", "mlvp/snow", "--animate", "mlvp/fog"], "--animate shows one perturbation, not 2"),
        (["--animate", "mlvp"], "no perturbation 'mlvp': it is a suite"),
        (["--animate", "mlvp/fgo"], "did you mean mlvp/fog"),
        (["--animate", "mlvp/fog", "-s", "9"], "mlvp/fog has no severity 9"),
        (["--animate", "mlvp/event_insertion"], "takes frames of other videos: name some by --donors"),
        (["--animate", "mlvp/fog", "-o", "x.gif"], "must end in .webp or .mp4"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "it's in.mp4"
    clips.write_scene(tmp_path / name, scene(3, 48, 64))
    assert run("preview", name, *words) == 1
    assert says in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_picture_says_what_it_shows() -> None:
    from perturbations import __version__
    from perturbations.pages import preview_sheet

    title = preview_sheet.title_of("a", ["mlvp", "mlvp"], 7, has_stand_ins=True)
    assert title == f"a: mlvp, seed 7, perturbations {__version__}; stand-in: not made by the published model"


def test_a_sheet_shows_the_frames_of_the_corpus_though_less_is_encoded(tmp_path: Path) -> None:
    from perturbations.corpus.render import rendering
    from perturbations.corpus.render.clean_clips import source_of
    from perturbations.pages import preview_sheet

    row = clips.source_row(clips.write_scene(tmp_path / "in.mp4", scene(130, 48, 64)))
    for key in ("mlvp/h264_compression", "mlvp/gaussian_noise"):
        entry = suite_registry.get(key)
        clean, shown = preview_sheet.images_of(entry, source_of(row), [], [3], 0)
        whole = recipe.make(entry, 3, seed=0, storage=tiers.UNSTORED)
        planned = rendering.planned_clip(whole, source_of(row))
        (frame,) = planned.frames(only={30})
        assert np.array_equal(frame.image, shown), key
        assert not np.array_equal(clean, shown), key


def test_verify_knows_the_files_of_ids_with_two_dots(tmp_path: Path) -> None:
    """`a..b` is a file name, and no way out of the folder; a reader of the finding would delete the file."""
    folder = tmp_path / "corpora/d/mlvp/fog/3"
    folder.mkdir(parents=True)
    rows = []
    wanted = recipe.make(suite_registry.get("mlvp/fog"), 3, seed=0, storage=tiers.stored_video("lossless"))
    for item_id in ("a..b", "wait..."):
        path = folder / f"{storage.file_stem(item_id)}.mp4"
        path.touch()
        rows.append(clips.video_row(wanted, dataset="d", item_id=item_id, path=str(path.relative_to(tmp_path))))
    rows.append(
        clips.video_row(wanted, dataset="d", item_id="out", path=f"corpora/../{folder.relative_to(tmp_path)}/out.mp4")
    )
    (folder / "out.mp4").touch()
    manifest = tmp_path / "manifests/d/mlvp/videos.parquet"
    files.write(manifest, VIDEOS, rows, {"root": "../../.."})
    findings = verification.check_manifest(manifest).findings
    assert [Path(finding["file"]).name for finding in findings if "no row names" in finding["problem"]] == ["out.mp4"]


def test_verify_names_the_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = recipe.make(suite_registry.get("mlvp/fog"), 3, seed=0, storage=tiers.stored_video("lossless"))
    manifest = tmp_path / "manifests/d/mlvp/videos.parquet"
    row = clips.video_row(wanted, item_id="a", path="corpora/d/mlvp/fog/3/a.mp4")
    files.write(manifest, VIDEOS, [row], {"root": "../../.."})
    assert run("verify", str(manifest)) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("`perturb verify --delete`")


ARRAYS = {"numpy", "cv2"}
HEAVY = {"av", "pandas", "pyarrow", "scipy"}
MODELS = {"torch", "transformers", "textblob", "nltk", "tokenizers", "spacy", "ultralytics", "huggingface_hub"}
PLANNING = (
    "from perturbations.config import sections; from perturbations.corpus.plan import folders, recipe, sharding;"
    "from perturbations.corpus.plan import targets; from perturbations.base import features;"
    "from perturbations.suites import suite_registry as registry;"
)
LOOK_UPS = (
    "from perturbations.models import role_registry as models;"
    "from perturbations.suites import suite_registry as registry;"
    "from perturbations.models import checkpoints; from perturbations.exports import export_registry as exports;"
    "models.models(), models.roles(), registry.perturbations(), exports.exports()"
)
CAPTION = "import perturbations; perturbations.perturb_text('a man', 'mm_robustness/ocr', seed=0, item_id='c')"
BACKBONES = "from perturbations.evaluation import backbones; backbones.backbones()"


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import contextlib\nwith contextlib.suppress(SystemExit): main(['--help'])", ARRAYS | HEAVY | MODELS),
        ("main(['list']), main(['list', 'mlvp/fog'])", HEAVY | MODELS),
        (f"{PLANNING} features.sections(), registry.suites()", HEAVY | MODELS),
        (LOOK_UPS, HEAVY | MODELS | {"pydantic", "snakemake"}),
        (CAPTION, MODELS),
        ("import perturbations.retrieval", {"torch", "pandas", "cv2"}),
        ("from perturbations.evaluation.plan import planned_runs", HEAVY | MODELS),
        (BACKBONES, ARRAYS | HEAVY | MODELS),
        ("from perturbations.demo import film; film.items(9)", HEAVY | MODELS),
    ],
)
def test_what_starts_often_or_needs_no_model_imports_nothing_heavy(program: str, heavy: set[str]) -> None:
    imports = "import sys; from perturbations.cli.main import main" if "main(" in program else "import sys"
    ending = f"assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    command = [sys.executable, "-c", "\n".join((imports, program, ending))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_perturbations_has_its_public_names() -> None:
    import perturbations

    assert set(perturbations.__all__) >= {"names", "perturb", "read_manifest", "open_clip"}
    assert perturbations.names("mlvp") == [entry.key for entry in suite_registry.perturbations("mlvp", "video")]
    assert isinstance(
        perturbations.perturb(np.zeros((1, 4, 4, 3), np.uint8), "mlvp/fog", 1, seed=0, item_id="", fps=1), np.ndarray
    )
