"""Standing capacity: agents that all programs share, all the time.

The free amounts of an agent are its allocatable amounts, less the amounts of its users, less the claims of this
scheduler. A placement takes no offer away, and nothing expires.

    model   agents, users of them, claims, nominations: values
    usage   the resources that units hold on agents, each unit once
    row     an agent as the matcher sees it
    pool    agents and usage together, as `offers.capacity.Capacity`
"""
