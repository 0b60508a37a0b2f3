"""Test vectors of the placement policies: files of the format policy-vectors/1, and their runner.

    python -m tests.vectors tests/vectors/policy_vectors.json

`policy_vectors.json` is the specification's own set; `eviction_vectors.json` says who is evicted, who is moved and who
waits, and has a vector for each fault of these rules that was found. One module per value of `policy` (session,
hierarchical, scenario) translates a vector into a call of the engine and compares what comes out: see
`tests.vectors.adapters`.
"""
