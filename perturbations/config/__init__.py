"""`config.yaml`: its sections as typed objects, where its keys are written, and messages about its mistakes."""
