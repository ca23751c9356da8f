"""Carrying runs out: passes of bodies, attempts of steps, ownership. On top of the ports, never of a store."""
