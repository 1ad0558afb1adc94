"""How fast swordplay is, side by side with what else one could use: ``python -m benchmarks``."""
