# Before the first job: what cannot succeed stops the run.
from contextlib import chdir

from perturbations.preflight import wanted as preflight_jobs

# `perturb check` reads the plan of a dry run.
if workflow.output_settings.dryrun and console.PLAN_VARIABLE in os.environ:
    PLAN = console.PlanRecord(Path(os.environ[console.PLAN_VARIABLE]))
    logger.addHandler(PLAN)
    say = cache(PLAN.add)


def check_before():
    """Before the first job: what cannot succeed stops the run, with one message. `--no-hooks` leaves it out."""
    if workflow.touch:
        return
    from perturbations.preflight import check as preflight

    # In a module, rules may have other names, and other rules stand beside them.
    names = {proxy.rule: name for name, proxy in own_rules()}
    needed = [job for job in workflow.dag.needrun_jobs() if job.rule in names]
    jobs = [(names[job.rule], job.wildcards_dict) for job in needed]
    written = [path for job in needed for path in (*job.output, *job.log, job.benchmark) if path]
    local = workflow.local_exec and not DEPLOYED
    wanted = preflight_jobs.of_jobs(jobs)
    # No job has begun, so nothing else looks where the process is.
    with chdir(CONFIG.at("")):
        if not IN_STORE:
            planned(
                workplace.check_links,
                [
                    *(Path(path).relative_to(PREFIX) for path in written),
                    *(folder / "clip" for folder in wanted.folders),
                ],
            )
        summary = planned(preflight.check, CONFIG, wanted, local, IN_STORE)
    for line in summary.text():
        say(shown.line(line))
    planned(summary.raise_errors)
