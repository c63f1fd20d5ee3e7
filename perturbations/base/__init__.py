"""What all stands on: errors, array types, random generators, progress, shelves, files, limits, processes."""
