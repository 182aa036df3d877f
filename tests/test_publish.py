"""Publishing by the real clients to a Hub on loopback: what is sent, what is refused, and what goes wrong on the way."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from hub.client import Commands, Said, Server, serving
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RepositoryNotFoundError, RevisionNotFoundError

from builder import patience, release
from builder.__main__ import main
from builder.errors import NotPublished

TAG = "v0.1.0-seed.1"
COMMIT = r"^POST /api/datasets/[^/]+/[^/]+/commit/main$"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Hub whose trees come in pages of three files."""
    with serving(tmp_path_factory.mktemp("hub"), page=3) as server:
        yield server


@pytest.fixture(scope="module")
def vocalgrad(hub: Server) -> Iterator[Commands]:
    """`vocalgrad` with a token that may write."""
    commands = Commands(hub)
    yield commands
    commands.close()


@pytest.fixture
def publish(hub: Server, vocalgrad: Commands, audited: Path, request: pytest.FixtureRequest) -> Iterator[Commands]:
    """Publishes the dataset to a repository of this test's own; no fault is set."""
    hub.go_wrong()
    name = re.sub(r"\W+", "-", request.node.name)[:80].strip("-")

    def run(*options: str, repo: str = f"acme/{name}", dataset: Path = audited, token: str | None = "hf_write") -> Said:
        return vocalgrad("publish", repo, "--dataset", dataset, "--workers", "1", *options, token=token)

    run.repo = f"acme/{name}"  # type: ignore[attr-defined]
    yield run  # type: ignore[misc]
    hub.go_wrong()


def n_files(dataset: Path) -> int:
    """Files of a dataset."""
    return sum(path.is_file() for path in dataset.rglob("*"))


def served(hub: Server, repo: str, path: str, revision: str = TAG) -> bytes:
    """A file as a stranger gets it."""
    with httpx2.Client(trust_env=False) as client:
        return client.get(f"{hub.url}/datasets/{repo}/resolve/{revision}/{path}").raise_for_status().content


def listed(hub: Server, repo: str, revision: str = TAG) -> set[str]:
    """Files of a revision."""
    with httpx2.Client(trust_env=False) as client:
        found = client.get(f"{hub.url}/api/datasets/{repo}/revision/{revision}").raise_for_status().json()
    return {item["rfilename"] for item in found["siblings"]}


def commits(hub: Server, repo: str) -> list[str]:
    """Titles of the commits of the main branch, the newest first."""
    with httpx2.Client(trust_env=False) as client:
        return [item["title"] for item in client.get(f"{hub.url}/api/datasets/{repo}/commits/main").raise_for_status().json()]


# -- what is sent -----------------------------------------------------------------------------------------------------


def test_what_is_on_the_hub_is_what_was_built(hub: Server, publish: Commands, audited: Path) -> None:
    """One commit with every file of the folder, byte for byte, under the release's tag."""
    said = publish()
    assert said.status == 0, said.err
    assert re.search(rf"{publish.repo}@{TAG} is published, on commit [0-9a-f]{{40}}\n$", said.out)
    assert commits(hub, publish.repo) == ["vocalgrad 0.1.0+seed.1", "initial commit"]
    names = {path.relative_to(audited).as_posix() for path in audited.rglob("*") if path.is_file()}
    assert listed(hub, publish.repo) == names | {".gitattributes"}
    for name in names:
        assert served(hub, publish.repo, name) == (audited / name).read_bytes(), name


def test_the_second_run_sends_nothing(hub: Server, publish: Commands) -> None:
    """No file, no commit, no tag: it only looks."""
    assert publish().status == 0
    hub.go_wrong()
    said = publish()
    assert (said.status, hub.sent()) == (0, [])
    assert "is published already, on commit" in said.out
    assert hub.log("POST ") == []


def test_a_dry_run_sends_nothing_and_lists_every_file(hub: Server, publish: Commands, audited: Path) -> None:
    """With its bytes; a repository that isn't there isn't made."""
    said = publish("--dry-run")
    assert (said.status, hub.sent()) == (0, [])
    lines = said.out.splitlines()
    assert f"{publish.repo} would be made" in lines
    size = (audited / "README.md").stat().st_size
    assert any(re.fullmatch(rf"new +{size:,}  README.md", line) for line in lines)
    assert lines[-1].startswith(f"send {n_files(audited)} files")
    assert publish("--dry-run").out == said.out


def test_what_is_not_of_the_release_is_removed(hub: Server, publish: Commands, audited: Path) -> None:
    """A file from before goes with the same commit; `.gitattributes` stays; only what differs is sent."""
    assert publish("--pr").status == 0
    hub.control("merge", {"repo": publish.repo, "number": 1})
    hub.control("write", {"repo": publish.repo, "path": "old/data.txt", "content": "old"})
    hub.control("write", {"repo": publish.repo, "path": "README.md", "content": "mine"})
    said = publish("--dry-run")
    assert re.search(r"^changed +[\d,]+  README.md$", said.out, re.M)
    assert re.search(r"^remove +3  old/data.txt$", said.out, re.M)
    assert f"send 1 file, 0.0 MB; there {n_files(audited) - 1} files" in said.out
    assert publish().status == 0
    assert listed(hub, publish.repo) == {path.relative_to(audited).as_posix() for path in audited.rglob("*") if path.is_file()} | {
        ".gitattributes"
    }
    assert served(hub, publish.repo, "README.md") == (audited / "README.md").read_bytes()


def test_a_pull_request_is_made_once_and_tagged_when_merged(hub: Server, publish: Commands) -> None:
    """A second run finds it; a run without --pr sends nothing more once it's merged."""
    assert "/discussions/1 proposes 0.1.0+seed.1" in publish("--pr").out
    assert commits(hub, publish.repo) == ["initial commit"]
    hub.go_wrong()
    assert "/discussions/1 holds 0.1.0+seed.1 already: nothing was sent" in publish("--pr").out
    assert hub.sent() == []
    hub.control("merge", {"repo": publish.repo, "number": 1})
    assert "run the same command without --pr to tag it" in publish("--pr").out
    hub.go_wrong()
    assert publish().status == 0
    assert [request.split("/")[-2] for request in hub.sent()] == ["tag"]


def test_a_pull_request_whose_answer_is_lost_is_not_made_twice(hub: Server, publish: Commands) -> None:
    """It's looked for before it's asked for again."""
    hub.go_wrong({"match": COMMIT, "action": "lose", "times": 1})
    said = publish("--pr")
    assert (said.status, "/discussions/1 proposes" in said.out) == (0, True), said.err
    assert len(hub.log("/commit/main")) == 1


def test_private_is_private(hub: Server, publish: Commands) -> None:
    """A stranger sees nothing of it; a repository that is public already is refused."""
    assert publish("--private").status == 0
    with pytest.raises(httpx2.HTTPStatusError, match="401"):
        listed(hub, publish.repo)
    assert publish(repo="acme/public").status == 0
    said = publish("--private", repo="acme/public")
    assert (said.status, said.err) == (
        1,
        "vocalgrad publish: acme/public is public already: make it private in its settings on the Hub, or leave --private out\n",
    )


def test_a_published_version_validates(hub: Server, publish: Commands, vocalgrad: Commands, audited: Path) -> None:
    """`pull-check` reads every row of the tag, from the Hub alone."""
    assert publish().status == 0
    said = vocalgrad("pull-check", f"{publish.repo}@{TAG}", "--workers", "1")
    assert said.status == 0, said
    assert re.search(rf"^{publish.repo}@{TAG} \(commit [0-9a-f]{{40}}\): 9 rows, 0 faults$", said.out, re.M)


def test_a_version_that_was_changed_on_the_hub_does_not_validate(hub: Server, publish: Commands, vocalgrad: Commands) -> None:
    """A file that isn't of the release, a card by hand."""
    assert publish().status == 0
    hub.control("write", {"repo": publish.repo, "path": "README.md", "content": "---\nconfigs: []\n---\n"})
    oid = hub.control("write", {"repo": publish.repo, "path": "more.txt", "content": "more"})["oid"]
    said = vocalgrad("pull-check", f"{publish.repo}@{oid}", "--workers", "1")
    assert said.status == 1
    assert "more.txt: not a file of this dataset" in said.out
    assert "README.md: its front matter isn't a card" in said.out


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("repo", "told"),
    [
        ("vocalgrad", "'vocalgrad' isn't namespace/name, such as my-org/vocalgrad"),
        ("a/b/c", "'a/b/c' can't be a repository"),
        ("acme/vocal grad", "'acme/vocal grad' can't be a repository"),
        ("acme/x.git", "'acme/x.git' can't be a repository"),
        ("nobody/x", "alice is in no organisation 'nobody' (only alice, acme): check the name, or join or create the organisation first"),
    ],
)
def test_a_repository_that_cannot_be_is_refused(hub: Server, publish: Commands, repo: str, told: str) -> None:
    """Before anything is validated or sent."""
    said = publish(repo=repo)
    assert (said.status, hub.sent()) == (1, [])
    assert told in said.err
    assert "validate" not in said.out


@pytest.mark.parametrize("without", ["a token", "an answer", "leave to ask"])
def test_a_dry_run_needs_no_token_and_no_network(
    without: str, audited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder and its rows are checked all the same, all that would be sent at most is listed, and why no more is known."""
    monkeypatch.setattr("builder.publish.get_token", lambda: None if without == "a token" else "hf_write")
    monkeypatch.setattr("builder.patience.TRIES", 1)

    def asked(*_: object, **__: object) -> dict[str, str]:
        raise OfflineModeIsEnabled("offline") if without == "leave to ask" else httpx2.ConnectError("no route")

    monkeypatch.setattr("builder.publish._Client.whoami", asked)
    command = ["publish", "acme/x", "--dry-run", "--workers", "1", "--dataset"]
    capsys.readouterr()
    assert main([*command, str(audited)]) == 0
    said = capsys.readouterr().out
    reason = {"a token": "no token: log in", "an answer": "no answer from", "leave to ask": "HF_HUB_OFFLINE is set"}[without]
    assert f"the Hub isn't asked what it holds: {reason}" in said.replace("whose token this is: ", "")
    assert "to acme/x, at most:" in said
    assert {line.split()[-1] for line in said.splitlines() if line.startswith("new ")} == set(release.read(audited).files)
    dataset = Path(shutil.copytree(audited, tmp_path / "ds"))
    (dataset / "stray.txt").touch()
    assert main([*command, str(dataset)]) == 1
    assert "stray.txt: not a file of this dataset" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (None, "vocalgrad publish: no token: log in with `hf auth login`, or set HF_TOKEN to one that may write to acme/x\n"),
        ("hf_wrong", "log in again with `hf auth login`, or set HF_TOKEN"),
        ("hf_read", "the token of alice may only read"),
        ("hf_other", "bob is in no organisation 'acme'"),
    ],
)
def test_a_token_without_rights_is_refused(hub: Server, publish: Commands, token: str | None, told: str) -> None:
    """With which token it was and how to give another; nothing is sent."""
    said = publish(repo="acme/x", token=token)
    assert (said.status, hub.sent()) == (1, [])
    assert told in said.err


def test_a_right_that_is_missing_only_there_is_told(hub: Server, publish: Commands) -> None:
    """A token of one repository's rights learns it at the first upload: 403, with what to do."""
    hub.go_wrong({"match": "/preupload/", "action": "status", "status": 403})
    said = publish()
    assert said.status == 1
    assert "the token may not do this (403, on purpose): use one that may write there, or propose it with --pr" in said.err
    assert commits(hub, publish.repo) == ["initial commit"]


def test_a_card_that_the_hub_refuses_is_told_before_anything_is_sent(hub: Server, publish: Commands) -> None:
    """With the Hub's reason; no file went there in vain."""
    hub.go_wrong({"match": "validate-yaml", "action": "status", "status": 400})
    said = publish()
    assert said.status == 1
    assert said.err == "vocalgrad publish: the Hub's check of README.md: Invalid metadata in README.md.; - on purpose\n"
    assert hub.log("PUT ") == []


def test_a_dirty_folder_is_refused(hub: Server, publish: Commands, audited: Path, tmp_path: Path) -> None:
    """Before the Hub is asked anything."""
    shutil.copytree(audited, tmp_path / "ds")
    (tmp_path / "ds" / "notes.txt").write_text("mine")
    said = publish(dataset=tmp_path / "ds")
    assert said.err == f"vocalgrad publish: {tmp_path}/ds can't be published:\n  notes.txt: not a file of this dataset: move it away\n"
    assert hub.log() == []


def test_an_invalid_folder_is_refused(hub: Server, publish: Commands, audited: Path, tmp_path: Path) -> None:
    """A shard whose bytes aren't the manifest's; nothing is sent."""
    shutil.copytree(audited, tmp_path / "ds")
    shard = next((tmp_path / "ds" / "data").rglob("*.parquet"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    said = publish(dataset=tmp_path / "ds")
    assert (said.status, hub.sent()) == (1, [])
    assert f"{tmp_path}/ds isn't valid and was not published:" in said.err
    assert "the checksum isn't the manifest's" in said.err


def test_a_tag_never_moves(hub: Server, publish: Commands, audited: Path, tmp_path: Path) -> None:
    """Other files under a published name are refused before anything is sent, with what to do; what's published stays."""
    assert publish().status == 0
    shutil.copytree(audited, tmp_path / "ds")
    with (tmp_path / "ds" / "README.md").open("a") as stream:
        stream.write("\nMore.\n")
    hub.go_wrong()
    said = publish(dataset=tmp_path / "ds")
    assert (said.status, hub.sent()) == (1, [])
    assert f"tag {TAG} exists already, on commit" in said.err
    assert "with other files (README.md): a published version never changes; raise the recipe's `version` or take another seed" in said.err
    assert served(hub, publish.repo, "README.md") == (audited / "README.md").read_bytes()


def test_a_tag_that_somebody_else_puts_meanwhile_is_told(hub: Server, publish: Commands) -> None:
    """409 on other files is no success."""
    hub.go_wrong({"match": "/tag/", "action": "overtake", "times": 1})
    said = publish()
    assert said.status == 1
    assert f"tag {TAG} exists already, on commit" in said.err


def test_a_head_that_moved_is_refused(hub: Server, publish: Commands, audited: Path) -> None:
    """412: nothing is committed over somebody else's work; the next run, which sees it, sends only what never arrived: nothing."""
    hub.go_wrong({"match": COMMIT, "action": "overtake", "times": 1})
    said = publish()
    assert said.status == 1
    assert re.search(
        r"its main branch moved from [0-9a-f]{12} to [0-9a-f]{12} while this ran, and that isn't 0.1.0\+seed.1: nothing was tagged",
        said.err,
    )
    assert commits(hub, publish.repo) == ["by hand", "initial commit"]
    hub.go_wrong()
    assert publish().status == 0
    assert hub.log("PUT ") == []
    assert commits(hub, publish.repo)[0] == "vocalgrad 0.1.0+seed.1"


# -- what goes wrong on the way ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("match", [r"POST /api/repos/create$", COMMIT, r"POST .*/tag/"])
def test_an_answer_that_is_lost_is_no_second_commit(hub: Server, publish: Commands, match: str) -> None:
    """What was done though the answer never came is seen, and not done again."""
    hub.go_wrong({"match": match, "action": "lose", "times": 1})
    said = publish()
    assert said.status == 0, said.err
    assert commits(hub, publish.repo) == ["vocalgrad 0.1.0+seed.1", "initial commit"]
    assert publish().out.endswith("nothing is sent\n")


def test_each_step_is_tried_again_when_the_hub_fails(hub: Server, publish: Commands) -> None:
    """A 503 at steps that the client itself never retries, and it's published."""
    steps = ("GET /api/whoami", COMMIT, "POST .*/tag/")
    hub.go_wrong(*({"match": step, "action": "status", "status": 503, "times": 1} for step in steps))
    said = publish()
    assert said.status == 0, said.err
    assert said.out.count("the Hub answered 503; trying again in 1 s") == len(steps)


def test_the_hub_is_given_the_time_that_it_asks_for(hub: Server, publish: Commands) -> None:
    """429 with Retry-After, at a step that the client doesn't retry: not sooner."""
    hub.go_wrong({"match": COMMIT, "action": "status", "status": 429, "headers": {"Retry-After": "2"}, "times": 1})
    begun = time.monotonic()
    said = publish()
    assert said.status == 0, said.err
    assert "the Hub answered 429; trying again in 2 s" in said.out
    assert time.monotonic() - begun >= 2.0


def test_a_wait_that_is_too_long_is_left_to_the_user(hub: Server, publish: Commands) -> None:
    """An hour isn't slept through; what arrived is kept."""
    hub.go_wrong({"match": COMMIT, "action": "status", "status": 429, "headers": {"Retry-After": "3600"}})
    said = publish()
    assert said.status == 1
    assert "too many requests (429): wait 3600 s, then run the same command again: what arrived isn't sent again" in said.err
    hub.go_wrong()
    assert publish().status == 0
    assert hub.log("PUT ") == []


def test_an_upload_that_breaks_off_is_sent_again_alone(hub: Server, publish: Commands, audited: Path) -> None:
    """The shards that arrived aren't."""
    hub.go_wrong({"match": "^PUT ", "action": "drop", "times": 1})
    assert publish().status == 0
    arrived = [item["request"] for item in hub.log("PUT ") if item["status"] == 200]
    assert len(arrived) == len(set(arrived)) == sum(1 for _ in audited.rglob("*.parquet"))
    assert len(hub.log("PUT ")) == len(arrived) + 1


def test_what_the_hub_holds_is_compared_before_it_is_tagged(hub: Server, publish: Commands) -> None:
    """A commit that isn't the release gets no name."""
    hub.go_wrong({"match": COMMIT, "action": "spoil", "times": 1})
    said = publish()
    assert said.status == 1
    assert re.search(r"commit [0-9a-f]{12} isn't the release in 1 file \(ATTRIBUTION.md\), so it wasn't tagged", said.err)
    assert hub.log("/tag/") == []


def answer(status: int, **headers: str) -> HfHubHTTPError:
    """What the client raises at a status."""
    request = httpx2.Request("POST", "https://example.org/x")
    return HfHubHTTPError("said", response=httpx2.Response(status, headers=headers, request=request, json={"error": "why"}))


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        (answer(503), 4.0),
        (answer(429), 4.0),
        (answer(429, **{"Retry-After": "7"}), 7.0),
        (answer(503, **{"Retry-After": "0"}), 0.0),
        (answer(503, **{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), 4.0),
        (answer(429, **{"RateLimit": '"api";r=0;t=55'}), 56.0),
        (answer(429, **{"RateLimit": '"api";r=9;t=55', "Retry-After": "3"}), 3.0),
        (answer(429, **{"Retry-After": "601"}), None),
        (answer(400), None),
        (answer(403), None),
        (answer(412), None),
        (httpx2.ConnectError("refused"), 4.0),
        (httpx2.ReadTimeout("late"), 4.0),
        (json.JSONDecodeError("an HTML page", "<", 0), 4.0),
        (ConnectionError("xet"), 4.0),
        (OfflineModeIsEnabled("offline"), None),
        (ValueError("wrong YAML"), None),
        (OSError("no space left"), None),
    ],
)
def test_what_is_waited_for(error: Exception, wait_s: float | None) -> None:
    """The Hub's and the network's faults, for as long as the Hub says or twice as long each time; nothing else."""
    assert patience.wait_s(error, 3) == wait_s
    wrapped = RuntimeError("Error while uploading")
    wrapped.__cause__ = error
    assert patience.wait_s(wrapped, 3) == wait_s


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """After six tries, with the address, the reason and what to do."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    tries = []

    def call() -> None:
        tries.append(1)
        raise httpx2.ConnectError("refused")

    with pytest.raises(NotPublished, match=r"^x: no answer from https?://\S+ \(refused\): check the network, then run the same command"):
        patience.patiently(call, "x", lambda line: None)
    assert (len(tries), slept) == (6, [1.0, 2.0, 4.0, 8.0, 16.0])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RepositoryNotFoundError("", response=answer(404).response), "x: the Hub has no such dataset, or the token may not see it"),
        (RevisionNotFoundError("", response=answer(404).response), "x: the Hub has no such tag or commit"),
        (OfflineModeIsEnabled("offline"), "HF_HUB_OFFLINE is set, so the Hub may not be asked: unset it"),
        (answer(401), "x: the Hub doesn't take the token (401, "),
        (answer(507), "x: the Hub answered 507 ("),
        (ValueError("Invalid metadata in README.md.\n- no license"), "x: Invalid metadata in README.md.; - no license"),
    ],
)
def test_errors_are_told_with_what_to_do(error: Exception, told: str) -> None:
    """What was asked stands first."""
    assert str(patience.told(error, "x")).startswith(told)


def test_a_fault_of_this_program_is_not_taken_for_one_of_the_hub() -> None:
    """It isn't waited for, and isn't told as the user's."""
    with pytest.raises(TypeError):
        patience.patiently(lambda: len(3), "x", lambda line: None)  # type: ignore[arg-type]
