"""The `demo` dataset: clips that the package draws itself."""
