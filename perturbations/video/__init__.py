"""Kernels that change the pixels of videos. They import NumPy and OpenCV and nothing of this package."""
