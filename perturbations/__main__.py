"""`python -m perturbations` is `perturb`."""

from perturbations.cli.commands import main

raise SystemExit(main())
