"""The error of this subpackage."""


class DataError(RuntimeError):
    """Data that cannot be used: one line that names the file and says what to do."""
