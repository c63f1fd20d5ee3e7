"""The shelf of published evaluation protocols: one file per paper, each of which declares `PROTOCOLS`."""
