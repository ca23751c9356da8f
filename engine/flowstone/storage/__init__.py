"""The stores behind ports.py, one folder each. Nothing is decided here."""
