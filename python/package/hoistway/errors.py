"""The exception of the package."""


class Error(Exception):
    """What went wrong, in the words that the command prints.

    ``exit_code`` is the command's: 1 failed, 2 usage, 3 refused for safety, 6 something could not be put back.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message, exit_code)
        self.message = message
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.message
