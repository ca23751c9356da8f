"""How values, errors and durations are recorded as JSON text and restored from it; front: codec.py, failures.py, duration.py."""
