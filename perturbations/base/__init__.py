"""What all stands on: errors, array types, random generators, progress, registries, files, limits, processes."""
