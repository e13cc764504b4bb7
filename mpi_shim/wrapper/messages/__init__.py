"""Point-to-point calls."""
