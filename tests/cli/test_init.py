"""`perturb init`: the configuration of one's own videos."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import clips
import cv2
import pandas as pd
import pytest
import yaml
from annotation_files import videodatainfo
from copies import ROOT

from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.config.sections import Config
from perturbations.corpus.plan import clip_lists, items, sharding, video_files
from perturbations.manifest import manifest_paths
from perturbations.manifest.rows import SourceRow

Capture = pytest.CaptureFixture[str]
OWN = ("--videos", "clips", "--captions")


@pytest.fixture(autouse=True)
def _in_a_folder_with_clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("clips").mkdir()


def make_clips(*names: str) -> None:
    for name in names:
        clips.written(Path("clip.mp4"), clips.noise(3)).rename(Path("clips", name))


def configured(folder: str) -> Config:
    """What was written, in the folder where it is used."""
    os.chdir(folder)
    return config_file.parse(yaml.safe_load(Path("config.yaml").read_text()))


def rejected(config: Config, dataset: str) -> list[SourceRow]:
    """The items that planning has found to be unusable."""
    return list(clip_lists.read(config.at(manifest_paths.at("rejected", dataset=dataset)), SourceRow))


def test_init_writes_a_commented_configuration_that_is_valid(tmp_path: Path) -> None:
    folder = tmp_path / "Ünïcode 'quo\"ted'"
    assert main(["init", str(folder)]) == 0
    text = (folder / "config.yaml").read_text()
    assert sum("#" in line for line in text.splitlines()) > 20
    assert "workflow/" not in text, "there is no such folder"
    assert yaml.safe_load(text) == yaml.safe_load((ROOT / "config.yaml").read_text())
    config_file.parse(yaml.safe_load(text))
    names = {path.parent.name for path in (ROOT / "workflow" / "profiles").glob("*/config.yaml")}
    assert {path.parent.name for path in (folder / "profiles").glob("*/config.yaml")} == names


@pytest.mark.parametrize("name", ["it's #1 & $HOME", "-rf", "影片 🦜", "~", "."])
def test_init_ends_with_the_command_that_comes_next(name: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["init", "--", name]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    command = last.removeprefix("Now: ").removesuffix("snakemake --cores 2")
    done = subprocess.run(["sh", "-c", f"{command} pwd"], capture_output=True, text=True, check=True)
    assert Path(done.stdout.removesuffix("\n")) == tmp_path / name


@pytest.mark.parametrize("name", ["Snakefile", "config.yaml", "profiles/slurm/config.yaml"])
@pytest.mark.parametrize("is_dangling", [False, True])
def test_init_overwrites_nothing(name: str, is_dangling: bool, tmp_path: Path, capsys: Capture) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    if is_dangling:
        Path(name).symlink_to(tmp_path / "elsewhere")
    else:
        Path(name).write_text("mine")
    assert main(["init", str(tmp_path)]) == 1
    assert str(tmp_path / name) in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == [tmp_path / name]
    assert is_dangling or Path(name).read_text() == "mine"


def test_init_keeps_files_and_refuses_folders_without_runs(tmp_path: Path, capsys: Capture) -> None:
    Path("file").touch()
    for name, problem in (("file", "is a file"), ("{dataset}", "wildcards")):
        assert main(["init", str(tmp_path / name)]) == 1
        assert problem in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clips", "file"]
    assert main(["init", str(tmp_path)]) == 0
    assert Path("clips").is_dir()


def test_init_configures_one_s_own_videos_whatever_case_their_endings_have(capsys: Capture) -> None:
    make_clips("one.MP4", "two 'q'.mOv", "cut.mp4", "extra.mp4")
    whole = Path("clips/cut.mp4").read_bytes()
    Path("clips/cut.mp4").write_bytes(whole[: len(whole) // 2])
    Path("clips/folder.mp4").mkdir()
    Path("clips/link.mp4").symlink_to("nowhere")
    Path("x.csv").write_text("id,sentence\none,a man\none,a person\ntwo 'q',a dog\ncut,a cat\ngone,a cow\n")
    assert main(["init", "My Study", *OWN, "x.csv"]) == 0
    output = capsys.readouterr().out
    for text in (
        *("2 clips with 3 captions", "2 left out", "'gone': missing", "'cut': clips/cut.mp4: the file ends early"),
        *("left out: 'extra.mp4'", "storage: high", "snakemake --cores 2 mlvp_my_study"),
        "perturb preview clips/one.MP4",
        *("perturb encode manifests/my_study/sources.parquet", "perturb score features/clips"),
    ):
        assert text in output, output
    assert "evaluate_" not in output, "without a model, it trains a toy"
    assert "folder.mp4" not in output, "it is no video without a caption"
    assert "link.mp4" not in output
    config = configured("My Study")
    assert sharding.plan_clips(config, "my_study").listed == 4
    assert config.max_failed_items_of("my_study") == 2


SPANS = {"start_s": "start_s", "end_s": "end_s"}
PARTS = {"item_id": "id", "video": "video_id", "caption": "text", "start_s": "Start Time", "end_s": "END"}
TABLE = pd.DataFrame({"video_id": ["one", "one"], "image": ["one", "one"], "sentence": ["a man", "a dog"]})


def test_init_finds_ids_captions_and_clips_by_their_usual_names(capsys: Capture) -> None:
    """In every format, with every ending that a clip may have, and with or without it in the table."""
    make_clips("one.mp4", "extra.mp4")
    for ending, codec in (("ts", "mpeg2video"), ("gif", "gif"), ("mkv", "libx264")):
        clips.make(Path(f"clips/a_{ending}.{ending}"), "-c:v", codec)
    TABLE[["video_id", "sentence"]].to_json("a.json", orient="records")
    TABLE[["video_id", "sentence"]].to_json("a.jsonl", orient="records", lines=True)
    TABLE[["video_id", "sentence"]].to_parquet("a.parquet")
    TABLE[["image", "sentence"]].to_csv("a.csv", index=False)
    Path("b.csv").write_text("video,text\none,a man\nextra.mp4,a dog\n")
    Path("c.csv").write_text("file,text\na_ts,a dog\na_gif.gif,a cat\na_mkv,a cow\n")
    counts = {"b.csv": "2 clips with 2 captions", "c.csv": "3 clips with 3 captions"}
    for name in ("a.json", "a.jsonl", "a.parquet", "a.csv", *counts):
        assert main(["init", name.replace(".", "_"), *OWN, name]) == 0
        assert counts.get(name, "1 clip with 2 captions") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        ("id,video_id,caption\n1,3,x\n2,3,y\n3,1,z\n", {"item_id": "video_id"}, "3 clips with 3|2 clips with 3"),
        ("video_id,id,caption\n3,a,x\n3,b,y\n", {"item_id": "video_id"}, "kept with each clip: 'id'"),
        ("video_id,id,caption\nyt7,3,x\nyt8,1,y\n", {"item_id": "id"}, "kept with each clip: 'video_id'"),
        ("id,file,caption\n1,1.mp4,x\n2,1.mp4,y\n3,3.mp4,z\n", {"item_id": "file"}, "2 clips with 3"),
        ("id,file,caption\n1,3.mp4,x\n2,1.mp4,y\n", {"item_id": "id", "video": "file"}, "2 clips with 2"),
        ("item_id,video,start_s,end_s,caption\na,1.mp4,0,1,x\nb,1.mp4,1,2,y\n", SPANS | {"video": "video"}, "2 clips"),
        ("id,video_id,Start Time,END,text\n7,1,0,1,x\n8,1,1,2,y\n", PARTS, "start_s is 'Start Time'"),
        ("file,name\n1.mp4,run\n2.mp4,run\n3,jump\n", {"item_id": "file"}, "3 clips with no captions"),
        ("id,path,label\n7,1,run\n7,2.mp4,run\n8,3,jump\n", {"item_id": "path"}, "each clip: 'id', 'label'"),
        ("video_id,start_s,caption\n1,1,x\n3,0,y\n", {"item_id": "video_id", "start_s": "start_s"}, "2 clips"),
    ],
)
def test_init_chooses_columns_by_what_they_hold_and_says_which(
    table: str, columns: dict[str, str], message: str, capsys: Capture
) -> None:
    """A column of row numbers or classes is none of ids, though the videos are called by numbers, too."""
    make_clips("1.mp4", "2.mp4", "3.mp4")
    Path("x.csv").write_text(table)
    assert main(["init", "mine", *OWN, "x.csv"]) == 0
    output = capsys.readouterr().out
    assert re.search(message, output), output
    assert "columns: item_id is " in output
    assert yaml.safe_load(Path("mine/config.yaml").read_text())["datasets"]["mine"]["columns"] == columns


def test_init_reads_captions_below_ids_and_msrvtts_own_form(tmp_path: Path, capsys: Capture) -> None:
    make_clips("video0.mp4", "video1.mp4")
    for name, content in (
        ("ids", {"video0": ["a", "b"], "video1": "c"}),
        ("objects", {"video0": {"sentence": ["a", "b"]}, "video1": {"sentence": "c"}}),
        ("official", videodatainfo("test", "test")),
    ):
        Path("x.json").write_text(json.dumps(content))
        assert main(["init", name, *OWN, "x.json"]) == 0
        number = 4 if name == "official" else 3
        assert f"2 clips with {number} captions" in capsys.readouterr().out
        config = configured(name)
        assert sharding.plan_clips(config, name).listed == 2
        os.chdir(tmp_path)


def test_init_says_where_the_clips_are_and_which_columns_it_took(capsys: Capture) -> None:
    Path("clips/a").mkdir()
    make_clips("one.mp4")
    Path("clips/one.mp4").rename("clips/a/one.mp4")
    Path("x.csv").write_text("id,video_id,caption\n1,one,x\n")
    assert main(["init", "mine", *OWN, "x.csv"]) == 1
    error = capsys.readouterr().err
    assert "clips/a holds some of them" in error
    assert "item_id is 'video_id'" in error
    assert "kept with each clip: 'id'" in error


def test_what_init_configures_starts_though_captions_are_empty(capsys: Capture) -> None:
    make_clips("a.mp4")
    Path("x.csv").write_text("item_id,caption\na,a dog\na,\na,a cat\n")
    assert main(["init", "mine", *OWN, "x.csv"]) == 0
    output = capsys.readouterr().out
    assert "1 clip with 2 captions" in output
    assert "'a': the caption 'a#1' is empty, null or NaN (x.csv, line 3)" in output
    os.chdir("mine")
    assert main(["check", "text_mm_robustness_mine"]) == 0


@pytest.mark.parametrize("folder", ["study", "logs", "split", "Größe 2"])
def test_clips_without_captions_have_a_project(folder: str) -> None:
    for name in ("a b.mp4", "c'd,.mp4", "é.mp4"):
        make_clips(name)
    assert main(["init", folder, "--videos", "clips"]) == 0
    os.chdir(folder)
    config = config_file.read_config([Path("config.yaml")], ["all"])
    (name,) = config.datasets
    assert name == {"study": "study", "Größe 2": "groe_2"}.get(folder, "mine")
    plan = sharding.plan_clips(config, name)
    assert (plan.listed, plan.captions, plan.rejected_captions) == (3, 0, 0)
    assert rejected(config, name) == []


def test_clips_in_folders_and_a_table_of_labels_have_projects(tmp_path: Path, capsys: Capture) -> None:
    for name in ("run", "jump"):
        Path("clips", name).mkdir()
        make_clips(f"{name}/a.mp4")
    assert main(["init", "folders", "--videos", "clips"]) == 0
    assert "kept with each clip: 'folder'" in capsys.readouterr().out
    assert Path("folders/clips.csv").read_text() == "item_id,folder\njump/a,jump\nrun/a,run\n"
    Path("x.csv").write_text("video,label,width,split\nrun/a.mp4,run,3,val\njump/a,jump,,val\n")
    assert main(["init", "labels", *OWN, "x.csv"]) == 0
    output = capsys.readouterr().out
    assert "2 clips with no captions" in output
    assert "kept with each clip: 'label', 'width' as 'own_width', 'split'" in output
    assert "perturb encode" not in output, "retrieval needs captions"
    for name in ("folders", "labels"):
        config = configured(name)
        plan = sharding.plan_clips(config, name)
        assert (plan.listed, plan.rejected_captions) == (2, 0)
        assert rejected(config, name) == []
        os.chdir(tmp_path)


def test_each_file_has_an_id_that_names_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"a": "a.mp4", "a.mp4.mkv": "a.mp4.mkv", "b.avi.mp4": "b.avi.mp4", "c.mov": "c.mov", "c.mp4": "c.mp4"}
    make_clips(*names.values())
    scratch = Path("scratch: it's # much longer than a line of YAML, which would be folded there " + "x" * 60)
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch.absolute()))
    assert main(["init", "study", "--videos", "clips"]) == 0
    dataset = configured("study").datasets["study"]
    located, missing = video_files.locate(dataset, items.read("study", dataset))
    assert {clip.item_id: Path(clip.path).name for clip in located} == names
    assert not missing


def test_a_name_that_is_no_text_is_named(capsys: Capture) -> None:
    make_clips("a.mp4")
    Path("clips/a.mp4").rename(os.fsdecode(b"clips/\xff.mp4"))
    assert main(["init", "study", "--videos", "clips"]) == 1
    assert r"clips: the name '\udcff.mp4' is not UTF-8: rename the file" in capsys.readouterr().err


@pytest.mark.parametrize("pictures", [False, True])
def test_init_reads_lists_of_captions_and_splits_as_keys(pictures: bool, tmp_path: Path, capsys: Capture) -> None:
    for name in ("a", "b"):
        if pictures:
            cv2.imwrite(f"clips/{name}.png", clips.noise(1)[0])
        else:
            make_clips(f"{name}.mp4")
    rows: list[dict[str, Any]] = [{"id": "a", "caption": ["a man", "a dog"]}, {"id": "b", "caption": "a cat"}]
    options = ["--pictures" if pictures else "--videos", "clips", "--captions", "x.json"]
    for name, content, message in (
        ("mixed", rows, "with 3 captions"),
        ("parts", {"train": rows[1:], "test": rows[:1]}, "split: test, not train"),
        ("other", {"val": rows}, "split: val"),
    ):
        Path("x.json").write_text(json.dumps(content))
        assert main(["init", name, *options]) == 0
        assert message in capsys.readouterr().out
        config = configured(name)
        assert config.datasets[name].max_failed_items is None
        assert sharding.plan_clips(config, name).listed == (1 if name == "parts" else 2)
        os.chdir(tmp_path)
    Path("x.json").write_text(json.dumps({"train": rows, "val": rows}))
    assert main(["init", "none", *options]) == 1
    assert "entries below 'train', 'val', none below 'test': the dataset's `split` says" in capsys.readouterr().err


def test_what_does_not_follow_the_format_is_not_allowed_by_init(capsys: Capture) -> None:
    make_clips("a.mp4", "b.mp4")
    rows = [{"id": "a", "caption": "a man"}, {"id": "b", "caption": {"en": "a dog"}}, {"id": "gone", "caption": "x"}]
    Path("x.json").write_text(json.dumps(rows))
    assert main(["init", "mine", *OWN, "x.json"]) == 0
    output = capsys.readouterr().out
    assert "1 left out, and max_failed_items in config.yaml is set to their number:\n  'gone'" in output
    assert "1 that do not follow the format" in output
    assert "'b': 'caption' must be text, not a dict (x.json, entry 1)" in output
    assert configured("mine").datasets["mine"].max_failed_items == 1
    assert main(["check", "mlvp_mine"]) == 1


def test_init_proposes_no_command_that_takes_a_name_for_an_option(capsys: Capture) -> None:
    clips.written(Path("clip.mp4"), clips.noise(3)).rename("-0aB.mp4")
    Path("x.csv").write_text("item_id,caption\n-0aB,a man\n")
    assert main(["init", "mine", "--videos", ".", "--captions", "x.csv"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "perturb preview" in line)
    assert line.endswith(" perturb preview ./-0aB.mp4")


@pytest.mark.parametrize(
    ("videos", "captions", "text", "problem"),
    [
        ("none", "", "", "none: no such directory"),
        ("clips", "", "", "clips holds no video"),
        ("x.csv", "clips", "", "clips is a directory, and x.csv a file: exchange them"),
        ("clips", "x.csv", "id,words\none,a man\n", "no captions: no column is called caption, text"),
        ("clips", "x.csv", "id,text\none,a man\n", "no item of x.csv can be used"),
        ("none", "x.csv", "id,text\none,a man\n", "none: no such directory"),
        ("clips/*.mp4", "x.csv", "id,text\none,a man\n", "name the folder that holds the files: clips"),
        ("no$such", "x.csv", "id,text\none,a man\n", "no$such: no such directory"),
        ("~", "x.csv", "id,text\none,a man\n", "perturb: ~: no such directory"),
        ("x.csv", "x.csv", "id,text\none,a man\n", "no such directory; it is a file"),
        ("clips", "x.csv", "video_id,start,text\na,0,x\na,5,y\n", "Add a column item_id, and call 'video_id' video"),
        ("clips", "x.csv", "", "is empty"),
        ("clips", "x.csv", "id;text\none;a man\n", "in which ';' separates the fields"),
        ("clips", "y.parquet", "id", "y.parquet: no such file"),
        ("clips", "x.csv", "id,label,label\na,1,2\n", "x.csv has the column 'label' twice: rename one"),
        ("clips", "x.csv", "id,label\na,1,2\n", "3 fields, where the header has 2"),
    ],
)
def test_init_writes_nothing_where_no_clip_can_be_used(
    videos: str, captions: str, text: str, problem: str, capsys: Capture
) -> None:
    Path("x.csv").write_text(text)
    assert main(["init", "study", f"--videos={videos}", *(["--captions", captions] if captions else [])]) == 1
    assert problem in capsys.readouterr().err
    assert not Path("study").exists()
