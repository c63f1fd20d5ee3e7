"""What kernels need to know about a clip, computed once: motion, main objects, embeddings."""
