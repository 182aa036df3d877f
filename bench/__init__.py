"""How long the machinery takes and what memory, measured by commands. Numerical libraries run on one thread, as in a worker."""

from builder import pin_threads

pin_threads()
