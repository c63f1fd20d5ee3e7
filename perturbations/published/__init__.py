"""The published tables: numbers of four papers as data, and what they were measured on."""
