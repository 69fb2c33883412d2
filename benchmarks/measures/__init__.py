"""The measures, each in its own module, and the code that runs subjects."""
