"""User documents (bcs_api section 6): their shape as structs, the check that reports everything wrong at once, and
what they become."""
