"""The backend ``triton``: everything that needs Triton, imported where it runs."""
