"""One folder an operator."""
