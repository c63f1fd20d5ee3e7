"""From a clean clip and a recipe to perturbed frames."""
