"""Layers as the engines run them: with a client axis, with dropout by keys, with kernels of our own."""
