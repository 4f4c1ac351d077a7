"""What two ops share."""
