"""The same work on one machine or on many: inputs are cut into parts, and each part is a file that is written once."""
