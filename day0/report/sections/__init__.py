"""JSON of an analysis -> titled sections of a page, one file for each subject."""
