# Configuration, all rules, and named targets.
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from snakemake.utils import min_version

min_version("9.20")

# A folder of the package's name alone has no origin.
if getattr(find_spec("perturbations"), "origin", None) is None:
    raise SystemExit(
        "This workflow needs its Python package: pip install 'perturbations[workflow]'; in a checkout, sh envs/install.sh"
    )
if ABSENT := [name for name in ("duckdb", "jinja2", "pyarrow") if find_spec(name) is None]:
    from perturbations.base.project import installation

    raise SystemExit(f"This workflow needs {', '.join(ABSENT)}: {installation('workflow')}")

from perturbations.base import plugins
from perturbations.base.errors import ConfigError
from perturbations.config import file as config_file
from perturbations.corpus.plan import folders
from perturbations.corpus.plan.corpus_rules import CorpusRules, megabytes, minutes, user_mistakes


include: "mixes.smk"


# In a module with `prefix:`, the folder in which its rules put work/, manifests/ and corpora/.
PREFIX = Path(
    rules.mixes.output.types.removesuffix("manifests/{dataset}/{suite}/mixed_types.parquet")
)

FURTHER = workflow.overwrite_configfiles

# In the order in which Snakemake merges them. It has their values, but not where these are written.
with user_mistakes():
    WRITTEN = config_file.load(
        dict.fromkeys(
            map(
                os.path.abspath,
                [*set(workflow.configfiles) - set(FURTHER), "config.yaml", *FURTHER],
            )
        )
    )
    if not WRITTEN.values and not config:
        raise ConfigError("config.yaml: no such file; run this where config.yaml is")


configfile: "config.yaml"


with user_mistakes():
    CONFIG = config_file.parse(config, WRITTEN, PREFIX, sys.argv[1:])
    folders.check_folders(CONFIG.at(""))
    folders.check_own_folder()
    plugins.record(CONFIG.plugins, CONFIG.at(""))


include: "common.smk"
include: "sources.smk"
include: "captions.smk"
include: "analyses.smk"
include: "videos.smk"
include: "manifests.smk"
include: "report.smk"
include: "demo.smk"
include: "evaluation.smk"
include: "composed.smk"
include: "preflight.smk"


for TARGET in list(MENU)[1:]:

    rule:
        name:
            TARGET
        input:
            JOBS.files_of(MENU[TARGET][1], say),

    describe(TARGET)


# A mistyped target is a file that no other rule makes.
if MISTYPED := [word for word in sys.argv[1:] if is_mistyped(word)]:

    rule mistyped_target:
        input:
            nearest_target,
        output:
            MISTYPED,


onstart:
    check_before()


onsuccess:
    list_failures()
    write_index()
    print_roots()


onerror:
    list_failures()
    write_index()
