"""Asking the Hub patiently: what to wait for, how long, and how a fault is told to people.

`huggingface_hub` itself retries uploads, downloads and listings (5 times, waiting as `Retry-After` says), but not what creates a
repository, a commit or a tag. Here everything is asked again while the fault is the Hub's or the network's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TypeVar

import httpx2
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils._http import parse_ratelimit_headers

from builder.errors import HubNotAsked, NotPublished

TRIES = 6
MAX_WAIT_S = 600.0
"""Longer waits are left to the user."""
TRANSIENT = (408, 429, 500, 502, 503, 504)
AGAIN = "run the same command again: what arrived isn't sent again"
FAULTS = (OSError, RuntimeError, ValueError, httpx2.HTTPError)
"""What calls to the Hub raise; anything else is a fault of this program."""

ANSWERS = (HfHubHTTPError, httpx2.TransportError, json.JSONDecodeError, ConnectionError, TimeoutError)
"""Errors that are an answer of the Hub, or that none came; the last two are raised by uploads over Xet."""

Say = Callable[[str], None]
T = TypeVar("T")


def patiently(call: Callable[[], T], what: str, say: Say) -> T:
    """The answer of a call that may be repeated; waits and asks again while the fault is the Hub's or the network's.

    Parameters
    ----------
    call
        What is asked.
    what
        What that is, for people.
    say
        Takes lines for people.

    Raises
    ------
    NotPublished
        It stayed a fault, or is one that waiting doesn't help; caused by the error of the last try.
    """
    for turn in range(1, TRIES + 1):
        try:
            return call()
        except FAULTS as error:
            pause_s = wait_s(error, turn)
            if pause_s is None or turn == TRIES:
                raise told(error, what) from error
            say(f"wait     {what}: {short(error)}; trying again in {pause_s:.0f} s")
            time.sleep(pause_s)
    raise AssertionError("the last turn returns or raises")


def _root(error: BaseException | None) -> BaseException | None:
    """The answer or lost connection behind an error: uploads and downloads wrap it."""
    while error is not None and not isinstance(error, ANSWERS):
        error = error.__cause__
    return None if isinstance(error, OfflineModeIsEnabled) else error


def status(error: BaseException) -> int | None:
    """The HTTP status behind an error, if there is one."""
    root = _root(error)
    return int(root.response.status_code) if isinstance(root, HfHubHTTPError) else None


def wait_s(error: Exception, turn: int) -> float | None:
    """Seconds to wait before asking again; None if that wouldn't help."""
    root = _root(error)
    if isinstance(root, HfHubHTTPError):
        if root.response.status_code not in TRANSIENT:
            return None
        asked_s = _asked_s(root)
        if asked_s is not None:
            return asked_s if asked_s <= MAX_WAIT_S else None
    return None if root is None else float(2 ** (turn - 1))


def _asked_s(error: HfHubHTTPError) -> float | None:
    """Seconds that the Hub asks to wait, if it does."""
    limit = parse_ratelimit_headers(error.response.headers)
    if error.response.status_code == 429 and limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds + 1.0
    after = error.response.headers.get("Retry-After", "")
    return float(after) if after.isdecimal() else None


def short(error: Exception) -> str:
    """A fault in a few words."""
    code = status(error)
    return f"the Hub answered {code}" if code else f"no answer ({type(_root(error) or error).__name__})"


def told(error: Exception, what: str) -> NotPublished:
    """An error as the user should read it: what, why, what to do."""
    root = _root(error)
    if isinstance(error, NotPublished):
        return error
    if isinstance(error, OfflineModeIsEnabled):
        return HubNotAsked("HF_HUB_OFFLINE is set, so the Hub may not be asked: unset it")
    said = "; ".join(line for line in str(error).splitlines() if line) or type(error).__name__
    if isinstance(error, ValueError) and not isinstance(error, json.JSONDecodeError):
        return NotPublished(f"{what}: {said}")
    if isinstance(root, RevisionNotFoundError):
        return NotPublished(f"{what}: the Hub has no such tag or commit: see the repository's tags for what is published")
    if isinstance(root, RepositoryNotFoundError):
        return NotPublished(f"{what}: the Hub has no such dataset, or the token may not see it: check its name, and `hf auth whoami`")
    if isinstance(root, HfHubHTTPError):
        return NotPublished(f"{what}: {_answered(root)}")
    if root is None:
        return NotPublished(f"{what}: {said}")
    return HubNotAsked(f"{what}: no answer from {constants.ENDPOINT} ({said}): check the network, then {AGAIN}")


def _answered(error: HfHubHTTPError) -> str:
    code, said = error.response.status_code, (error.server_message or "no reason given").splitlines()[0]
    if code == 401:
        return f"the Hub doesn't take the token (401, {said}): log in again with `hf auth login`, or set HF_TOKEN"
    if code == 403:
        return f"the token may not do this (403, {said}): use one that may write there, or propose it with --pr"
    if code == 429:
        pause_s = _asked_s(error)
        return f"too many requests (429): wait {'a while' if pause_s is None else f'{pause_s:.0f} s'}, then {AGAIN}"
    return f"the Hub answered {code} ({said})" + (f"; {AGAIN}" if code in TRANSIENT else "")
