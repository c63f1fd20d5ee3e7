# Before the first job: what cannot succeed stops the run, with one message. `--no-hooks` leaves it out.
from contextlib import chdir


def check_before():
    from perturbations.corpus import check_before_a_run

    # No job has begun, so nothing else looks where the process is.
    with user_mistakes(), chdir(CONFIG.at("")):
        summary = check_before_a_run.check(CONFIG, JOBS.requested)
        for line in summary.text():
            say(shown.line(line))
        summary.raise_errors()
