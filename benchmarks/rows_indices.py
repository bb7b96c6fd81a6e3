"""Gathers, embeddings and scatters."""

from row import Row

ROWS: list[Row] = []
