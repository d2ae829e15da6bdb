"""The compiled leaves of the machine: functions over arrays and scalars, nothing else.

Read them in the order a tuple meets them: `stream` (arrivals and deadlines), `select`
(best_selection), `expire` (delay_constraint and merge), `release` (output_cluster), `cut` and
`split` (the two ways to split), `reuse` (the reusable classes), `gate` (the recount in front of
every release). `layout` names the arrays, `counts` counts distinct persons and values, `box` is
geometry.

All arithmetic that decides anything is on integers: coordinates and losses are multiples of
1/GRID. Sums are therefore exact in any order, on any processor and at any vector width, and the
plain-Python twin in tests/ can demand equality tuple for tuple.
"""
