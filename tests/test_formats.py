"""Each format on disk has one module: where that writes it otherwise, all who read it follow."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import needs
import pytest
import shelves

from perturbations.base import storage, sums

pytestmark = needs.wings("evaluation", "preflight", "status", "store")

UPPER = "alias_generator=str.upper, validate_by_name=True, serialize_by_alias=True"
CHANGES: dict[str, tuple[str, dict[str, str]]] = {
    "journal": ("engine/journal.py", {"_COLUMNS_LENGTH = 8": "_COLUMNS_LENGTH = 12"}),
    "names of journals": (
        "manifest/layout.py",
        {'with_suffix(".jsonl")': 'with_suffix(".journal")', 'glob("*.jsonl")': 'glob("*.journal")'},
    ),
    "names of locks": ("base/layout.py", {'".lock"': '".held"'}),
    "lock": ("base/processes.py", {")} on {": ")} since {", r" on (.*)": r" since (.*)"}),
    "log lines": ("base/progress.py", {'"perturb: "': '"failed: "', "were finished before and are": "are"}),
    "lists": (
        "plan/listed.py",
        {
            'separators=(",", ":")': 'separators=(" , ", " : ")',
            '"caption_id":{caption_id},': '"caption_id" : {caption_id} , ',
        },
    ),
    "markers of clips": (
        "plan/clip_markers.py",
        {
            "dumps(sizes,": 'dumps({"bytes": sizes},',
            "path.read_bytes()).items()": 'path.read_bytes())["bytes"].items()',
        },
    ),
    "parts": ("manifest/parquet.py", {'"perturbations"': '"about"'}),
    "what parts say of their rows": ("manifest/cells.py", {'"statuses"': '"rows_per_status"'}),
    "what manifests say was listed": (
        "manifest/skipped.py",
        {'SKIPPED = "set", "skipped"': 'SKIPPED = "listed", "left"'},
    ),
    "packs": ("store/packs.py", {"tarfile.PAX_FORMAT": "tarfile.GNU_FORMAT"}),
    "sums": ("base/sums.py", {"{lines[name]}  {name}": "{lines[name]} *{name}"}),
    "plan for other machines": (
        "store/planning.py",
        {
            "json.dumps(fields,": 'json.dumps({"plan": fields},',
            "jsontext.mapping(path.read_bytes())": 'jsontext.mapping(path.read_bytes())["plan"]',
        },
    ),
    "journal of a repair": (
        "verify/undoing.py",
        {
            "json.dumps(asdict(": "json.dumps(dict(file=asdict(",
            "None))) +": "None)))) +",
            "**fields)": '**fields["file"])',
        },
    ),
    "state of a run": ("manifest/layout.py", {"work/run.txt": "work/process.txt"}),
    "features": ("evaluation/stored_features.py", {"ids=np": "names=np", '"ids"': '"names"'}),
    "encoded features": ("evaluation/features.py", {'"checkpoint"': '"weights"', '"names"': '"rows"'}),
    "pictures": (
        "evaluation/pictures.py",
        {
            "[asdict(picture) for picture in pictures]": '{"runs": [asdict(picture) for picture in pictures]}',
            "jsontext.parse(path.read_bytes())": 'jsontext.parse(path.read_bytes())["runs"]',
        },
    ),
    "answers": ("evaluation/feature_sets.py", {'("query_id", "gallery_id")': '("query", "answer")'}),
    "backends of results": (
        "evaluation/rows.py",
        {
            'json.loads(backend or "{}")': '{role[1:]: own for role, own in json.loads(backend or "{}").items()}',
            "json.dumps(roles,": 'json.dumps({f"-{role}": own for role, own in roles.items()},',
        },
    ),
    "marker of an export": (
        "exports/writing/output_folder.py",
        {'"format"': '"layout"', '"corpus"': '"of"'},
    ),
    "results": ("evaluation/results.py", {"model_config = ConfigDict(": f"model_config = ConfigDict({UPPER}, "}),
}
"""Format -> its module, and the texts there that are exchanged, wherever they stand.

Benchmarks are written by Snakemake, and tests of those who read them write them by Snakemake's own function.
"""

READERS = (
    "test_formats.py::test_a_written_file_has_its_hash_in_the_list",
    "test_status.py",
    "test_retry.py::test_deleted_and_cut_files_and_damaged_parts_are_made_again_and_no_others",
    "test_kills.py::test_a_line_that_a_killed_worker_left_half_swallows_no_other",
    "test_failures.py::test_a_second_job_waits_for_the_first",
    "test_terminal.py::test_a_failed_job_is_one_line_that_names_its_log",
    "test_plan.py",
    "test_exploits_files.py",
    "test_store.py::test_a_plan_survives_its_way_to_another_machine",
    "test_tars.py::test_damage_is_found_mended_to_the_byte_and_taken_back[deleted-True]",
    "test_composed_run.py::test_features_come_back_from_their_file",
    "test_store_packs.py::test_what_is_packed_is_unpacked",
    "test_score.py::test_pairs_say_what_answers_what",
    "test_published_cells.py::test_features_of_fewer_queries_than_the_split_has_are_said_so",
    "test_skipped.py::test_skipped_perturbations_are_read_as_written",
    "test_export_recipe.py::test_a_lost_table_is_named",
    "test_report_rows.py::test_two_models_never_mix",
    "test_report_rows.py::test_what_cannot_be_compared_is_said_first",
)
"""The tests of those who read a format; of what they need, everything is written by its writer."""
LEFT_OUT = "not plain_json and not another_shape and not killed_run"
"""The tests that hold the bytes of a format themselves, and one that starts real processes for what others read too."""


def test_all_who_read_a_format_follow_its_module(tmp_path: Path) -> None:
    copy = shelves.copy_with(tmp_path / "copy", {})
    for folder in ("tests", "benchmarks"):
        shutil.copytree(shelves.ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(shelves.ROOT / "pyproject.toml", copy)
    for module, exchanged in CHANGES.values():
        path = copy / "perturbations" / module
        text = path.read_text()
        for old, new in exchanged.items():
            assert old in text, f"{module} has no {old}: name here what it writes now"
            text = text.replace(old, new)
        path.write_text(text)
    readers = [f"tests/{name}" for name in READERS]
    shelves.run(copy, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", LEFT_OUT, *readers)


def test_a_written_file_has_its_hash_in_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pages = [Path("manifests/d/a page.md"), Path("manifests/d/suite/README.md")]
    for path in pages:
        storage.write_text(path, path.name)
        assert sums.recorded(path) == storage.sha256(path)
    assert sums.read(Path("manifests/d", sums.NAME)).keys() == {"a page.md", "suite/README.md"}
    subprocess.run(["sha256sum", "--strict", "-c", sums.NAME], cwd="manifests/d", check=True, capture_output=True)
