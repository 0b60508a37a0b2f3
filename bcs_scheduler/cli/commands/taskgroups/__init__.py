"""Commands for running taskgroups: exec, cp, signal, restart, reload, env, commit."""
