"""From the section `evaluation` of config.yaml to the runs of jobs, their files and their rules."""
