"""What a script says: its names, calls, loops, what they hold, and what a recording adds to that. Changes nothing."""
