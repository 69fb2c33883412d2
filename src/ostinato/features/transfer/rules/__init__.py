"""Rules of moves from other systems: what their rows and files say, as jobs. Nothing here does I/O."""
