"""What is run against a finished dataset. Nothing here imports `builder`: a dataset is judged by its published rows alone.

`python -m evaluation.oracle` answers every item from its sound with measures that made no label: a check of the labels by
somebody else's methods, and the figure that a model which hears should come near.
"""
