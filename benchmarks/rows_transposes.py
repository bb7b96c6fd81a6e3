"""Transposes: tensors of several orders in one kernel."""

from row import Row

ROWS: list[Row] = []
