"""Abstract interpretation of a script: what it would do if it ran, without running it.

The interpreter executes the script from its first statement, enters the functions and methods that it calls with
their arguments, and executes each loop's body as one turn that stands for all. Instead of numbers and arrays, names
hold abstract values. What the run would do is recorded as events: each call, the loops around it through all functions
and generators on the way, and which arguments change in each turn.
"""
