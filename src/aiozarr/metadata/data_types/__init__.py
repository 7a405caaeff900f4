"""The data types of aiozarr. Importing a module registers its types."""
