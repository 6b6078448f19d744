"""Tables of the machine checks: rules, thresholds, memory of cards."""
