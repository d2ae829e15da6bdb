"""Distributed sites on one machine: real sessions and a real relay, a virtual clock and network."""
