"""Work on dask: on a cluster that runs already, or on one of this machine that ends with the command.

Workers must make the same bytes as this process: same code, same versions, one thread. They're asked before any work; one that joins
later is asked before its first task. Errors of ours come back as they are; a worker that dies costs its task only (see `dask_worker`).
Only this module, `dask_team` and `dask_worker` know dask.
"""

from __future__ import annotations

import json
import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from builder.dask_team import DaskTeam
from builder.dask_worker import asker, credentials
from builder.engines import Map, Told, map_of, untold, warn
from builder.errors import ClusterUnusable
from builder.words import counted

START_A_WORKER = "start some with `dask worker ADDRESS --nthreads 1`, in an environment with the same commit of vocalgrad"
INSTALL = "--engine dask needs the extra: `pip install 'vocalgrad[dask]'`, or leave --engine out"

# -- to a cluster and from it -----------------------------------------------------------------------------------------


@contextmanager
def opened(n_workers: int, scheduler: str | None, wait_s: float) -> Iterator[Dask]:
    """An engine on a running cluster, or on one of so many workers that ends with it; see `engines.opened`."""
    try:
        import dask
        import distributed
    except ImportError as error:
        raise ClusterUnusable(f"{INSTALL} ({error})") from error
    with ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}))  # plans name many recordings
        if scheduler is None:
            address = stack.enter_context(_own_cluster(n_workers)).scheduler_address
        else:
            address = _address(scheduler, wait_s)
            _check_address(address)
        try:
            client = stack.enter_context(closing(distributed.Client(address, timeout=wait_s, set_as_default=False)))
        except (OSError, ValueError) as error:
            raise ClusterUnusable(
                f"no dask scheduler answers at {address} within {wait_s:.0f} s ({error}): start one with `dask scheduler`, "
                "and see that this machine reaches its address"
            ) from error
        engine = Dask(client, address, wait_s)
        engine.check()
        yield engine


def _own_cluster(n_workers: int) -> AbstractContextManager[Any]:
    """A cluster on this machine.

    Its workers have no limit of memory: at a share of one dask would stop giving them tasks, then end them, while what fills the
    memory is one task's own, and nothing gets better by waiting. As with processes, the system ends a worker that takes too much, and
    its task is done again.
    """
    import distributed

    resource_tracker.ensure_running()  # its start would unblock signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C goes to the whole group; this process ends the workers
    try:
        cluster: AbstractContextManager[Any] = distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # the port of its health page; another may have the usual one
            scheduler_kwargs={"dashboard": False},
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return cluster


def _address(scheduler: str, wait_s: float) -> str:
    """The address itself, or that in a scheduler file, which is waited for."""
    if "://" in scheduler:
        return scheduler
    path, until_s = Path(scheduler), time.monotonic() + wait_s
    while True:
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["address"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            if time.monotonic() > until_s:
                raise ClusterUnusable(
                    f"--scheduler {scheduler} is neither an address such as tcp://host:8786 nor, within {wait_s:.0f} s, a scheduler file "
                    f"({error}): start one with `dask scheduler --scheduler-file {scheduler}`"
                ) from error
        time.sleep(0.2)


def _check_address(address: str) -> None:
    """Raise `ClusterUnusable` for what dask can't connect to: given that, its client leaves a connection behind that fails at the end."""
    from distributed.comm import get_address_host_port

    try:
        get_address_host_port(address, strict=True)
    except ValueError as error:
        raise ClusterUnusable(
            f"{address} isn't an address of a dask scheduler ({error}): "
            "give its host and port, such as tcp://host:8786, or its scheduler file"
        ) from error


class Dask:
    """An engine on a dask cluster.

    Parameters
    ----------
    client
        A `distributed.Client`.
    address
        Of its scheduler, for people.
    wait_s
        How long to wait for workers while there are none, in seconds.
    """

    def __init__(self, client: Any, address: str, wait_s: float) -> None:
        self.client = client
        self.address = address
        self.wait_s = wait_s
        self._without_since_s: float | None = None

    def __str__(self) -> str:
        return f"{counted(self.n_workers(), 'worker')} of dask at {self.address}"

    def team(self, start: Callable[..., object] = untold, arguments: tuple[Any, ...] = ()) -> DaskTeam:
        """The cluster's workers, begun in one way."""
        return DaskTeam(self, start, arguments)

    def each(
        self, told: Told = untold, start: Callable[..., object] = untold, arguments: tuple[Any, ...] = ()
    ) -> AbstractContextManager[Map]:
        """A `map` over the cluster's workers, results in order."""
        return map_of(self.team(start, arguments), told)

    def workers(self) -> dict[str, dict[str, Any]]:
        """Address -> what the scheduler knows of a worker."""
        found: dict[str, dict[str, Any]] = self.client.scheduler_info(n_workers=-1)["workers"]
        return found

    def n_workers(self) -> int:
        """Workers that are there."""
        return len(self.workers())

    def check(self) -> None:
        """Wait for a worker, and ask all that are there whether they can make this process's bytes.

        Raises
        ------
        ClusterUnusable
            There's none, or one of them can't: each is listed with what it lacks.
        """
        while not self.workers():
            self.wait()
            time.sleep(0.2)
        self.wait()
        faults = [*self._other_pythons()] or [*self._unfit()]
        if faults:
            raise ClusterUnusable(
                f"workers of {self.address} can't make the bytes that this process would; nothing was begun:\n"
                + "\n".join(f"  {fault}" for fault in sorted(faults))
            )

    def _other_pythons(self) -> Iterator[str]:
        """Workers with another Python, which couldn't even read what they're asked."""
        found = self.client.get_versions()
        mine = _minor(found["client"])
        for address, worker in found["workers"].items():
            if _minor(worker) != mine:
                yield f"worker at {address} has Python {_minor(worker)}, this process has {mine}"

    def _unfit(self) -> Iterator[str]:
        names = {address: worker["name"] for address, worker in self.workers().items()}
        answers = self.client.run(asker(credentials()), on_error="return")
        still_there = self.workers()
        for address, lacking in answers.items():
            said = [f"can't be asked: {lacking}"] if isinstance(lacking, BaseException) else lacking
            if address in still_there:
                yield from (f"worker {names.get(address, '?')} at {address} {fault}" for fault in said)

    def wait(self) -> None:
        """Called now and then: says so if there's no worker that takes tasks, and raises `ClusterUnusable` if that lasts."""
        if self.client.status != "running":
            raise ClusterUnusable(f"the connection to the dask scheduler at {self.address} is lost: run the same command again to go on")
        there = self.workers()
        if any(worker["status"] == "running" for worker in there.values()):
            self._without_since_s = None
            return
        state = (
            f"its {counted(len(there), 'worker takes', 'workers take')} no tasks (paused by their limit of memory)"
            if there
            else "it has no workers"
        )
        advice = "give them more memory, or fewer to a machine" if there else START_A_WORKER.replace("ADDRESS", self.address)
        if self._without_since_s is None:
            self._without_since_s = time.monotonic()
            warn(f"dask scheduler at {self.address}: {state}; waiting for {self.wait_s:.0f} s")
        elif time.monotonic() - self._without_since_s > self.wait_s:
            raise ClusterUnusable(f"dask scheduler at {self.address}: {state}, for {self.wait_s:.0f} s: {advice}, and run this again")


def _minor(versions: dict[str, Any]) -> str:
    return ".".join(versions["host"]["python"].split(".")[:2])
