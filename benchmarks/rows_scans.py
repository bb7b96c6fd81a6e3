"""Scans, sorts and the greatest elements of rows."""

from row import Row

ROWS: list[Row] = []
