"""What the export formats share: files, columns, cards, and records."""
