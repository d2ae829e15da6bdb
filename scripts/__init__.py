"""The commands: `dcastle <verb>` is `scripts/<verb>.py`."""
