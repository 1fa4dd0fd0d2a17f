"""The selective scan: forward and backward pass over tiles of a sequence."""
