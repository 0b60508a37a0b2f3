"""Commands for agents: cordon, uncordon, drain, taint, set agent."""
