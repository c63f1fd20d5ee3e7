"""What kernels need to know of a clip, computed once: motion, main objects, embeddings."""
