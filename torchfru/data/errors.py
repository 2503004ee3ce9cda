"""The error of this subpackage."""


class DataError(RuntimeError):
    """Data that cannot be used: one line that names the file and says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))  # a library's reason may have several
