# Before the first job: what cannot succeed stops the run, with one message. `--no-hooks` leaves it out.
from contextlib import chdir

from perturbations.preflight import work as preflight_work


def check_before():
    if snakemake_inside.touches(workflow):
        return
    from perturbations.preflight import check as preflight

    jobs = list(snakemake_inside.needed_jobs(workflow, rules))
    wanted = preflight_work.of_jobs((name, wildcards) for name, wildcards, _ in jobs)
    # Planning writes the lists that the check reads, where the jobs that are left need none of them.
    for collection in wanted.collections:
        JOBS.plan(collection)
    for dataset in sorted(wanted.checked_captions):
        JOBS.caption_shards(dataset)
    # No job has begun, so nothing else looks where the process is.
    with chdir(CONFIG.at("")):
        here = snakemake_inside.runs_here(workflow)
        summary = preflight.check(CONFIG, wanted, here)
    for line in summary.text():
        say(shown.line(line))
    summary.raise_errors()
