"""Events of a cluster that a simulation repeats: lines for simulations, events of a scheduler, decision logs."""
