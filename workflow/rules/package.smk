# The package of the workflow: that of the checkout, which need not be installed, or the installed one.
import sys
from importlib.util import find_spec
from pathlib import Path

from snakemake.exceptions import WorkflowError

PROJECT = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]
sys.path.insert(0, str(PROJECT))
# A folder of the package's name alone has no origin.
if getattr(find_spec("perturbations"), "origin", None) is None or find_spec("pyarrow") is None:
    raise WorkflowError(f"This workflow needs its Python package: pip install '{PROJECT}'")
