"""The parallel plan: which meshes are legal, what a rank holds, what is sent, what is predicted."""
