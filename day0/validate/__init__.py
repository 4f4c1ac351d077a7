"""Measures a model and checks that its state is consistent; gives data, which `report` renders."""
