"""One file per mechanism: its spec, its reader, its tensor names and its flow."""
