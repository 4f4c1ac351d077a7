"""One file per command; options, the output sink and the error table once each."""
