"""`python -m perturbations` is `perturb`."""

from perturbations.cli.main import main

raise SystemExit(main())
