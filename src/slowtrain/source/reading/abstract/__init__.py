"""Abstract interpretation of a script: what it would do if it ran, without running it.

The interpreter executes the script from its first statement, enters the functions and methods that it calls with
their arguments, and executes each loop's body as one turn that stands for all. Instead of numbers and arrays, names
hold abstract values (``values``). What the run would do is recorded as events (``events``): each call, the loops around
it through all functions and generators on the way, and which arguments change in each turn.

    values    the abstract values
    things    items, attributes, lengths and arithmetic of values
    names     the names of one function while it runs
    events    the recorded events, and the loops around them
    standing  the loops, calls and graphs around the current place; the limits
    shapes, axes   shapes of what functions give
    library   what functions of NumPy, TensorFlow and Keras give
    python    what Python's own functions give (functional: those that take functions; texts; drawing: random numbers)
    parsing, tables   records of files; pandas
    running   functions of the script that libraries run: data sets, ``fit``, callbacks
    conditions   which conditions hold, and which hold in most turns
    calls     the callee of a call
    expressions, machine    expressions and statements; the entry is ``machine.events(source)``
    modules   other files of the project
    training  the calls that take training steps, and the loops around them
"""
