"""`config.yaml`: its sections as typed objects, where its keys stand, and messages about its mistakes."""
