"""Video files: decoded, encoded, checked, compared."""
