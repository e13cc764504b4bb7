"""Configuration: what may be set, how the places it comes from are merged, and which
combinations make no sense. Pure; ``cosched.node.configuration`` reads the places.
"""
