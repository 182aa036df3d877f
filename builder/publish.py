"""A dataset to the Hugging Face Hub: one commit, compared by checksum, then a tag. The only file that talks to the Hub.

The order is what makes it safe to stop anywhere and to run again:

1. Large files are sent first, in batches. They're stored by checksum and stand in no commit yet, so what arrived is never sent
   again, and users see nothing of it.
2. One commit puts all files in place and removes what isn't in the release, on the head that was seen; if somebody else moved the
   branch on, the Hub refuses it.
3. The commit's tree is compared with the release, checksum by checksum; only then it's tagged. A tag never moves.

An answer that gets lost may hide success, so nothing is asked for again that could then be done twice: a commit names its parent, a
pull request is looked for first, and a tag that is there already is compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete, HfApi, get_token, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError
from huggingface_hub.hf_api import DatasetInfo, RepoFile
from huggingface_hub.utils._validators import validate_repo_id

from builder import patience
from builder.errors import HubNotAsked, NotPublished
from builder.folder import CARD
from builder.patience import AGAIN, TRIES, Say, patiently
from builder.release import OF_THE_HUB, File, Release, file_of
from builder.words import counted

BATCH_FILES = 50
BATCH_BYTES = 1_000_000_000

Operation = CommitOperationAdd | CommitOperationDelete


@dataclass(frozen=True)
class Difference:
    """What a revision of a repository lacks, has already, and has too much."""

    send: Sequence[str]
    same: Sequence[str]
    delete: Sequence[str]

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.send or self.delete)


def difference(files: Mapping[str, File], there: Mapping[str, RepoFile]) -> Difference:
    """Compare a release with what a repository holds, by checksum."""
    same = [name for name, file in files.items() if name in there and _is(there[name], file)]
    return Difference(
        [name for name in files if name not in same],
        same,
        [name for name in there if name not in files and name not in OF_THE_HUB],
    )


def _is(there: RepoFile, file: File) -> bool:
    return bool(there.lfs.sha256 == file.sha256 if there.lfs else there.blob_id == file.git_sha1)


# -- one repository ---------------------------------------------------------------------------------------------------


class _Client(HfApi):
    """The client, which has a card checked once: before anything is uploaded, and not again at each try of a commit."""

    def _validate_yaml(self, content: str, *, repo_type: str | None = None, token: bool | str | None = None) -> None:
        if content != getattr(self, "checked", None):
            super()._validate_yaml(content, repo_type=repo_type, token=token)
            self.checked = content

    def check_card(self, content: str) -> None:
        """Have the Hub check a card's front matter."""
        self._validate_yaml(content, repo_type="dataset")


class Remote:
    """A dataset repository on the Hub.

    Parameters
    ----------
    repo_id
        `namespace/name`.
    say
        Takes lines for people.

    Raises
    ------
    NotPublished
        `repo_id` isn't the name of a repository.
    """

    def __init__(self, repo_id: str, say: Say) -> None:
        try:
            validate_repo_id(repo_id)
        except HFValidationError as error:
            raise NotPublished(f"{repo_id!r} can't be a repository: {error}") from error
        if repo_id.count("/") != 1:
            raise NotPublished(f"{repo_id!r} isn't namespace/name, such as my-org/vocalgrad")
        self.repo_id = repo_id
        self.say = say
        self.api = _Client(library_name="vocalgrad")

    def info(self, revision: str | None = None) -> DatasetInfo:
        """The repository at a revision."""
        at = f"@{revision}" if revision else ""
        return patiently(lambda: self.api.dataset_info(self.repo_id, revision=revision), f"{self.repo_id}{at}", self.say)

    def info_or_none(self) -> DatasetInfo | None:
        """The repository; None if there is none that the token may see."""
        try:
            return self.info()
        except NotPublished as error:
            if isinstance(error.__cause__, RepositoryNotFoundError):
                return None
            raise

    def head(self) -> str:
        """The commit that the main branch is on."""
        return str(self.info().sha)

    def files(self, revision: str) -> dict[str, RepoFile]:
        """Files of a revision, by path."""
        listed = patiently(
            lambda: list(self.api.list_repo_tree(self.repo_id, recursive=True, revision=revision, repo_type="dataset")),
            f"the files of {self.repo_id}@{revision}",
            self.say,
        )
        return {item.path: item for item in listed if isinstance(item, RepoFile)}

    def create(self, private: bool) -> None:
        """Make the repository."""
        patiently(
            lambda: self.api.create_repo(self.repo_id, repo_type="dataset", private=private or None, exist_ok=True),
            f"create {self.repo_id}",
            self.say,
        )
        self.say(f"create   {self.repo_id}")

    def tags(self) -> dict[str, str]:
        """Commits by tag."""
        refs = patiently(lambda: self.api.list_repo_refs(self.repo_id, repo_type="dataset"), f"the tags of {self.repo_id}", self.say)
        return {ref.name: ref.target_commit for ref in refs.tags}

    def published(self, release: Release) -> str | None:
        """The commit that carries the release's tag; None if the tag is free.

        Raises
        ------
        NotPublished
            The tag is there, on other files.
        """
        if release.tag not in self.tags():
            return None
        differs = difference(release.files, self.files(release.tag))
        commit = str(self.info(release.tag).sha)
        if differs:
            raise NotPublished(
                f"{self.repo_id}: tag {release.tag} exists already, on commit {commit[:12]} with other files "
                f"({', '.join([*differs.send, *differs.delete][:3])}): a published version never changes; raise the recipe's "
                "`version` or take another seed, and build again"
            )
        return commit

    def upload(self, release: Release, names: Sequence[str], pr: bool) -> list[CommitOperationAdd]:
        """Have the card checked, then send large files in batches; none of those that the Hub has. Returns what a commit needs."""
        card = release.files[CARD].path.read_text(encoding="utf-8")
        patiently(lambda: self.api.check_card(card), f"the Hub's check of {CARD}", self.say)
        done: list[CommitOperationAdd] = []
        for batch in _batches(release, names):
            added = [CommitOperationAdd(name, release.files[name].path) for name in batch]  # hashed anew: a file may have changed
            patiently(lambda added=added: self._preupload(added, pr), f"upload to {self.repo_id}", self.say)  # type: ignore[misc]
            done += added
            there = f"{len(done)} of {counted(len(names), 'file is', 'files are')} on the Hub"
            self.say(f"upload   {there}, {_megabytes(release, names[: len(done)])}")
        return done

    def _preupload(self, added: list[CommitOperationAdd], pr: bool) -> None:
        self.api.preupload_lfs_files(
            self.repo_id, added, repo_type="dataset", create_pr=pr, free_memory=False, gitignore_content="", num_threads=4
        )

    def commit(self, release: Release, operations: Sequence[Operation], head: str, pr: bool) -> str:
        """Put the release on the head that was seen; returns the new head of the main branch, or the address of the pull request.

        Both are safe to ask for again when no answer came: the main branch takes a commit on the head that was seen once only (412 after
        that: then it's looked whether the commit there is this one), and a pull request is looked for first.

        Raises
        ------
        NotPublished
            The branch was moved on by somebody else, or the Hub refuses.
        """
        what = f"{'pull request' if pr else 'commit'} to {self.repo_id}"
        for turn in range(1, TRIES + 1):
            try:
                made = self._commit(release, operations, head, pr)
                return str(made.pr_url if pr else made.oid)
            except patience.FAULTS as error:
                pause_s = patience.wait_s(error, turn)
                overtaken = patience.status(error) in (409, 412)
                landed = self._landed(release, head, pr) if pr or overtaken or turn == TRIES else None
                if landed is not None:
                    return landed
                if pause_s is None or turn == TRIES:
                    raise patience.told(error, what) from error
                self.say(f"wait     {what}: {patience.short(error)}; trying again in {pause_s:.0f} s")
                time.sleep(pause_s)
        raise AssertionError("the last turn returns or raises")

    def _landed(self, release: Release, head: str, pr: bool) -> str | None:
        """What a commit would have returned, if it was made."""
        if pr:
            return self.proposed(release)
        now = self.head()
        if now == head:
            return None
        if difference(release.files, self.files(now)):
            raise NotPublished(
                f"{self.repo_id}: its main branch moved from {head[:12]} to {now[:12]} while this ran, and that isn't "
                f"{release.name}: nothing was tagged; look at what changed there, then {AGAIN}"
            )
        return now

    def proposed(self, release: Release) -> str | None:
        """The address of an open pull request that holds the release, if there is one."""
        found = patiently(
            lambda: list(
                self.api.get_repo_discussions(self.repo_id, repo_type="dataset", discussion_type="pull_request", discussion_status="open")
            ),
            f"the pull requests of {self.repo_id}",
            self.say,
        )
        mine = [item for item in found if item.title == _title(release)]
        return next((item.url for item in mine if not difference(release.files, self.files(f"refs/pr/{item.num}"))), None)

    def _commit(self, release: Release, operations: Sequence[Operation], head: str, pr: bool) -> CommitInfo:
        manifest = release.manifest
        return self.api.create_commit(
            self.repo_id,
            operations,
            commit_message=_title(release),
            commit_description=f"plan {manifest['plan_digest']}, {counted(sum(item['n_rows'] for item in manifest['shards']), 'clip')}",
            repo_type="dataset",
            parent_commit=head,
            create_pr=pr,
        )

    def tag(self, release: Release, commit: str) -> None:
        """Tag a commit, unless it carries the tag already.

        Raises
        ------
        NotPublished
            The tag is on other files.
        """

        def put() -> None:
            try:
                self.api.create_tag(self.repo_id, tag=release.tag, revision=commit, repo_type="dataset")
            except HfHubHTTPError as error:
                if error.response.status_code != 409 or self.published(release) is None:
                    raise

        patiently(put, f"tag {self.repo_id}", self.say)


def _title(release: Release) -> str:
    return f"vocalgrad {release.name}"


def _batches(release: Release, names: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for name in names:
        if batch and (len(batch) == BATCH_FILES or sum(release.files[item].size for item in batch) > BATCH_BYTES):
            yield batch
            batch = []
        batch.append(name)
    if batch:
        yield batch


def _megabytes(release: Release, names: Sequence[str]) -> str:
    return f"{sum(release.files[name].size for name in names) / 1e6:.1f} MB"


# -- what the commands do ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """What the Hub holds before anything is sent.

    Parameters
    ----------
    head
        The commit that the main branch is on; None if there is no repository yet.
    there
        Its files.
    differs
        What it lacks of the release, and has too much.
    tagged
        The commit that carries the release's tag already; None if the tag is free.
    asked
        Whether the Hub was asked at all; what it holds isn't known otherwise.
    """

    remote: Remote
    release: Release
    head: str | None
    there: Mapping[str, RepoFile]
    differs: Difference
    tagged: str | None
    asked: bool = True


def look(release: Release, repo_id: str, *, private: bool, say: Say) -> Look:
    """Ask the Hub for all that could stand in the way, and send nothing.

    Parameters
    ----------
    release
        What `release.read` made of a dataset.
    repo_id
        `namespace/name`.
    private
        Whether it's to be private; refused for a repository that is public already.
    say
        Takes lines for people.

    Raises
    ------
    NotPublished
        No token, or one without rights; no such organisation; the tag is on other files. With what to do.
    """
    remote = Remote(repo_id, say)
    if get_token() is None:
        raise HubNotAsked(f"no token: log in with `hf auth login`, or set HF_TOKEN to one that may write to {repo_id}")
    user = patiently(remote.api.whoami, "whose token this is", say)
    if user.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise NotPublished(
            f"the token of {user['name']} may only read: log in with `hf auth login`, or set HF_TOKEN, with one that may write"
        )
    info = remote.info_or_none()
    if info is None:
        mine = [user["name"], *(org["name"] for org in user.get("orgs", []))]
        if repo_id.split("/")[0] not in mine:
            raise NotPublished(
                f"{repo_id}: there is no such dataset that the token may see, and none can be made: {user['name']} is in no "
                f"organisation {repo_id.split('/')[0]!r} (only {', '.join(mine)}): check the name, or join or create the organisation first"
            )
        return Look(remote, release, None, {}, difference(release.files, {}), None)
    if private and not info.private:
        raise NotPublished(f"{repo_id} is public already: make it private in its settings on the Hub, or leave --private out")
    there = remote.files(str(info.sha))
    return Look(remote, release, str(info.sha), there, difference(release.files, there), remote.published(release))


def guess(release: Release, repo_id: str, *, private: bool, say: Say) -> Look:
    """As `look`; where the Hub can't be asked, that's said, and it's taken to hold nothing: for a preview."""
    remote = Remote(repo_id, say)
    try:
        return look(release, repo_id, private=private, say=say)
    except HubNotAsked as error:
        say(f"the Hub isn't asked what it holds: {error}")
        return Look(remote, release, None, {}, difference(release.files, {}), None, asked=False)


def preview(seen: Look) -> str:
    """What `push` would do: one line for every file that would be sent or removed, and the sums."""
    release, differs, repo_id = seen.release, seen.differs, seen.remote.repo_id
    head = f"{repo_id} is on commit {seen.head}" if seen.head else f"{repo_id} would be made" if seen.asked else f"to {repo_id}, at most:"
    lines = [f"{'changed' if name in seen.there else 'new':<9}{release.files[name].size:>13,}  {name}" for name in differs.send]
    lines += [f"{'remove':<9}{seen.there[name].size:>13,}  {name}" for name in differs.delete]
    sums = [
        f"{what} {counted(len(names), 'file')}, {_megabytes(release, names)}"
        for what, names in (("send", differs.send), ("there", differs.same))
    ]
    return "\n".join([head, *lines, f"{sums[0]}; {sums[1]} already; remove {len(differs.delete)}; then tag {release.tag}"])


def push(seen: Look, *, private: bool, pr: bool) -> str:
    """Publish a valid release.

    Parameters
    ----------
    seen
        What `look` found.
    private
        Make the repository private, if it's made now.
    pr
        Propose the release in a pull request instead; nothing is tagged.

    Returns
    -------
    str
        What was done, for people.

    Raises
    ------
    NotPublished
        With what to do. What arrived is kept, and users see nothing of it before the commit.
    """
    remote, release, differs, head = seen.remote, seen.release, seen.differs, seen.head
    if head is None:
        remote.create(private)
        head = remote.head()
        differs = difference(release.files, remote.files(head))
    if pr:
        return _propose(remote, release, differs, head)
    if differs:
        operations = remote.upload(release, differs.send, pr=False)
        head = remote.commit(release, [*operations, *(CommitOperationDelete(name) for name in differs.delete)], head, pr=False)
        remote.say(f"commit   {head}: {counted(len(differs.send), 'file')} new or changed, {len(differs.delete)} removed")
    _compare(remote, release, head)
    remote.tag(release, head)
    return f"{remote.repo_id}@{release.tag} is published, on commit {head}"


def _propose(remote: Remote, release: Release, differs: Difference, head: str) -> str:
    if not differs:
        return f"{remote.repo_id} holds {release.name} already: run the same command without --pr to tag it"
    proposed = remote.proposed(release)
    if proposed is not None:
        return f"{proposed} holds {release.name} already: nothing was sent"
    operations = remote.upload(release, differs.send, pr=True)
    url = remote.commit(release, [*operations, *(CommitOperationDelete(name) for name in differs.delete)], head, pr=True)
    return f"{url} proposes {release.name}: once it's merged, run the same command without --pr to tag it"


def _compare(remote: Remote, release: Release, commit: str) -> None:
    """What the Hub holds must be the release, checksum by checksum, before it gets its name."""
    differs = difference(release.files, remote.files(commit))
    if differs:
        raise NotPublished(
            f"{remote.repo_id}: commit {commit[:12]} isn't the release in {counted(len(differs.send) + len(differs.delete), 'file')} "
            f"({', '.join([*differs.send, *differs.delete][:3])}), so it wasn't tagged: {AGAIN}"
        )


@dataclass(frozen=True)
class Fetched:
    """A published version, downloaded."""

    folder: Path
    commit: str
    faults: Sequence[str]


def fetch(repo_id: str, revision: str, cache: Path, say: Say) -> Fetched:
    """Download a published version into an empty cache and compare every file with the checksum that the Hub lists.

    Raises
    ------
    NotPublished
        There is no such version, or the Hub can't be reached.
    """
    remote = Remote(repo_id, say)
    commit = str(remote.info(revision).sha)
    there = remote.files(commit)
    say(f"download {counted(len(there), 'file')}, {sum(item.size for item in there.values()) / 1e6:.1f} MB, of commit {commit}")
    folder = patiently(
        lambda: snapshot_download(repo_id, repo_type="dataset", revision=commit, cache_dir=cache, library_name="vocalgrad"),
        f"download {repo_id}@{revision}",
        say,
    )
    differ = [name for name, item in there.items() if not _is(item, file_of(Path(folder) / name))]
    return Fetched(Path(folder), commit, [f"{name}: what came isn't what the Hub lists" for name in differ])
