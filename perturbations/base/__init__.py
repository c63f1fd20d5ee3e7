"""What all others build on: errors, array types, random generators, progress, registries, files, limits, processes."""
