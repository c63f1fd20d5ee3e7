"""Sets of questions: their formats, what is wrong with rows, and the clips that they are about."""

import csv
import json

import asked_scenes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perturbations.base.errors import AnnotationError
from perturbations.cli.main import main
from perturbations.corpus.jobs import caption_jobs
from perturbations.corpus.plan import clip_lists, items, video_files
from perturbations.datasets.adapter_registry import Dataset, adapters
from perturbations.manifest import files
from perturbations.manifest.rows import QUESTIONS

ROW = {"question_id": "q", "video": "v.mp4", "question": "Which?", "a": "red", "b": "blue", "c": "green", "answer": "B"}


def listing(folder, adapter, annotations, **keys):
    videos = folder / "videos"
    videos.mkdir(exist_ok=True)
    settings = adapters()[adapter].settings
    dataset = settings(adapter=adapter, annotations=annotations, videos=videos, **keys)
    return items.read("set", dataset)


def own(folder, rows, name="questions.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return listing(folder, "questions", path)


def with_options(row):
    return {**{key: row[key] for key in row if key not in "abcdefgh"}, "options": [row[key] for key in "abcd"]}


@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_a_table_of_any_kind_gives_the_same_questions(tmp_path, kind):
    rows = [{**row, "note": "kept"} for row in asked_scenes.questions(4)]
    path = tmp_path / f"questions.{kind}"
    if kind in ("csv", "tsv"):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], delimiter="\t" if kind == "tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist([with_options(row) for row in rows]), path)
    elif kind == "json":
        path.write_text(json.dumps([with_options(row) for row in rows]))
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    entries = listing(tmp_path, "questions", path)
    assert not entries.rejected
    assert [item.item_id for item in entries.items] == ["demo-0000", "demo-0001", "demo-0002", "demo-0003"]
    assert [row.question_id for row in entries.questions] == [row["question_id"] for row in rows]
    for row, question in zip(rows, entries.questions, strict=True):
        assert question.options == [row[letter] for letter in "abcd"]
        assert "ABCD"[question.answer] == row["answer"]
        assert (question.category, question.others) == (row["category"], '{"note":"kept"}')
    assert [row.source_index for row in entries.questions] == list(range(12))


def test_mvbench(tmp_path):
    folder = tmp_path / "json"
    folder.mkdir()
    sequence = [
        {"video": "A.mp4", "question": "What first?", "candidates": ["He sat.", "He ran."], "answer": "He ran.",
         "start": 1.5, "end": 9},
        {"video": "A.mp4", "question": "What first?", "candidates": ["He ate.", "He hid."], "answer": "He ate.",
         "start": 10.0, "end": 12.25},
    ]  # fmt: skip
    count = [{"video": "v_1.mp4", "question": "How often?", "candidates": ["3", "2", "4"], "answer": "3"}]
    (folder / "action_sequence.json").write_text(json.dumps(sequence))
    (folder / "action_count.json").write_text(json.dumps(count))
    (folder / "notes.json").write_text("{}")
    entries = listing(tmp_path, "mvbench", folder)
    spans = {item.item_id: (item.start_s, item.end_s) for item in entries.items}
    assert spans == {
        "perception/videos/v_1": (None, None),
        "star/Charades_v1_480/A_1.5_9": (1.5, 9.0),
        "star/Charades_v1_480/A_10_12.25": (10.0, 12.25),
    }
    assert [(row.question_id, row.answer, row.category) for row in entries.questions] == [
        ("action_count_0", 0, "action_count"),
        ("action_sequence_0", 1, "action_sequence"),
        ("action_sequence_1", 0, "action_sequence"),
    ]
    assert {row.cluster for row in entries.questions if row.category == "action_sequence"} == {"star/Charades_v1_480/A"}

    (tmp_path / "videos/star/Charades_segment").mkdir(parents=True)  # cut before: not cut again
    whole = listing(tmp_path, "mvbench", folder / "action_sequence.json")
    assert {(item.item_id, item.start_s) for item in whole.items} == {("star/Charades_segment/A", None)}

    together = {"meta": {"action_count": count}, "root": {"action_count": "elsewhere/videos/"}}
    (folder / "test.json").write_text(json.dumps(together))
    (item,) = listing(tmp_path, "mvbench", folder / "test.json").items
    assert item.files == ("elsewhere/videos/v_1.mp4",)


def test_video_mme(tmp_path):
    path = tmp_path / "test.parquet"
    row = {
        "video_id": "001", "duration": "short", "domain": "Knowledge", "sub_category": "Law", "url": "",
        "videoID": "fFjv93ACGo8", "question_id": "001-1", "task_type": "Counting Problem",
        "question": "How many?", "options": ["A. Five.", "B. Six.", "C. A. few.", "D. None."], "answer": "C",
    }  # fmt: skip
    pq.write_table(pa.Table.from_pylist([row, {**row, "question_id": "001-2", "answer": "E"}]), path)
    entries = listing(tmp_path, "video_mme", path)
    (question,) = entries.questions
    assert question.options == ["Five.", "Six.", "A. few.", "None."]
    assert (question.answer, question.cluster, question.category) == (2, "fFjv93ACGo8", "short")
    assert "row 1" in entries.rejected[0].reason


def test_perception_test_videos_are_cut_before_the_listed_frame(tmp_path):
    path, cuts = tmp_path / "mc_question_valid.json", tmp_path / "cut_frame_mapping_valid.json"
    question = {
        "id": 1, "question": "Where?", "options": ["left", "right", "there"], "answer_id": 2,
        "area": "Physics", "reasoning": "Predictive", "tag": ["motion"],
    }  # fmt: skip
    about = {"frame_rate": 29.97, "num_frames": 1000}
    videos = {name: {"metadata": about, "mc_question": [question]} for name in ("video_1", "video_2", "video_3")}
    videos["video_3"]["mc_question"] = [{**question, "options": ["left"]}]
    path.write_text(json.dumps(videos))
    cuts.write_text(json.dumps({"video_1": 900, "video_2": -1}))
    entries = listing(tmp_path, "perception_test", path, cut_frame_mapping=cuts)
    first, second = entries.items
    # Frame 899 stays and frame 900 goes, whether the file's rate is 29.97 or 30000/1001.
    for rate in (29.97, 30000 / 1001):
        assert 899 / rate < first.end_s < 900 / rate
    assert (first.item_id, first.start_s) == ("video_1_0_30.0133", None)
    assert (second.item_id, second.end_s) == ("video_2", None)
    assert [row.question_id for row in entries.questions] == ["video_1_1", "video_2_1"]
    assert "video_3.mc_question[0]" in entries.rejected[0].reason


@pytest.mark.parametrize("frame", [float("nan"), float("inf"), 10**400, "900"])
def test_a_video_of_perception_test_is_not_taken_whole_where_its_cut_is_no_number(tmp_path, frame):
    path, cuts = tmp_path / "mc_question_valid.json", tmp_path / "cut_frame_mapping_valid.json"
    question = {"id": 1, "question": "Where?", "options": ["left", "right"], "answer_id": 1}
    question |= {"area": "", "reasoning": ""}
    videos = {name: {"metadata": {"frame_rate": 30}, "mc_question": [question]} for name in ("cut", "whole", "empty")}
    videos["empty"]["mc_question"] = ""
    path.write_text(json.dumps(videos))
    cuts.write_text(json.dumps({"cut": frame}))
    entries = listing(tmp_path, "perception_test", path, cut_frame_mapping=cuts)
    assert [item.item_id for item in entries.items] == ["whole"]
    assert [entry.item_id for entry in entries.rejected] == ["cut", "empty"]


@pytest.mark.parametrize(
    ("changed", "answer"),
    [
        ({"answer": "B"}, 1),
        ({"answer": "(b)"}, 1),
        ({"answer": "blue"}, 1),
        ({"answer": "Blue"}, 1),
        ({"answer": 0}, 0),
        ({"answer": ["green"]}, 2),
        ({"answer": 2.0}, 2),
        ({"answer": "7", "a": 6, "b": 7, "c": 8}, 1),
        ({"answer": "B. 7", "a": "A. 6", "b": "B. 7", "c": "C. 8"}, 1),
    ],
)
def test_an_answer_is_a_letter_an_index_or_the_option(tmp_path, changed, answer):
    (row,) = own(tmp_path, [{**ROW, **changed}]).questions
    assert row.answer == answer


def test_answers_that_two_forms_read_follow_the_rest_of_the_table(tmp_path):
    numbers = {"a": "2", "b": "1", "c": "0"}
    unclear = {**ROW, **numbers, "answer": "1"}
    (lost,) = own(tmp_path, [{**unclear, "answer": "0"}]).rejected
    assert "the answer may be" in lost.reason
    as_texts = [{**ROW, "question_id": str(number), "answer": "blue"} for number in range(3)]
    assert own(tmp_path, [{**unclear, "answer": "2"}, *as_texts]).questions[0].answer == 0
    as_indices = [{**ROW, "question_id": str(number), "answer": "0"} for number in range(3)]
    assert own(tmp_path, [{**unclear, "answer": "2"}, *as_indices]).questions[0].answer == 2


def test_a_table_whose_answers_count_from_1_is_not_read_as_one_that_counts_from_0(tmp_path):
    rows = [{**ROW, "question_id": str(answer), "answer": answer} for answer in (1, 2, 3)]
    entries = own(tmp_path, rows)
    assert not entries.questions
    assert sum("from 1" in entry.reason for entry in entries.rejected) == 2


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"a": None, "b": None, "c": None}, "no options"),
        ({"b": ""}, "option B is empty"),
        ({"options": ["red"]}, "1 option"),
        ({"options": [str(number) for number in range(27)]}, "27 options"),
        ({"options": "red, blue"}, "no options"),
        ({"answer": "yellow"}, "none of its options"),
        ({"answer": "D"}, "beyond its 3 options"),
        ({"answer": "A, C"}, "several answers"),
        ({"answer": ["A", "C"]}, "2 answers"),
        ({"answer": ""}, "no answer"),
        ({"answer": None}, "no answer"),
        ({"c": "red", "answer": "red"}, "the text of 2 options"),
        ({"question": "  "}, "question must be a text"),
        ({"question_id": ""}, "id is empty"),
        ({"video": ""}, "video's name is empty"),
        ({"start_s": 5, "end_s": 2}, "not after its start"),
        ({"start_s": "soon"}, "not a number of seconds"),
        ({"video": "../v.mp4"}, "leaves"),
        ({"question": "Which? " * 20_000}, "letters"),
        ({"question": "\ud800"}, "lone surrogate"),
        ({"question_id": "\ud800"}, "lone surrogate"),
        ({"a": "\ud800"}, "lone surrogate"),
        ({"category": "\ud800"}, "lone surrogate"),
        ({"source": {"by": "\ud800"}}, "lone surrogate"),
    ],
)
def test_a_wrong_row_is_a_message_with_its_line_and_the_others_stay(tmp_path, changed, reason):
    entries = own(tmp_path, [{**ROW, "question_id": "before"}, {**ROW, **changed}, {**ROW, "question_id": "after"}])
    assert [row.question_id for row in entries.questions] == ["before", "after"]
    (lost,) = entries.rejected
    assert reason in lost.reason
    assert lost.reason.endswith("(questions.jsonl, line 2)")


def test_every_wrong_row_is_said_once_and_a_doubled_id_names_the_first(tmp_path):
    entries = own(tmp_path, [ROW, ROW, {**ROW, "question_id": "r", "answer": "Z"}])
    assert len(entries.questions) == 1
    assert [("first seen at line 1" in entry.reason, "line 3" in entry.reason) for entry in entries.rejected] == [
        (True, False),
        (False, True),
    ]


def test_a_column_that_is_missing_is_said_with_those_that_are_there(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text("question_id,video,question,answer\n1,v,Which?,A\n")
    with pytest.raises(AnnotationError, match="no column 'options'"):
        listing(tmp_path, "questions", path)
    path.write_text("id,video,question,a,b,answer\n1,v,Which?,x,y,A\n")
    with pytest.raises(AnnotationError, match="no column 'question_id'"):
        listing(tmp_path, "questions", path)


def test_spellings_of_one_video_are_one_clip(tmp_path, caplog):
    names = ["./K\u00e9.mp4", "Ke\u0301.mp4", "K\u00e9", "sub/../K\u00e9.MP4"]
    rows = [{**ROW, "question_id": str(number), "video": name} for number, name in enumerate(names)]
    entries = own(tmp_path, rows)
    (item,) = entries.items
    assert item.files == ("K\u00e9.mp4",)
    assert len(entries.questions) == 4
    assert "name one video" in caplog.text
    apart = [{**ROW, "question_id": name, "video": name} for name in ("v.mp4", "v.webm")]
    assert [item.files for item in own(tmp_path, apart).items] == [("v.mp4",), ("v.webm",)]


def test_texts_are_kept_as_they_are(tmp_path):
    text = "<b>Which</b>\nof the \u201ctwo\u201d? \u0414\u0430"
    (row,) = own(tmp_path, [{**ROW, "question": text, "a": "<script>"}]).questions
    assert (row.question, row.options[0]) == (text, "<script>")


def test_further_columns_hold_what_json_can(tmp_path):
    entries = own(tmp_path, [{**ROW, "length": float("inf"), "parts": {"a": float("nan"), "b": 1}}])
    assert not entries.rejected
    assert json.loads(entries.questions[0].others) == {"length": None, "parts": {"a": None, "b": 1}}


def test_questions_of_one_text_about_one_clip_are_one_caption(tmp_path):
    entries = own(
        tmp_path, [ROW, {**ROW, "question_id": "r", "a": "pink"}, {**ROW, "question_id": "s", "question": "Who?"}]
    )
    (item,) = entries.items
    assert item.texts == ("Which?", "Who?")
    assert len(entries.questions) == 3


def test_a_question_whose_clip_is_missing_or_damaged_is_kept(tmp_path):
    rows = [ROW, {**ROW, "question_id": "r", "video": "not_there.mp4"}]
    entries = own(tmp_path, rows)
    (tmp_path / "videos/v.mp4").write_bytes(b"damaged")
    located, missing = video_files.locate(Dataset(adapter="questions", videos=tmp_path / "videos"), entries)
    assert ([clip.item_id for clip in located], [entry.item_id for entry in missing]) == (["v"], ["not_there"])
    assert [row.item_id for row in entries.questions] == ["v", "not_there"]
    clip_lists.write(tmp_path / "questions.list", entries.questions)
    caption_jobs.questions(
        dataset="set", listed=tmp_path / "questions.list", output=tmp_path / "manifests/set/questions.parquet"
    )
    stored = files.read_rows(tmp_path / "manifests/set/questions.parquet", QUESTIONS)
    assert sorted(stored, key=lambda row: row.source_index) == list(entries.questions)


def test_init_starts_a_project_of_questions(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked_scenes.write(tmp_path, 2)
    assert main(["init", "study", "--videos", "clips", "--questions", "questions.csv"]) == 0
    said = capsys.readouterr().out
    assert "2 clips with 6 questions" in said
    assert "snakemake --cores 2 mlvp_study controls_study" in said
    text = (tmp_path / "study/config.yaml").read_text()
    assert "adapter: questions" in text
    assert main(["init", "other", "--questions", "questions.csv"]) == 1
    assert not (tmp_path / "other").exists()
