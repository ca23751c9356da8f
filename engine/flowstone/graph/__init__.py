"""Workflows as graphs of nodes: written as data, checked before they run, interpreted as an ordinary body over a Flow."""
