"""Encodes what a starter and the container server of its node say to each other.

Used by both, and in C by native/starter.c, which must be changed with it. Texts end with a zero
byte, as those of the kernel do, so that a program without any library can read them. What the words
mean is decided by the two who use it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

RANK, BESIDE, TERMINAL = "rank", "exec", "terminal"
# Before what kept a rank from running; a connection that just ends is that of a running rank.
FAILED = b"!"
NO_RANK = -1  # of a command beside any of them
LISTENER = b"?"  # before the number of a process that has been filtered; with its listener


class Hello:
    """The first words of a starter: it wants to be a rank, to run beside one, or a terminal.

    `rank` is the number of the rank to be, or of the one beside which it runs; the terminal is the
    one that a rank is to have.
    """

    def __init__(
        self,
        rank: int,
        pid: int = 0,
        step: str = "",
        tasks: str = "",
        node: int = 0,
        folders: tuple[str, ...] = (),
        kind: str = RANK,
    ) -> None:
        self.rank, self.pid, self.step, self.kind = rank, pid, step, kind
        self.tasks, self.node = tasks, node  # how many on each node, as Slurm says it; which it is
        self.folders = folders  # of its PMI, which must be seen inside

    def encoded(self) -> bytes:
        numbers = (self.kind, str(self.rank), str(self.pid), self.step, self.tasks, str(self.node))
        return _texts([*numbers, *self.folders])

    @staticmethod
    def decoded(data: bytes) -> Hello:
        kind, rank, pid, step, tasks, node, *folders = _split(data)
        numbers = (int(text or 0) for text in (rank, pid, node))
        rank_number, pid_number, node_number = numbers
        return Hello(rank_number, pid_number, step, tasks, node_number, tuple(folders), kind)


class Answer:
    """The process to become, in the namespaces that come with it; or an error."""

    def __init__(
        self,
        argv: list[str],
        env: Mapping[str, str],
        cwd: str = "/",
        has_user: bool = False,
        user: tuple[int, int, list[int]] | None = None,
        dropped: tuple[int, ...] = (),
        seccomp: bytes = b"",
        error: str = "",
        is_told: bool = True,
        asks: bytes = b"",
    ) -> None:
        self.argv, self.env, self.cwd, self.error = argv, env, cwd, error
        self.has_user = has_user  # whether the last of the namespaces is that of its user
        self.user, self.dropped, self.seccomp = user, dropped, seccomp
        self.is_told = is_told  # whether it has the variables that Slurm gave to its task
        self.asks = asks  # a filter too: of calls that are asked about, for the cluster's sake

    def encoded(self) -> bytes:
        """Return the length of all that follows, both filters after theirs, and texts."""
        ids = [] if self.user is None else [self.user[0], self.user[1], *self.user[2]]
        flags = f"{int(self.has_user)}{int(self.is_told)}"
        head = [self.error, flags, _numbers(ids), _numbers(self.dropped)]
        argv = [self.cwd, str(len(self.argv)), *self.argv]
        env = [f"{name}={text}" for name, text in self.env.items()]
        filters = b"".join(_length(one) + one for one in (self.seccomp, self.asks))
        data = filters + _texts([*head, *argv, *env])
        return _length(data) + data

    @staticmethod
    def decoded(data: bytes) -> Answer:
        """Read what follows the first length."""
        seccomp, data = _first(data)
        asks, data = _first(data)
        texts = _split(data)
        error, flags, ids, dropped, cwd, count = texts[:6]
        argv, env = texts[6 : 6 + int(count)], texts[6 + int(count) :]
        numbers = [int(text) for text in ids.split()]
        pairs = (text.partition("=") for text in env)
        return Answer(
            argv,
            {name: text for name, _, text in pairs},
            cwd,
            flags[0] == "1",
            (numbers[0], numbers[1], numbers[2:]) if numbers else None,
            tuple(int(text) for text in dropped.split()),
            seccomp,
            error,
            flags[1] == "1",
            asks,
        )


def _first(data: bytes) -> tuple[bytes, bytes]:
    """Return what follows a length, and what follows that."""
    end = 4 + int.from_bytes(data[:4], "little")
    return data[4:end], data[end:]


def _length(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little")


def _numbers(numbers: list[int] | tuple[int, ...]) -> str:
    return " ".join(map(str, numbers))


def _texts(texts: list[str]) -> bytes:
    return b"".join(text.encode(errors="surrogateescape") + b"\0" for text in texts)


def _split(data: bytes) -> list[str]:
    return [text.decode(errors="surrogateescape") for text in data.split(b"\0")[:-1]]
