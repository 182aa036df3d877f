"""Signal processing that dimensions and sources share. Knows nothing of recipes, plans or labels."""
