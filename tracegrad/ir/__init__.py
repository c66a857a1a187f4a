"""The intermediate representation: sizes, types, graphs and their text."""
