"""Published protocols: what each sets, what a configuration replaces, and what it refuses to begin without."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from clips import DATASET

from perturbations.base.errors import ConfigError
from perturbations.cli.main import main
from perturbations.config import file as config_file
from perturbations.config import sections as config
from perturbations.corpus.plan.sharding import DatasetPlan
from perturbations.evaluation.plan import evaluation_files as evaluation_paths
from perturbations.evaluation.plan import planned_runs as evaluation
from perturbations.evaluation.published import protocols
from perturbations.evaluation.published.cell_status import cells

DATASETS = {"demo": DATASET}
NAMED = {"captions": {"perturbations": ["ocr", "word_swap", "formal"]}}
"""Captions that any machine can perturb: the paper's need WordNet and Apertium."""


def parsed(protocol: str, suites: dict[str, Any] | None = None, **evaluated: Any) -> config.Config:
    raw: dict[str, Any] = {"datasets": DATASETS, "evaluation": {"protocol": protocol, **evaluated}}
    return config_file.parse({**raw, "suites": suites} if suites else raw)


@pytest.mark.parametrize("name", protocols.protocols())
def test_every_protocol_is_a_whole_configuration(name: str) -> None:
    """It parses without a section `suites`, as it is; and it names its needs as keys that there are."""
    bank = {"querybank": "demo"} if "querybank" in protocols.protocol(name).needs else {}
    given = parsed(name, **bank)
    wanted, held = protocols.protocol(name).evaluation, given.evaluation.model_dump(mode="json")
    assert all(held[key] == own for key, own in wanted.items() if key not in ("methods", "severities"))
    keys = {line.partition(": ")[0] for line in protocols.lacking(name, {}, "demo", "others")}
    assert keys <= {f"evaluation.{key}" for key in type(given.evaluation).model_fields}
    entry = protocols.protocol(name)
    assert entry.name == f"{entry.paper}_{f'table_{entry.tables[0]}' if entry.tables else 'figures'}"


def test_what_the_tables_were_made_of() -> None:
    def runs_of(name: str, suites: dict[str, Any] | None = None) -> set[tuple[str, str, str, str, int | None]]:
        return {
            (scenario.direction, scenario.side, scenario.suite, evaluation.category_of(scenario), scenario.severity)
            for scenario in evaluation.scenarios(parsed(name, suites), "demo")
        }

    table_1 = runs_of("hat_vtr_table_1")
    assert table_1 == {("v2t", "none", "clean", "clean", 0)} | {
        ("v2t", "query", "mlvp", level, 5) for level in ("low", "mid", "high")
    }
    table_3 = runs_of("hat_vtr_table_3", {"mm_robustness": NAMED})
    assert {(level, severity) for *_, level, severity in table_3} == {
        ("clean", 0), ("character", 7), ("word", 2), ("sentence", 1)
    }  # fmt: skip
    assert len(protocols.protocol("hat_vtr_table_3").suites["mm_robustness"]["captions"]["perturbations"]) == 15
    table_9 = evaluation.scenarios(parsed("msrvtt_p_table_9"), "demo")
    assert {scenario.direction for scenario in table_9} == {"t2v"}
    assert sum(scenario.side == "gallery" for scenario in table_9) == 18 * 5
    # Qiu et al. perturb one modality in whole: the query in one direction, the gallery in the other.
    images = runs_of("mm_robustness_table_1")
    assert {(direction, side) for direction, side, *_ in images} == {
        ("v2t", "none"), ("v2t", "query"), ("t2v", "none"), ("t2v", "gallery")
    }  # fmt: skip


def test_the_settings_of_ablations_are_of_one_corpus_and_run_once() -> None:
    """A preset beside another plans the jobs of its own settings alone; scenarios are the same."""
    tables = [
        parsed(f"hat_vtr_{name}", {"mm_robustness": NAMED}) for name in ("table_6", "table_7", "table_12", "figures")
    ]
    first = evaluation.scenarios(tables[0], "demo")
    assert all(evaluation.scenarios(table, "demo") == first for table in tables)
    planned = [evaluation_paths.jobs(table, "demo", "adaptation") for table in tables]
    assert all(own.keys() == planned[0].keys() for own in planned), "what one has made is in the journals of the others"
    settings = [{(run.method, run.parameters) for runs in own.values() for run in runs} for own in planned]
    assert {method for method, _ in set.intersection(*settings)} >= {"none", "hatvtr"}
    assert evaluation.model_key(tables[0]) == evaluation.model_key(tables[3])
    labels = [entry.label for entry in tables[2].evaluation.method_settings()]
    assert labels[:3] == ["no adaptation", "alpha 10, beta 10", "alpha 10, beta 100"]


def test_keys_beside_a_protocol_replace_its_own() -> None:
    suites = {"mlvp": {"perturbations": ["fog"]}, "transmission": {}}
    given = parsed("hat_vtr_table_1", suites, severities=[3], methods=["tcr"], num_frames=12)
    planned = evaluation.scenarios(given, "demo")
    keys = {(scenario.suite, scenario.perturbation, scenario.severity) for scenario in planned}
    assert keys == {("clean", "clean", 0), ("mlvp", "fog", 3)}
    assert (given.evaluation.steps, given.suites["mlvp"].variant) == (3, "released")
    assert given.evaluation.protocol == "hat_vtr_table_1"


OWN = {"adapter": "folder", "annotations": "a.csv", "videos": "."}
PLAN = DatasetPlan((), {}, listed=1, captions=1)


def test_what_the_user_must_bring_is_asked_for_before_the_first_job() -> None:
    raw = {"datasets": {"own": OWN, "demo": {"adapter": "demo"}}}
    given = config_file.parse({**raw, "evaluation": {"protocol": "hat_vtr_table_1"}})
    with pytest.raises(ConfigError, match=r"evaluation.model: .* needs a CLIP model(.|\n)*evaluation.checkpoint: "):
        evaluation_paths.results(given, "own", "adaptation", lambda name: PLAN, lambda name: ())
    assert evaluation_paths.results(
        given, "demo", "adaptation", lambda name: PLAN, lambda name: ()
    ).files  # clips that anybody has
    named = config_file.parse({**raw, "evaluation": {"protocol": "hat_vtr_table_5", "model": "openai/clip"}})
    assert evaluation_paths.results(named, "own", "evaluation", lambda name: PLAN, lambda name: ()).files


DONORS = r"datasets\.own\.donors: .*, for event_insertion"
BANK = r"evaluation\.querybank: hat_vtr_table_14 needs the dataset of training queries, and {} has the evaluated ones"


@pytest.mark.parametrize(
    ("name", "donors", "perturbations", "beside", "lacks"),
    [
        ("hat_vtr_table_1", None, "all", {}, DONORS),
        ("hat_vtr_table_1", "own", "all", {}, DONORS),
        ("hat_vtr_table_1", "train", "all", {}, None),
        ("hat_vtr_table_1", None, ["fog", "event_insertion"], {}, DONORS),
        ("hat_vtr_table_1", None, ["fog", "snow"], {}, None),
        ("hat_vtr_table_1", None, "all", {"directions": ["t2v"]}, None),  # captions ask clean clips
        ("hat_vtr_table_3", None, "all", {}, None),  # of captions
        ("hat_vtr_table_5", None, "all", {}, None),
        ("hat_vtr_table_1", "twin", "all", {}, DONORS),
        ("hat_vtr_table_14", None, ["fog"], {"querybank": "own"}, BANK.format("own")),
        ("hat_vtr_table_14", None, ["fog"], {"querybank": "twin"}, BANK.format("twin")),
        ("hat_vtr_table_14", None, ["fog"], {"querybank": "train"}, None),
        ("hat_vtr_table_14", None, ["fog"], {"methods": ["hatvtr"]}, None),
        ("hat_vtr_table_14", None, ["fog"], {"methods": ["hatvtr"], "querybank": "own"}, None),
    ],
)
def test_donors_and_banks_are_other_datasets_where_they_are_used(
    name: str, donors: str | None, perturbations: Any, beside: dict[str, Any], lacks: str | None
) -> None:
    """A dataset of the same annotations is the evaluated one under another name."""
    raw = {
        "datasets": {
            "own": OWN | ({"donors": donors} if donors else {}),
            "train": OWN | {"annotations": "train.csv"},
            "twin": OWN | {"videos": "elsewhere"},
        },
        "suites": {"mlvp": {"perturbations": perturbations}, "mm_robustness": NAMED},
        "evaluation": {"protocol": name, "model": "/clip", "checkpoint": __file__, **beside},
    }
    given = config_file.parse(raw)
    if lacks:
        with pytest.raises(ConfigError, match=lacks):
            evaluation_paths.results(given, "own", "adaptation", lambda name: PLAN, lambda name: ())
    else:
        assert evaluation_paths.results(given, "own", "adaptation", lambda name: PLAN, lambda name: ()).files


def test_all_are_listed_by_paper(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert main(["list", "protocols"]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert [line.split()[0] for line in lines if re.match(r"  \S", line)] == list(protocols.protocols())
    assert [line for line in lines if line[0] != " "] == [paper["title"] for paper in protocols.papers().values()]
    assert max(map(len, lines)) <= 90
    for command in (["list", "protocols", "hat_vtr_table_1"], ["list", "hat_vtr_table_1"]):
        assert main(command) == 0
        own = " ".join(capsys.readouterr().out.split())
        assert own.startswith("hat_vtr_table_1: HAT-VTR (MLVP) paper: hat_vtr")
        assert re.search(r"needs: \{?model: '?a CLIP model", own)
    assert main(["list", "protocols", "hat_vtr_table_99"]) == 1


def test_the_cells_of_a_protocol_are_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["list", "protocols", "hat_vtr_table_14", "--cells"]) == 0
    lines = capsys.readouterr().out.splitlines()
    counts = cells("hat_vtr_table_14")["status"].value_counts().to_dict()
    named = ", ".join(f"{count} {status}" for status, count in counts.items())
    assert (lines[0], sum(counts.values())) == (f"70 published cells: {named}", 70)
    assert max(map(len, lines)) <= 80
    assert sum(line.count("avg6") for line in lines) == 10
    assert main(["list", "protocols", "hat_vtr_table_14", "--cells", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (len(listed["cells"]), listed["counts"]) == (70, counts)
    assert main(["list", "mlvp", "--cells"]) == 1
