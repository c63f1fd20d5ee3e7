# Before the first job: what cannot succeed stops the run, with one message. `--no-hooks` leaves it out.
from contextlib import chdir


def check_before():
    from perturbations.report import check as preflight
    from perturbations.report import work

    # No job has begun, so nothing else looks where the process is.
    with user_mistakes(), chdir(CONFIG.at("")):
        wanted = work.lacking(CONFIG, JOBS.requested, JOBS.plan, JOBS.caption_shards)
        summary = preflight.check(CONFIG, wanted, local=workflow.local_exec)
        for line in summary.text():
            say(shown.line(line))
        summary.raise_errors()
