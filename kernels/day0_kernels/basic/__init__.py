"""The small glue ops: activations, sums, norms, projections, rows."""
