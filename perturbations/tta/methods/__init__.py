"""The shelf of adaptation methods: one file per method, found by `registry`."""
