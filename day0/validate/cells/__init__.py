"""The cells of the consistency matrix, a file for each kind."""
