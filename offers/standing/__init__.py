"""Standing capacity: agents that are there for everybody, all the time.

What is free of an agent is what it has to give, less what is used on it, less what this scheduler claims there. Nothing
is taken away by a placement and nothing expires.

    model   agents, users of them, claims, nominations: values
    usage   who holds what on which agent, each unit once
    row     an agent as the matcher sees it
    pool    agents and usage together, as `offers.capacity.Capacity`
"""
