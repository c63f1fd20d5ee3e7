# The workflow is workflow/Snakefile, which Snakemake and its catalog look for. This file is for commands that name `Snakefile`.
include: "workflow/rules/main.smk"


rule all:
    default_target: True
    input:
        JOBS.files_of(MENU["all"][1], say),


describe("all")
