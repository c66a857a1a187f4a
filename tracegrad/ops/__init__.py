"""The ops: one paragraph each, with derivative, samples and spellings."""
