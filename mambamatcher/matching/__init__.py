"""What people call: images and pixel points in, target points with their confidence out."""
