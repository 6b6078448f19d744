"""Abstract interpretation of a script: what it would do if it ran, without running it.

The interpreter executes the script from its first statement, enters the functions and methods that it calls with
their arguments, and executes each loop's body as one iteration that stands for all. Names hold abstract values instead
of numbers and arrays. The calls that the run would make are recorded as events, with the loops around them through all
functions and generators on the way, and the arguments that change in each iteration.
"""
