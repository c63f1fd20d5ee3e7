"""Kernels that change the pixels of videos. They import NumPy and OpenCV, and of this package only each other."""
