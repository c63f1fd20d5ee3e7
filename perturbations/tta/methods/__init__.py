"""Adaptation methods: one file per method, listed by `registry`."""
