"""Where a model comes from: hub id, folder, demo -> raw config and tensor headers.

Never weights, never remote code, never pickle files.
"""
