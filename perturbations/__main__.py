"""`python -P -m perturbations` is `perturb`; without `-P`, a folder of that name where it is started would be run."""

from perturbations.cli.main import main

raise SystemExit(main())
