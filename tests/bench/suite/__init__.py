"""Runs the workers in turns, compares, and writes the tables. `tests/bench/run` starts it."""
