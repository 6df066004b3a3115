"""The two ways a run can end badly, each with its exit code on the command line."""


class AskewError(ValueError):
    """Bad input. The message is one line: what is wrong, the value received, the remedy."""

    exit_code = 2


class DivergedError(AskewError):
    """Training produced NaN or infinity. The last good weights are kept."""

    exit_code = 3
