"""`bcs simulate`: a load or recorded events on a cluster, under several policies."""
