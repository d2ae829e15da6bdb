"""For maintainers of the code."""
