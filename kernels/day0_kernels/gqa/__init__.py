"""Grouped-query softmax attention: windows, sinks, soft cap. See README.md."""
