"""`python -m perturbations` is `perturb`."""

from perturbations.cli import main

raise SystemExit(main())
