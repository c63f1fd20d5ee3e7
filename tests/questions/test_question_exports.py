"""Questions as tasks of other programs: what a cell holds, what a prompt shows, and where official tasks look."""

import csv
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import needs
import pandas as pd
import pytest
import small_corpus
from export_readers import Searcher, contents, export, loaded_tasks

from perturbations.base.errors import ManifestError, OutputError
from perturbations.cli.main import main
from perturbations.manifest import files
from perturbations.manifest.rows import CAPTIONS, QUESTIONS, SOURCES, TEXTS, VIDEOS, CaptionRow, QuestionRow
from perturbations.questions import harnesses
from perturbations.questions.answer_rows import ANSWER_RESULTS
from perturbations.questions.table import sha256_of

CELLS = ["clean", "fog_1", "gaussian_noise_1", "gaussian_noise_3"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus of odd names, with three questions about each clip, one of which has two lines and HTML."""
    root = small_corpus.make(tmp_path_factory.mktemp("a corpus"))
    ask(root, small_corpus.ITEMS)
    return root


def ask(root, items, **more):
    rows = [
        QuestionRow(
            question_id=f"q{number}-{part}", item_id=item, question=f"<b>Which</b>\nof {part}?",
            options=[f"no {part}", 'a "quoted"\ttext', "\u5f71"], answer=part, cluster=item,
            source_index=3 * number + part, category=more.get("category", "kind"),
        )
        for number, item in enumerate(items)
        for part in range(3)
    ]  # fmt: skip
    files.write(root / "manifests/data/questions.parquet", QUESTIONS, rows, {"dataset": "data", "root": "../.."})
    return rows


def copied(corpus, root):
    """The corpus with manifests of its own, which may be changed."""
    shutil.copytree(corpus / "manifests", root / "manifests")
    for other in corpus.iterdir():
        if other.name != "manifests":
            (root / other.name).symlink_to(other)
    return videos_of(root)


def videos_of(root):
    return root / "manifests/data/mlvp/videos.parquet"


def questions_of(root):
    return root / "manifests/data/questions.parquet"


def utils_of(folder):
    spec = importlib.util.spec_from_file_location("utils", folder / "utils.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def moved(corpus, tmp_path, monkeypatch):
    """An export for lmms-eval, moved to a folder with a space in its name."""
    library = SimpleNamespace(Dataset=SimpleNamespace(from_list=list))
    monkeypatch.setitem(sys.modules, "datasets", library)
    done = export("lmms_eval", videos_of(corpus), tmp_path / "tasks", clean=True)
    assert "questions written" in str(done)
    return (tmp_path / "tasks").rename(tmp_path / "moved here")


def test_a_task_per_cell_asks_every_question_whose_clip_is_there(moved, corpus):
    utils = utils_of(moved)
    complete = Counter(
        f"{row.perturbation}_{row.severity}"
        for row in files.read_rows(videos_of(corpus), VIDEOS)
        if row.status == "complete"
    )
    for cell in CELLS:
        task = (moved / f"data_mlvp_{cell}.yaml").read_text()
        assert f"process_docs: !function utils.docs_{cell}\n" in task
        docs = getattr(utils, f"docs_{cell}")(None)
        assert len(docs) == (3 * complete[cell] if cell != "clean" else len(docs))
        for doc in docs:
            (visual,) = utils.visuals(doc)
            assert Path(visual).is_file()
            assert Path(visual).is_relative_to(moved)
    group = (moved / "data_mlvp.yaml").read_text()
    assert group == f"group: data_mlvp\ntask: {json.dumps([f'data_mlvp_{cell}' for cell in CELLS])}\n"


def test_a_text_with_a_line_separator_is_one_line(moved):
    questions = moved / "questions.jsonl"
    lines = questions.read_text(encoding="utf-8").split("\n")
    first = {**json.loads(lines[0]), "question": "Which\u2028one?\x85"}
    questions.write_text("\n".join([json.dumps(first, ensure_ascii=False), *lines[1:]]), encoding="utf-8")
    docs = utils_of(moved).docs_clean(None)
    assert len(docs) == len(lines) - 1
    assert docs[0]["options"] == first["options"]


def test_neither_a_cell_nor_a_folder_reaches_the_prompt(moved):
    utils = utils_of(moved)
    prompts = {}
    for cell in CELLS:
        for doc in getattr(utils, f"docs_{cell}")(None):
            text = utils.text(doc, {"pre_prompt": cell})
            assert prompts.setdefault(doc["question_id"], text) == text
            assert not any(word in text for word in (*CELLS, "fog", "mlvp", "data", str(moved), doc["path"]))
            assert text.startswith(f"{doc['question']}\nA. {doc['options'][0]}\nB. ")


def test_a_record_says_what_was_asked_of_which_frames(moved, corpus):
    utils = utils_of(moved)
    rows = {row.item_id: row for row in files.read_rows(videos_of(corpus), VIDEOS) if row.perturbation == "fog"}
    sha256 = sha256_of(files.read_rows(questions_of(corpus), QUESTIONS))
    for doc in utils.docs_fog_1(None):
        record = utils.results(doc, [f"The answer is {utils.target(doc)}."])["accuracy"]
        assert (record["parsed_answer"], record["answer"], record["score"]) == (utils.target(doc), utils.target(doc), 1)
        assert (record["suite"], record["perturbation"], record["severity"], record["cell"]) == (
            "mlvp",
            "fog",
            1,
            "fog_1",
        )
        assert record["frames_sha256"] == rows[record["item_id"]].frames_sha256
        assert record["questions_sha256"] == sha256
        assert utils.results(doc, [""])["accuracy"]["score"] == 0
    assert utils.mean([{"score": 1.0}, {"score": 0.0}]) == 0.5


def test_an_export_has_the_same_bytes_in_another_folder(corpus, tmp_path):
    for name in ("tasks", "again"):
        export("lmms_eval", videos_of(corpus), tmp_path / name, clean=True)
    first, second = ({**contents(tmp_path / name), "README.md": ""} for name in ("tasks", "again"))
    assert first == second


def test_sixty_cells_make_sixty_tasks_of_one_file_of_questions(corpus, tmp_path):
    rows = [row for row in files.read_rows(videos_of(corpus), VIDEOS) if row.status == "complete" and row.severity == 1]
    two = [row for row in rows if row.perturbation == "fog"][:2]  # each clip is encoded sixty times
    many = [
        replace(row, perturbation=f"kind_{number}", severity=severity)
        for row in two
        for number in range(12)
        for severity in range(1, 6)
    ]
    manifest = copied(corpus, tmp_path)
    files.write(manifest, VIDEOS, many, files.read_metadata(videos_of(corpus)))
    ids = {row.item_id for row in many}
    asked = [row for row in files.read_rows(questions_of(corpus), QUESTIONS) if row.item_id in ids]
    files.write(tmp_path / "manifests/data/questions.parquet", QUESTIONS, asked)
    export("lmms_eval", manifest, tmp_path / "tasks")
    assert len(list((tmp_path / "tasks").glob("data_mlvp_kind_*.yaml"))) == 60
    lines = [json.loads(line) for line in (tmp_path / "tasks/questions.jsonl").read_text().splitlines()]
    assert len(lines) == len(asked) >= 2 == len({row.item_id for row in asked})
    assert all(len(line["cells"]) == 60 for line in lines)
    assert len({str(sorted(line["cells"]["kind_0_1"])) for line in lines}) == 1  # readers want lines that are alike


@pytest.mark.parametrize("form", ["lmms_eval", "vlmevalkit"])
def test_perturbed_questions_are_asked_about_clean_clips(corpus, tmp_path, form, monkeypatch):
    library = SimpleNamespace(Dataset=SimpleNamespace(from_list=list))
    monkeypatch.setitem(sys.modules, "datasets", library)
    copied(corpus, tmp_path)
    root = tmp_path / "manifests/data"
    (found,) = (path for path in root.rglob("*.parquet") if files.kind_of(path) == TEXTS)
    first, *_ = files.read_rows(root / "questions.parquet", QUESTIONS)
    (item, *_) = (row.item_id for row in files.read_rows(root / "sources.parquet", SOURCES) if row.status == "complete")
    files.write(root / "questions.parquet", QUESTIONS, [replace(first, item_id=item, question="Which one?")])
    (own, *_) = files.read_rows(found, TEXTS)
    changed = replace(own, item_id=item, source_text="Which one?", text="WHICH one?", caption_id="c", accepted=True)
    files.write(found, TEXTS, [changed], files.read_metadata(found))
    caption = CaptionRow(dataset="data", caption_id="c", item_id=item, text="Which one?")
    files.write(root / "captions.parquet", CAPTIONS, [caption], files.read_metadata(root / "captions.parquet"))
    export(form, found, tmp_path / "out", "captions", clean=True)
    cell = f"{changed.perturbation}_{changed.severity}"
    if form == "lmms_eval":
        utils = utils_of(tmp_path / "out")
        (doc,), (clean,) = getattr(utils, f"docs_{cell}")(None), utils.docs_clean(None)
        asked = doc["question"], clean["question"], doc["suite"], clean["suite"]
        assert (doc["options"], doc["path"]) == (clean["options"], clean["path"])
    else:
        tables = {path.stem.rpartition(changed.suite + "_text_")[2]: path for path in (tmp_path / "out").glob("*.tsv")}
        doc, clean = (next(csv.DictReader(tables[name].open(), delimiter="\t")) for name in (cell, "clean"))
        asked = doc["question"], clean["question"], doc["suite"], clean["suite"]
    assert asked == ("WHICH one?", "Which one?", changed.suite, "clean")


def test_a_dataset_without_questions_is_refused(tmp_path, corpus):
    root = tmp_path / "manifests/data/mlvp"
    root.mkdir(parents=True)
    shutil.copy(videos_of(corpus), root / "videos.parquet")
    with pytest.raises(ManifestError, match=r"no questions\.parquet"):
        export("lmms_eval", root / "videos.parquet", tmp_path / "out")


def test_vlmevalkit_has_a_dataset_per_cell_whose_columns_come_back(corpus, tmp_path):
    export("vlmevalkit", videos_of(corpus), tmp_path / "out", clean=True)
    configured = json.loads((tmp_path / "out/config.json").read_text())["data"]
    assert list(configured) == [f"data_mlvp_{cell}" for cell in CELLS]
    for name, about in configured.items():
        assert about == {"class": "PerturbedVideoMCQ", "dataset": name, "nframe": 16}
        rows = list(csv.DictReader((tmp_path / f"out/{name}.tsv").open(newline=""), delimiter="\t"))
        assert [int(row["index"]) for row in rows] == list(range(len(rows)))
        for row in rows:
            assert (tmp_path / "out" / row["video_path"]).is_file()
            assert row["question"].startswith("<b>Which</b>\nof ")
            assert row["dataset_name"] == name
    driver = (tmp_path / "out/ask.py").read_text()
    assert "perturbations" not in driver.replace("perturbations/", "")
    compile(driver, "ask.py", "exec")


def test_pandas_reads_a_carriage_return_in_a_question(corpus, tmp_path, monkeypatch):
    read = harnesses.read

    def with_returns(request):
        asked = read(request)
        asked.rows = [replace(row, question="Which\rshape?") for row in asked.rows]  # a line feed would be quoted
        return asked

    monkeypatch.setattr(harnesses, "read", with_returns)
    export("vlmevalkit", videos_of(corpus), tmp_path / "out", clean=True)
    table = pd.read_csv(tmp_path / "out/data_mlvp_clean.tsv", sep="\t")
    assert table["question"].str.startswith("Which\rshape?").all()
    assert [*table["index"]] == [*range(len(table))]


class VideoBase:
    """The parts of VLMEvalKit's class of datasets that the driver takes, at its commit e8e78f0."""

    def __init__(self, dataset, nframe, fps):
        self.dataset_name, about = dataset, self.prepare_dataset(dataset)
        self.data, self.data_root = pd.read_csv(about["data_file"], sep="\t"), about["root"]


def test_the_driver_of_vlmevalkit_asks_what_the_table_says_and_scores_by_the_same_parser(corpus, tmp_path, monkeypatch):
    export("vlmevalkit", videos_of(corpus), tmp_path / "out", clean=True)
    for name, more in {
        "dataset": {},
        "dataset.video_base": {"VideoBaseDataset": VideoBase},
        "smp": READ_AND_WRITE,
    }.items():
        monkeypatch.setitem(sys.modules, f"vlmeval.{name}", SimpleNamespace(**more))
    monkeypatch.setitem(sys.modules, "vlmeval", SimpleNamespace())
    spec = importlib.util.spec_from_file_location("ask", tmp_path / "out/ask.py")
    ask = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ask)
    dataset = ask._define()("data_mlvp_fog_1", nframe=8)
    assert dataset.supported_datasets() == [f"data_mlvp_{cell}" for cell in CELLS]
    shown, asked = dataset.build_prompt(0, video_llm=True)
    assert Path(shown["value"]).is_file()
    assert asked["value"].startswith('<b>Which</b>\nof 0?\nA. no 0\nB. a "quoted"\ttext\nC. ')
    answered = dataset.data.assign(prediction=[f"({own})" for own in dataset.data["answer"]])
    answered.loc[0, "prediction"] = "No idea."
    result = tmp_path / "m_data_mlvp_fog_1.tsv"
    answered.to_csv(result, sep="\t", index=False)
    assert dataset.evaluate(str(result)) == {"accuracy": 1 - 1 / len(answered)}
    assert main(["answers", str(result), "--questions", str(questions_of(corpus)), "-o", str(tmp_path / "scored")]) == 0
    (row,) = files.read_rows(tmp_path / "scored/results.parquet", ANSWER_RESULTS)
    assert (row.model, row.budget, row.cell, row.unparsed) == ("m", "nframe=8", "fog_1", 1)
    kept = pd.read_parquet(tmp_path / "scored/answers.parquet")
    assert (kept["reported_score"] == kept["correct"]).all()


READ_AND_WRITE = {
    "load": lambda path: pd.read_csv(path, sep="\t"),
    "dump": lambda frame, path: frame.to_csv(path, sep="\t", index=False),
}


# --- mirrors -------------------------------------------------------------------------------------------------------


def mirror(corpus, tmp_path, adapter, **more):
    """A copy of the corpus' manifests as of another adapter, mirrored."""
    place = copied(corpus, tmp_path)
    about = {**files.read_metadata(place), "adapter": adapter}
    files.write(place, VIDEOS, list(files.read_rows(videos_of(corpus), VIDEOS)), about)
    sources = files.read_rows(tmp_path / "manifests/data/sources.parquet", SOURCES)
    plain = [row.item_id for row in sources if row.status == "complete" and row.item_id.isalnum()]
    ask(tmp_path, plain, **more)
    export("lmms_eval", place, tmp_path / "mirror", clean=True, mirror=True)
    return plain, tmp_path / "mirror"


@pytest.mark.parametrize(
    ("adapter", "folder", "task"),
    [
        ("video_mme", "videomme/data", "videomme"),
        ("next_qa", "nextqa/NExTVideo", "nextqa_mc_test"),
        ("perception_test", "perceptiontest_val/videos", "perceptiontest_val_mc"),
    ],
)
def test_a_mirror_has_the_clips_where_official_tasks_look(corpus, tmp_path, adapter, folder, task):
    items, output = mirror(corpus, tmp_path, adapter)
    text = (output / "README.md").read_text()
    for cell in CELLS:
        there = {path.name for path in (output / cell / folder).glob("*.mp4")}
        assert there <= {f"{item}.mp4" for item in items}
        assert there or cell != "clean"
        assert f"HF_HOME='{output / cell}'" in text or f"HF_HOME={output / cell}" in text
        assert f"--cell {cell}=logs/{cell}" in text
    assert f"--tasks {task} " in text
    assert "--use_cache" in text


def test_a_mirror_of_mvbench_has_the_folders_of_tasks(corpus, tmp_path):
    items, output = mirror(corpus, tmp_path, "mvbench", category="action_count")
    there = {path.name for path in (output / "clean/mvbench_video/perception/videos").iterdir()}
    assert "--tasks mvbench_action_count " in (output / "README.md").read_text()
    sources = files.read_rows(tmp_path / "manifests/data/sources.parquet", SOURCES)
    assert there == {Path(row.path).name for row in sources if row.item_id in items}


def test_a_mirror_of_egoschema_is_named_by_its_questions(corpus, tmp_path):
    _, output = mirror(corpus, tmp_path, "egoschema")
    names = {path.name for path in (output / "clean/egoschema/videos").iterdir()}
    assert {"q0-0.mp4", "q0-1.mp4", "q0-2.mp4"} <= names


def test_clips_that_would_share_a_name_are_refused(corpus, tmp_path, monkeypatch):
    rows = ask

    def of_one_video(root, items, **more):
        made = rows(root, items, **more)
        same = [replace(row, cluster="v") for row in made]
        files.write(root / "manifests/data/questions.parquet", QUESTIONS, same)

    monkeypatch.setitem(globals(), "ask", of_one_video)
    with pytest.raises(OutputError, match="would both be"):
        mirror(corpus, tmp_path, "next_qa")


def test_a_mirror_is_of_known_sets_alone(corpus, tmp_path):
    with pytest.raises(ManifestError, match="--mirror is of video_mme"):
        export("lmms_eval", videos_of(corpus), tmp_path / "out", mirror=True)


# --- other programs ------------------------------------------------------------------------------------------------


class Chooser(Searcher):
    """A model for mteb that ranks the documents of each query that it is given."""

    def search(self, queries, *, hf_subset, top_k, top_ranked, **more):
        found = super().search(queries, hf_subset=hf_subset, top_k=top_k)
        return {query: {name: found[query][name] for name in top_ranked[query]} for query in found}


def test_mteb_asks_for_the_option_among_those_of_its_question(corpus, tmp_path, mteb, datasets):
    export("mteb", videos_of(corpus), tmp_path / "out", clean=True)
    (task,) = loaded_tasks(tmp_path / "out")
    assert (task.metadata.type, task.metadata.category) == ("VideoCentricQA", "vt2t")
    task.load_data()
    truth = {row.question_id: row for row in files.read_rows(questions_of(corpus), QUESTIONS)}
    for cell in CELLS:
        data = task.dataset[cell]["test"]
        for query, options in data["top_ranked"].items():
            assert options == [f"{query}_c{place}" for place in range(3)]
            assert data["relevant_docs"][query] == {options[truth[query].answer]: 1}
        assert dict(zip(data["corpus"]["id"], data["corpus"]["text"], strict=True))["q0-0_c2"] == "\u5f71"

    def score(cell, query, document):
        right = document == f"{query}_c{truth[query].answer}"
        return float(right if cell == "clean" else document.endswith("_c0"))

    results = mteb.evaluate(Chooser(score), task, cache=None, encode_kwargs={}).task_results[0].scores["test"]
    accuracies = {own["hf_subset"]: own["accuracy"] for own in results}
    assert accuracies == pytest.approx({cell: 1.0 if cell == "clean" else 1 / 3 for cell in CELLS}, abs=1e-4)


def test_lmms_eval_runs_its_dummy_model_on_an_export(corpus, tmp_path):
    python = needs.lmms_eval()
    export("lmms_eval", videos_of(corpus), tmp_path / "tasks", clean=True)
    there = (tmp_path / "tasks").rename(tmp_path / "moved here")
    words = ["--model", "dummy", "--model_args", "response=B", "--include_path", there, "--tasks", "data_mlvp"]
    words += ["--batch_size", "1", "--log_samples", "--output_path", tmp_path / "logs"]
    folder = {"HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([python, "-m", "lmms_eval", *words], env={**own, **folder}, check=True, capture_output=True)
    words = ["--questions", str(questions_of(corpus)), "-o", str(tmp_path / "scored")]
    assert main(["answers", str(tmp_path / "logs"), *words]) == 0
    results = files.read_rows(tmp_path / "scored/results.parquet", ANSWER_RESULTS)
    assert [row.cell for row in results] == CELLS
    assert all(row.accuracy == pytest.approx(100 / 3) and row.unparsed == 0 for row in results)
