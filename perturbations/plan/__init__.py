"""What must be made. No NumPy: Snakemake imports it at every start."""
