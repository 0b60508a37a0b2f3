"""`make demo`: the main job from end to end on the embedded cluster."""
