"""Answers of models that are known beforehand, read back from logs, and their paired results."""

import csv
import json
import random
from dataclasses import replace
from math import comb

import asked_scenes
import needs
import numpy as np
import pandas as pd
import pytest
from copies import ROOT

from perturbations.cli.main import main
from perturbations.corpus.plan import items
from perturbations.datasets.adapter_registry import Dataset
from perturbations.manifest import files
from perturbations.manifest.rows import QUESTIONS, QuestionRow
from perturbations.questions import pairs
from perturbations.questions.answer_rows import AnswerRow, CellKey, cell_of
from perturbations.questions.answering import parsed, prompt
from perturbations.questions.table import sha256_of

RECORDED = ROOT / "tests" / "golden/lmms_eval"
CELLS = [
    ("clean", "clean", 0),
    ("mlvp", "fog", 1),
    ("mlvp", "fog", 3),
    ("controls", "blank", 1),
    ("controls", "shuffled", 1),
]
CLEAN, FOG_1, FOG_3, BLANK, SHUFFLED = CELLS


def listed(folder, scenes):
    folder.mkdir(parents=True, exist_ok=True)
    videos, table = asked_scenes.write(folder, scenes, drawn=False)
    dataset = Dataset(adapter="questions", annotations=table, videos=videos)
    return list(items.read("study", dataset).questions)


def table_of(folder, scenes):
    path = folder / "manifests/study/questions.parquet"
    files.write(path, QUESTIONS, listed(folder, scenes), {"root": "../..", "dataset": "study"})
    return path


@pytest.fixture
def table(tmp_path):
    return table_of(tmp_path, 40)


def letters(row):
    return "ABCDEFGH"[row.answer]


def wrong(row):
    return "ABCDEFGH"[(row.answer + 1) % len(row.options)]


def oracle(row, cell):
    return letters(row)


def blind(row, cell):
    return "ABCD"[sum(map(ord, row.question_id)) % 4]


def last_frame(row, cell):
    """Sees colours and shapes wherever pixels are, and motion nowhere."""
    return wrong(row) if row.category == "motion" or cell == BLANK else letters(row)


def seeded(row, cell):
    return random.Random(f"7 {row.question_id} {cell}").choice("ABCD")


def foggy(row, cell):
    """Loses what its fog hides: a third of the questions at severity 3; nothing but luck on the grey clip."""
    number = int(row.question_id[1:4])
    hidden = cell == FOG_3 and number % 3 == 0
    return wrong(row) if hidden or (cell == BLANK and number % 4) else letters(row)


def logged(path, rows, models, cells=CELLS, **more):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question_id", "suite", "perturbation", "severity", "model", "response", *more])
        for model, answer in models.items():
            for cell in cells:
                writer.writerows([row.question_id, *cell, model, answer(row, cell), *more.values()] for row in rows)
    return path


def scored(table, *logs, out="scored", words=()):
    folder = table.parents[2] / out
    assert main(["answers", *map(str, logs), "--questions", str(table), "-o", str(folder), *words]) == 0
    results = pd.read_parquet(folder / "results.parquet")
    return results.set_index(["model", "suite", "perturbation", "severity"])


def failing(table, capsys, *logs, words=()):
    assert main(["answers", *map(str, logs), "--questions", str(table), "-o", str(table.parent / "no"), *words]) == 1
    assert not (table.parent / "no").exists()
    return capsys.readouterr().err


# --- answers that are known ----------------------------------------------------------------------------------------


def test_fake_answerers_have_the_results_that_are_known_of_them(table, tmp_path):
    rows = files.read_rows(table, QUESTIONS)
    models = {"oracle": oracle, "blind": blind, "last_frame": last_frame, "random": seeded, "foggy": foggy}
    results = scored(table, logged(tmp_path / "log.csv", rows, models))
    assert len(results) == len(models) * len(CELLS)
    assert (results["n"] == 120).all()
    assert not results[["missing", "unparsed"]].to_numpy().any()
    for cell in CELLS[1:]:
        row = results.loc[("oracle", *cell)]
        assert (row["accuracy"], row["delta"], row["low"], row["high"]) == (100, 0, 0, 0)
        assert (row["resist_rate"], row["p_flip"], row["p_mcnemar"], row["p_holm"]) == (1, 1, 1, 1)
        row = results.loc[("blind", *cell)]
        assert (row["n10"], row["n01"], row["same_answer"], row["delta"]) == (0, 0, 1, 0)
        assert pd.isna(row["visual_share"])
    blank = results.loc[("last_frame", *BLANK)]
    assert (blank["accuracy"], blank["visual_share"]) == (0, 0)
    shuffled = results.loc[("last_frame", *SHUFFLED)]
    assert (shuffled["delta"], shuffled["visual_share"]) == (0, 1)
    by_category = json.loads(shuffled["by_category"])
    assert {name: own["accuracy"] for name, own in by_category.items()} == {"colour": 100, "shape": 100, "motion": 0}
    fog = results.loc[("foggy", *FOG_3)]
    assert (fog["n11"], fog["n10"], fog["n01"], fog["n00"]) == (78, 42, 0, 0)
    assert (fog["delta"], fog["resist_rate"], fog["harmful_flips"]) == (-35, 78 / 120, 42 / 120)
    assert fog["low"] < -35 < fog["high"] < 0
    assert fog["p_flip"] < fog["p_holm"] < 0.05
    # Against the grey clip: 30 of 120 are right there by luck.
    assert fog["visual_share"] == pytest.approx((65 - 25) / (100 - 25))
    assert fog["visual_low"] < fog["visual_share"] < fog["visual_high"]
    again = scored(table, tmp_path / "log.csv", out="again")
    pd.testing.assert_frame_equal(results, again)


def test_counts_p_and_intervals_are_those_of_plain_arithmetic(tmp_path):
    """Three models, unequal chances, some answers missing and some naming no option."""
    table = table_of(tmp_path, 110)
    rows = files.read_rows(table, QUESTIONS)
    chance = np.random.default_rng(3)
    said: dict[tuple[str, tuple], dict[str, str]] = {}
    path = tmp_path / "log.jsonl"
    with path.open("w") as file:
        for number, model in enumerate(("a", "b", "c")):
            for place, cell in enumerate(CELLS[:3]):
                for row in rows:
                    if chance.random() < 0.04:
                        continue
                    right = chance.random() < 0.8 - 0.1 * number - 0.15 * place
                    response = letters(row) if right else chance.choice([wrong(row), "None of these.", ""])
                    said.setdefault((model, cell), {})[row.question_id] = response
                    names = ("suite", "perturbation", "severity")
                    line = {"question_id": row.question_id, "model": model, "response": response}
                    file.write(json.dumps(line | dict(zip(names, cell, strict=True))) + "\n")
    results = scored(table, path)
    truth = {row.question_id: (letters(row), row.cluster) for row in rows}
    for model in ("a", "b", "c"):
        clean = said[model, CLEAN]
        for cell in CELLS[1:3]:
            own, row = said[model, cell], results.loc[(model, *cell)]
            both = sorted(clean.keys() & own.keys())
            before = np.array([clean[name] == truth[name][0] for name in both])
            after = np.array([own[name] == truth[name][0] for name in both])
            n10, n01 = int((before & ~after).sum()), int((after & ~before).sum())
            assert (row["n"], row["missing"]) == (len(both), len(rows) - len(both))
            assert row["unparsed"] == sum(own[name] in ("", "None of these.") for name in both)
            assert (row["n10"], row["n01"], row["n11"]) == (n10, n01, int((before & after).sum()))
            assert row["accuracy"] == pytest.approx(100 * after.mean(), abs=1e-9)
            tail = sum(comb(n10 + n01, k) for k in range(min(n10, n01) + 1)) / 2 ** (n10 + n01)
            assert row["p_mcnemar"] == pytest.approx(min(1, 2 * tail), abs=1e-12)
            names = sorted({truth[name][1] for name in both})
            sums = np.zeros((len(names), 2))
            for name, first, second in zip(both, before, after, strict=True):
                sums[names.index(truth[name][1])] += (1, float(second) - float(first))
            drawn = np.random.default_rng(9).integers(0, len(names), (20_000, len(names)))
            deltas = 100 * sums[drawn, 1].sum(axis=1) / sums[drawn, 0].sum(axis=1)
            assert np.abs(np.quantile(deltas, (0.025, 0.975)) - (row["low"], row["high"])).max() < 0.5
    kept = pd.read_parquet(tmp_path / "scored/answers.parquet")
    assert len(kept) == sum(map(len, said.values()))
    holm = results["p_flip"].dropna().sort_values()
    adjusted = np.minimum(1, np.maximum.accumulate(holm.to_numpy() * np.arange(len(holm), 0, -1)))
    assert results.loc[holm.index, "p_holm"].to_numpy() == pytest.approx(adjusted)


@pytest.mark.parametrize(("n10", "n01"), [(0, 0), (5, 5), (1, 9), (12, 30), (400, 300)])
def test_mcnemar_is_that_of_statsmodels(n10, n01):
    tables = needs.statistics()
    theirs = tables.mcnemar([[50, n10], [n01, 20]], exact=True).pvalue if n10 + n01 else 1.0
    assert pairs.mcnemar(n10, n01) == pytest.approx(theirs, abs=1e-12)
    assert pairs.mcnemar(n10, n01) == pairs.mcnemar(n01, n10)


def question(number, cluster, copy=0):
    return QuestionRow(
        question_id=f"{number}-{copy}", item_id=cluster, question="?", options=["x", "y"], answer=0, cluster=cluster,
        source_index=number,
    )  # fmt: skip


def answer(row, cell, *, right):
    key = CellKey(*cell)
    return AnswerRow(
        model="m", budget="", **key._asdict(), cell=key.name, question_id=row.question_id, response="",
        parsed=0 if right else 1, correct=right,
    )  # fmt: skip


def test_copies_of_questions_about_one_video_do_not_narrow_an_interval():
    lost = np.random.default_rng(0).random(60) < 0.3
    widths, chances = [], []
    for copies in (1, 8):
        rows = [question(number, f"v{number}", copy) for number in range(60) for copy in range(copies)]
        answers = [
            answer(row, cell, right=cell == CLEAN or not lost[row.source_index])
            for row in rows
            for cell in (CLEAN, FOG_3)
        ]
        result = pairs.results(answers, rows)[1]
        widths.append((result.low, result.high))
        chances.append((result.p_flip, result.p_mcnemar))
    assert widths[0] == widths[1]
    assert chances[0][0] == chances[1][0]
    assert chances[1][1] < chances[0][1]  # McNemar's test takes them for independent, and says so


def test_where_every_video_has_one_question_flips_and_mcnemar_agree():
    rows = [question(number, f"v{number}") for number in range(80)]
    answers = [answer(row, CLEAN, right=row.source_index >= 5) for row in rows]
    answers += [answer(row, FOG_3, right=row.source_index < 66) for row in rows]
    result = pairs.results(answers, rows)[1]
    assert (result.n10, result.n01) == (14, 5)
    assert result.p_flip == pytest.approx(result.p_mcnemar, abs=0.01)


def test_a_margin_says_which_drops_are_smaller(table, tmp_path):
    rows = files.read_rows(table, QUESTIONS)
    log = logged(tmp_path / "log.csv", rows, {"oracle": oracle, "foggy": foggy})
    results = scored(table, log, words=["--margin", "5"])
    assert results.loc[("oracle", *FOG_3)]["equivalent"]
    assert not results.loc[("foggy", *FOG_3)]["equivalent"]
    assert results.loc[("foggy", *CLEAN)]["equivalent"] is None


@pytest.mark.parametrize(("videos", "shown"), [(1, False), (4, False), (5, True), (40, True)])
def test_a_few_videos_show_no_equivalence_and_no_certain_accuracy(table, tmp_path, videos, shown):
    rows = files.read_rows(table, QUESTIONS)
    chosen = [row for row in rows if row.cluster in sorted({row.cluster for row in rows})[:videos]]
    log = logged(tmp_path / "log.csv", chosen, {"m": oracle}, [CLEAN, FOG_3])
    results = scored(table, log, words=["--margin", "8"])
    row = results.loc[("m", *FOG_3)]
    assert row["clusters"] == videos
    assert row["equivalent"] is shown
    assert row["accuracy_high"] == 100
    assert row["accuracy_low"] == pytest.approx(100 * 0.025 ** (1 / videos))


# --- one parser ----------------------------------------------------------------------------------------------------

OPTIONS = ["a red car", "a blue car", "2"]


@pytest.mark.parametrize(
    ("response", "place"),
    [
        *((text, 1) for text in ("B", "b", " B\n", "(B)", "[B]", "B.", "B:", "B)", "(b)", "**B**", "\\boxed{B}")),
        *((text, 1) for text in ("B: a blue car", "B. a red car, no, it is blue", "(B) because it is blue")),
        *((text, 1) for text in ("The answer is B", "the answer is (B).", "Answer: B", "answer: b", "ANSWER IS B")),
        *((text, 1) for text in ("Option B", "The correct option is B.", "The best answer is: B")),
        *((text, 1) for text in ("a blue car", "A  Blue Car.", "\uff22", "\uff08B\uff09")),
        ("First A. is wrong, so the answer is B because it is blue.", 1),
        ("<think>Perhaps (A)? The answer is A.</think>\nB", 1),
        ("2", 2),
        *((text, None) for text in ("", "   ", "D", "I", "Z.", "I cannot help with that.", "As an AI, I see nothing.")),
        *((text, None) for text in ("A or B", "(A) or (B)", "A. a red car\nB. a blue car", "The answer is not B")),
        *((text, None) for text in ("Answer: A man walks", "The answer is a red thing", "A man walks by")),
        *((text, None) for text in ("The answer is A. No, the answer is B.", "\u0411", "\u7b54\u3048", "x" * 9_999)),
    ],
)  # fmt: skip
def test_one_parser_reads_all_responses(response, place):
    assert parsed(response, OPTIONS) == place


def test_a_text_that_two_options_have_names_neither():
    assert parsed("red", ["red", "Red", "blue"]) is None
    assert parsed("A", ["red", "red"]) == 0


def test_the_prompt_holds_the_question_its_options_and_nothing_else():
    assert prompt("Which?", ["x", "y"]) == "Which?\nA. x\nB. y\nAnswer with the letter of one option only."


# --- logs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(tmp_path):
    """Logs of lmms-eval's dummy, which says B, on three scenes, and the table of questions that it was asked."""
    path = tmp_path / "manifests/study/questions.parquet"
    files.write(path, QUESTIONS, listed(tmp_path, 3), {"dataset": "study"})
    sha256 = sha256_of(files.read_rows(path, QUESTIONS))
    logs = tmp_path / "logs"
    logs.mkdir()
    for log in RECORDED.iterdir():
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.suffix == ".jsonl" else []
        for line in lines:
            line["accuracy"]["questions_sha256"] = sha256
        text = "".join(json.dumps(line) + "\n" for line in lines) or log.read_text()
        (logs / log.name).write_text(text)
    return path, logs


def test_the_samples_of_lmms_eval_are_read_with_what_its_results_say(recorded):
    table, logs = recorded
    results = scored(table, logs)
    assert list(results.index) == [("dummy", "clean", "clean", 0), ("dummy", "mlvp", "fog", 3)]
    assert (results["n"] == 9).all()
    expected = 100 * sum(row.answer == 1 for row in files.read_rows(table, QUESTIONS)) / 9
    assert results["accuracy"].tolist() == pytest.approx([expected] * 2)
    assert set(results["budget"]) == {"decode_num_frames=2"}
    kept = pd.read_parquet(table.parents[2] / "scored/answers.parquet")
    assert (kept["reported_score"] == kept["correct"]).all()


def test_a_log_of_another_table_is_refused(recorded, capsys):
    table, logs = recorded
    path = next(logs.glob("*fog_3.jsonl"))
    path.write_text(path.read_text().replace('"questions_sha256": "', '"questions_sha256": "0'))
    message = failing(table, capsys, logs)
    assert "another table of questions" in message
    assert f"{path}, line 1" in message


def official(path, rows, responses, **more):
    lines = [
        {"doc_id": row.source_index, "target": letters(row), "filtered_resps": response, "doc_hash": "0", **more}
        for row, response in zip(rows, responses, strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def with_results(path, **config):
    stamp = path.name.split("_samples_")[0]
    config = {"model": "qwen2_5_vl", "model_args": "pretrained=org/m-7B,max_num_frames=16", **config}
    path.with_name(f"{stamp}_results.json").write_text(json.dumps({"config": config}))
    return path


def test_official_tasks_are_read_by_their_place_in_the_annotations(table, tmp_path):
    rows = sorted(files.read_rows(table, QUESTIONS), key=lambda row: row.source_index)
    for cell in ("clean", "fog_3"):
        path = official(tmp_path / cell / "1_samples_nextqa_mc_test.jsonl", rows, map(letters, rows), exact_match=False)
        with_results(path)
    words = ["--cell", f"clean={tmp_path / 'clean'}", "--cell", f"mlvp/fog_3={tmp_path / 'fog_3'}"]
    results = scored(table, tmp_path / "clean", words=words)
    assert list(results.index) == [("org/m-7B", *CLEAN), ("org/m-7B", *FOG_3)]
    assert set(results["accuracy"]) == {100}
    assert set(results["budget"]) == {"max_num_frames=16"}
    kept = pd.read_parquet(tmp_path / "scored/answers.parquet")
    assert set(kept["reported_score"]) == {0}


def test_official_tasks_in_another_order_are_refused(table, tmp_path, capsys):
    rows = sorted(files.read_rows(table, QUESTIONS), key=lambda row: row.source_index)
    moved = [replace(row, answer=(row.answer + 1) % 4) for row in rows]
    log = official(tmp_path / "1_samples_nextqa_mc_test.jsonl", moved, map(letters, rows))
    assert "of another order" in failing(table, capsys, log, words=["--cell", f"clean={log}", "--model", f"m={log}"])


def test_a_cache_that_two_cells_share_is_refused(table, tmp_path, capsys):
    rows = files.read_rows(table, QUESTIONS)
    words = []
    for cell in ("clean", "fog_3"):
        log = official(tmp_path / cell / "1_samples_nextqa_mc_test.jsonl", rows, map(letters, rows))
        words += ["--cell", f"{cell}={with_results(log, use_cache='cache').parent}"]
    message = failing(table, capsys, tmp_path / "clean", words=words)
    assert "--use_cache cache" in message
    assert "each cell with a cache of its own" in message


def test_a_table_of_vlmevalkit_is_read_with_its_score(table, tmp_path):
    rows = files.read_rows(table, QUESTIONS)
    sha256 = sha256_of(rows)
    for cell in (CLEAN, FOG_3):
        name = "study_mlvp_" + CellKey(*cell).name
        about = {"suite": cell[0], "perturbation": cell[1], "severity": cell[2], "questions_sha256": sha256}
        frame = pd.DataFrame(
            [
                {"index": at, "video": row.item_id, "question_id": row.question_id, **about, "dataset_name": name,
                 "nframe": 16, "prediction": f"({letters(row)})\nbecause"}
                for at, row in enumerate(rows)
            ]
        )  # fmt: skip
        folder = tmp_path / "outputs/m-7B/T20260101"
        folder.mkdir(parents=True, exist_ok=True)
        frame.to_csv(folder / f"m-7B_{name}.tsv", sep="\t", index=False)
        frame.assign(score=-1.0).to_csv(folder / f"m-7B_{name}_score.tsv", sep="\t", index=False)
        (folder.parent / f"m-7B_{name}.tsv").symlink_to(folder / f"m-7B_{name}.tsv")
    results = scored(table, tmp_path / "outputs")
    assert list(results.index) == [("m-7B", *CLEAN), ("m-7B", *FOG_3)]
    assert set(results["accuracy"]) == {100}
    assert set(results["budget"]) == {"nframe=16"}
    assert set(pd.read_parquet(tmp_path / "scored/answers.parquet")["reported_score"]) == {0}  # -1: a failed request


# --- what is wrong with logs ---------------------------------------------------------------------------------------


def test_rows_of_other_frame_budgets_are_never_paired(table, tmp_path, caplog):
    rows = files.read_rows(table, QUESTIONS)
    first = logged(tmp_path / "clean.csv", rows, {"m": oracle}, [CLEAN], num_frames=16)
    second = logged(tmp_path / "fog.csv", rows, {"m": oracle}, [FOG_3], num_frames=32)
    results = scored(table, first, second)
    row = results.loc[("m", *FOG_3)]
    assert (row["budget"], row["n"], row["accuracy"]) == ("num_frames=32", 120, 100)
    assert pd.isna(row["delta"])
    assert "its clean answers are of other frames (num_frames=16)" in caplog.text


def test_a_cell_without_a_clean_twin_is_said(table, tmp_path, caplog):
    results = scored(table, logged(tmp_path / "fog.csv", files.read_rows(table, QUESTIONS), {"m": oracle}, [FOG_3]))
    assert pd.isna(results.loc[("m", *FOG_3)]["clean_accuracy"])
    assert "has no clean answers for fog_3, so no drop: run the clean cell, too" in caplog.text


def test_only_questions_that_both_cells_answer_are_paired(table, tmp_path):
    rows = files.read_rows(table, QUESTIONS)
    clean = logged(tmp_path / "clean.csv", rows[5:], {"m": oracle}, [CLEAN])
    fog = logged(tmp_path / "fog.csv", rows[:-10], {"m": oracle}, [FOG_3])
    results = scored(table, clean, fog)
    assert results.loc[("m", *FOG_3)][["n", "missing"]].tolist() == [105, 15]
    assert results.loc[("m", *CLEAN)][["n", "missing"]].tolist() == [115, 5]


def test_a_question_that_is_answered_twice_is_an_error_unless_both_say_the_same(table, tmp_path, capsys, caplog):
    rows = files.read_rows(table, QUESTIONS)
    first = logged(tmp_path / "1.csv", rows, {"m": oracle}, [CLEAN])
    same = logged(tmp_path / "2.csv", rows[:4], {"m": oracle}, [CLEAN])
    assert scored(table, first, same).loc[("m", *CLEAN)]["n"] == 120
    assert "4 answers given twice with the same response, and counted once" in caplog.text
    other = logged(tmp_path / "3.csv", rows[:1], {"m": lambda row, cell: wrong(row)}, [CLEAN])
    message = failing(table, capsys, first, other)
    assert "twice" in message
    assert f"--model NAME={other}" in message
    assert scored(table, first, words=["--model", f"n={other}"], out="apart").loc[("n", *CLEAN)]["n"] == 1


def test_the_nearest_folder_says_the_cell_and_the_model(table, tmp_path):
    rows = files.read_rows(table, QUESTIONS)
    for place, answer in (("logs", oracle), ("logs/fog", lambda row, cell: wrong(row)), ("logs/n", oracle)):
        (tmp_path / place).mkdir()
        lines = [{"question_id": row.question_id, "filtered_resps": answer(row, None)} for row in rows]
        (tmp_path / place / "1_samples_t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    cells = ["--cell", f"clean={tmp_path}/logs", "--cell", f"mlvp/fog_3={tmp_path}/logs/fog"]
    models = ["--model", f"m={tmp_path}/logs", "--model", f"n={tmp_path}/logs/n"]
    results = scored(table, tmp_path / "logs", words=[*cells, *models])
    assert results["accuracy"].to_dict() == {("m", *CLEAN): 100, ("m", *FOG_3): 0, ("n", *CLEAN): 100}


def test_empty_fields_of_a_spreadsheet_are_empty(table, tmp_path):
    (row, *_) = files.read_rows(table, QUESTIONS)
    line = {"question_id": row.question_id, "response": letters(row), "model": "m"}
    empty = dict.fromkeys(("suite", "perturbation", "severity"), float("nan"))
    (tmp_path / "log.jsonl").write_text(json.dumps(line | empty))
    assert list(scored(table, tmp_path / "log.jsonl").index) == [("m", *CLEAN)]


def test_strange_answers_are_counted_and_shown_once(table, tmp_path, caplog):
    rows = files.read_rows(table, QUESTIONS)
    odd = [
        "",
        "I cannot answer that.",
        "\u044f \u043d\u0435 \u0437\u043d\u0430\u044e",
        "A paragraph. " * 200,
        "<b>B</b>\nor (C)",
    ]
    log = tmp_path / "log.jsonl"
    with log.open("w") as file:
        for number, row in enumerate(rows):
            response = odd[number] if number < len(odd) else letters(row)
            line = {"question_id": row.question_id, "cell": "clean", "model": "m", "response": response}
            file.write(json.dumps(line) + "\n")
        file.write(json.dumps({"question_id": "of another", "cell": "clean", "model": "m", "response": "A"}) + "\n")
    results = scored(table, log)
    assert results.loc[("m", *CLEAN)][["n", "unparsed"]].tolist() == [120, 5]
    kept = pd.read_parquet(tmp_path / "scored/answers.parquet").set_index("question_id")
    assert [kept.loc[row.question_id]["response"] for row in rows[:5]] == odd
    assert caplog.text.count("5 answers naming no option, or several, and counted as wrong") == 1
    assert caplog.text.count("1 answer to no question") == 1
    assert "line 121" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question_id,model,answer\n1,m,A\n", "no column 'response'"),
        ("question_id,model,response\n", "a header and no answer"),
        ("question_id,model,response\nq000-shape,m,A\n", "--cell fog_3="),
        ("question_id,response,suite,perturbation,model\nq000-shape,A,mlvp,fog,m\n", "the severity is a whole number"),
        ("question_id,response,suite,perturbation,severity\nq000-shape,A,mlvp,fog,3\n", "--model NAME="),
        ("question_id,response,suite,perturbation,severity,model\nq000-shape,A,mlvp,fog,high,m\n", "not 'high'"),
        ("question_id,response,suite,perturbation,severity,model\nq000-shape,A,mlvp,fog,3,m,x\n", "in quotes"),
        ("question_id,response,cell,model\nother,A,clean,m\n", "no answers to questions"),
    ],
)
def test_a_log_that_lacks_something_is_a_message(table, tmp_path, capsys, text, message):
    log = tmp_path / "log.csv"
    log.write_text(text)
    assert message in failing(table, capsys, log)


def test_a_cell_is_found_by_its_name():
    suites = {"mlvp": {("fog", 3)}, "other": {("fog", 3), ("rain", 1)}, "controls": {("blank", 1)}}
    assert cell_of("clean", suites) == CellKey()
    assert cell_of("mlvp/fog_3", suites) == CellKey("mlvp", "fog", 3)
    assert cell_of("rain_1", suites) == CellKey("other", "rain", 1)
    assert cell_of("fog_3", suites) == CellKey("", "fog", 3)
    assert cell_of("blank", suites) == CellKey("controls", "blank", 1)


# --- the page ------------------------------------------------------------------------------------------------------


def test_the_page_shows_results_and_what_every_model_loses(table, tmp_path):
    rows = files.read_rows(table, QUESTIONS)
    scored(table, logged(tmp_path / "log.csv", rows, {"<b>foggy</b>": foggy, "as foggy": foggy}))
    page = tmp_path / "page.html"
    for given in ("scored", "scored/results.parquet"):
        assert main(["report", "--results", str(tmp_path / given), "-o", str(page)]) == 0
    text = page.read_text()
    for words in ("Questions under perturbation", "answers by category", "42 questions that every model answers right"):
        assert words in text
    assert "<b>foggy" not in text
    numbers = pd.read_csv(tmp_path / "page.tables/tables.csv", keep_default_na=False)
    fog = numbers[(numbers["row"] == "as foggy") & (numbers["column"] == "fog_3")].iloc[0]
    assert (fog["value"], fog["change"]) == (65, "-35.0")
    assert (tmp_path / "page.tables/study_mlvp_answers.tex").read_text().count("65.0") == 2


def test_retrieval_and_questions_share_a_page_and_no_table(table, tmp_path):
    rows = files.read_rows(table, QUESTIONS)
    scored(table, logged(tmp_path / "log.csv", rows, {"oracle": oracle}))
    retrieval = ROOT / "docs/examples/results.parquet"
    page = tmp_path / "both.html"
    assert main(["report", "--results", str(tmp_path / "scored"), str(retrieval), "-o", str(page)]) == 0
    text = page.read_text()
    assert text.index("<h2>Answers") < text.index("<h2>Results") < text.index("<h2>How it was made")
    tables = pd.read_csv(tmp_path / "both.tables/tables.csv", keep_default_na=False)
    of_answers = tables["table"].str.contains("answers")
    assert of_answers.any()
    assert not tables[of_answers]["column"].str.startswith("R@").any()
    assert not tables[~of_answers]["row"].str.contains("oracle").any()
