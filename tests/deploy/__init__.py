"""The files of deploy/: checked by the tools of their formats, and their commands run as they stand there."""
