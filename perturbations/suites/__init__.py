"""One module a paper: its tables and references, as `SUITE`."""
