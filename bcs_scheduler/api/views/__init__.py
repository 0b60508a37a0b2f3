"""Read models (bcs_api section 7): what records look like to users. Pure functions from records to structs."""
