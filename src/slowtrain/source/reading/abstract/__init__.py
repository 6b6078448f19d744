"""What a script would do if it ran, worked out without running it: abstract interpretation of its text.

The script is gone through as Python would go through it, from its first statement, into the functions and methods
that it calls with what they are given, once for each loop. Instead of numbers and arrays the names hold what kind of
thing they would hold (``values``), and what the run would do is written down (``events``): a call, the loops in whose
turns it stands, through whatever functions and generators, and which of its arguments are others in each turn.

    values    what a name may hold
    things    what is inside of values
    names     the names of one function while it runs
    events    what is written down, and the loops around it
    library   what NumPy's, TensorFlow's and Keras's functions give back
    python    what Python's own do (functional: those that take functions; texts; drawing at random)
    parsing, tables   what is read out of records; tables of pandas
    shapes, axes   the shapes of what those give
    running   those of them that run functions of the script: data sets, fit, callbacks
    steps     which calls take training steps, and the loops that take one in each turn
    standing  in which loops, calls and graphs it is just now
    conditions   which hold, and which in most turns
    calls     whom a call runs
    expressions, machine    expressions, and statements, where it begins: ``machine.events(source)``
"""
