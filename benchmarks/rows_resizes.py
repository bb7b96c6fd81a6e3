"""Slices, pads, concatenations and rotary embeddings."""

from row import Row

ROWS: list[Row] = []
