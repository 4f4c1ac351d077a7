"""lower(model, target): one plain function per pass, in a fixed order."""
