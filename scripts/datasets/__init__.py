"""The named data sets: one generated, the others read from a data folder (`registry` has them)."""
