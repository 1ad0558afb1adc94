"""Compiled hot loops: the only package that imports Numba."""
