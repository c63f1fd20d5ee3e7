# Before the first job: what cannot succeed stops the run, with one message. `--no-hooks` leaves it out.
from contextlib import chdir


def requests_to_slurm():
    """What each job asks of Slurm, as Snakemake's profiles and options have it."""
    from perturbations.corpus.slurm_site import JobRequest

    for job in workflow.dag.needrun_jobs():
        if not job.is_local:
            yield JobRequest.of(job.rule.name, job.threads, job.resources)


def check_before():
    from perturbations.corpus import check_before_a_run, slurm_site
    from perturbations.corpus.plan import resources

    # No job has begun, so nothing else looks where the process is.
    with user_mistakes(), chdir(CONFIG.at("")):
        # Snakemake would wait without end.
        if 0 in (workflow.resource_settings.cores, workflow.nodes):
            raise ConfigError(
                "no job can start with --cores 0 or --jobs 0: give a number from 1, such as --cores 2"
            )
        summary = check_before_a_run.check(CONFIG, JOBS.requested)
        if workflow.executor_plugin.name == "slurm":
            limits = slurm_site.check(requests_to_slurm(), workflow.nodes, summary)
            resources.LIMITS.update(limits)
        for line in summary.text():
            say(shown.line(line))
        summary.raise_errors()
