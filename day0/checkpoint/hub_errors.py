"""What goes wrong with a hub, in two lines and in our words."""

from huggingface_hub import constants
from huggingface_hub.errors import (
    DisabledRepoError,
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from day0.errors import Day0Error


class HubError(Day0Error):
    """A hub that could not serve a repository.

    `reason`: offline, unreachable, refused, not-found or other. With the first three the cache
    may still serve; `cause` says in a few words why it has to.
    """

    def __init__(self, message: str, *, hint: str, reason: str, cause: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.cause = cause


def translate(error: BaseException, what: str, revision: str) -> HubError:
    """The HubError for an error of the client or its connection; `what` is the id or a file."""
    if isinstance(error, OfflineModeIsEnabled):
        return offline(what)
    if isinstance(error, HFValidationError):
        return HubError(
            f"{what} is no valid hub id: {error}; allowed is org/name[@revision]",
            hint="check the spelling of the id",
            reason="not-found",
        )
    if isinstance(error, LocalEntryNotFoundError):
        # The client's own answer when it reached nobody; the cause says more.
        cause = error.__cause__
        return translate(cause, what, revision) if cause else _unreachable(error, what)
    if isinstance(error, HfHubHTTPError):
        return _refused(error, error.response.status_code, what, revision)
    return _unreachable(error, what)


def offline(what: str) -> HubError:
    """The error for a hub id under HF_HUB_OFFLINE that is not in the cache."""
    return HubError(
        f"{what} is offline and not cached: HF_HUB_OFFLINE forbids to ask the hub",
        hint="unset HF_HUB_OFFLINE for one run, or give a folder",
        reason="offline",
        cause="HF_HUB_OFFLINE is set",
    )


def absent(what: str, trouble: HubError) -> HubError:
    """The error for a file that is not cached while `trouble` keeps the hub from serving it."""
    if trouble.reason == "offline":
        return offline(what)
    return HubError(
        f"{what} is not cached, and {trouble.cause}",
        hint=trouble.hint,
        reason=trouble.reason,
        cause=trouble.cause,
    )


def _refused(error: HfHubHTTPError, status: int, what: str, revision: str) -> HubError:
    if isinstance(error, GatedRepoError):
        return HubError(
            f"{what} is gated and this account may not read it (HTTP {status}); "
            "access must be granted",
            hint="ask for access on the model's page, then set HF_TOKEN or run `hf auth login`",
            reason="refused",
            cause=f"the hub refused (gated, HTTP {status})",
        )
    if isinstance(error, DisabledRepoError):
        return HubError(
            f"{what} was disabled on the hub (HTTP {status}); only the cache can serve it",
            hint="give a folder that holds the checkpoint",
            reason="refused",
            cause="the repository is disabled",
        )
    if isinstance(error, RepositoryNotFoundError) and status != 401:
        return HubError(
            f"{what} was not found on {constants.ENDPOINT}; allowed is an existing org/name",
            hint="check the spelling; a private repository needs HF_TOKEN",
            reason="refused",
            cause=f"the hub does not know it (HTTP {status})",
        )
    if isinstance(error, RevisionNotFoundError):
        return HubError(
            f"{what} has no revision {revision!r}; allowed is a branch, a tag or a commit of it",
            hint="leave @revision out for the default branch",
            reason="not-found",
        )
    if isinstance(error, RemoteEntryNotFoundError):
        return HubError(
            f"{what} is not there any more although the hub lists it; a listed file is expected",
            hint="run again, the repository may be changing",
            reason="not-found",
        )
    if status == 401:
        return HubError(
            f"{what} does not exist or needs a login (HTTP 401); "
            "allowed is a public repository, or a token that may read it",
            hint="check the spelling, set HF_TOKEN or run `hf auth login`",
            reason="refused",
            cause="the hub asks for a login (HTTP 401)",
        )
    if status == 403:
        return HubError(
            f"{what} may not be read with this token (HTTP 403)",
            hint="use a token with read access to it in HF_TOKEN",
            reason="refused",
            cause="the hub refused (HTTP 403)",
        )
    if status == 416:
        return HubError(
            f"{what} has no byte 0 (HTTP 416): the file is empty; a safetensors file is expected",
            hint="run again, or report it to the repository's owner",
            reason="other",
        )
    if status == 429:
        return HubError(
            f"{what}: the hub asks to slow down (HTTP 429)",
            hint="run again in a few minutes; what was read so far is cached",
            reason="unreachable",
            cause="the hub asks to slow down (HTTP 429)",
        )
    return HubError(
        f"{what}: {constants.ENDPOINT} answered with HTTP {status}",
        hint="run again later; what was read so far is cached",
        reason="unreachable" if status >= 500 else "other",
        cause=f"the hub answered with HTTP {status}",
    )


def _unreachable(error: BaseException, what: str) -> HubError:
    if isinstance(error, FileMetadataError):
        return not_a_hub(what)
    text = str(error).strip().splitlines()
    detail = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    return HubError(
        f"{what} cannot be read from {constants.ENDPOINT} and is not cached ({detail})",
        hint="check the network, HF_ENDPOINT and the proxy settings, then run again",
        reason="unreachable",
        cause=f"{constants.ENDPOINT} cannot be reached",
    )


def not_a_hub(what: str) -> HubError:
    """The error for an endpoint whose answers are not a hub's."""
    return HubError(
        f"{what}: {constants.ENDPOINT} does not answer as a hub does; "
        "a Hugging Face hub or a mirror is expected",
        hint="check HF_ENDPOINT and the proxy settings",
        reason="unreachable",
        cause=f"{constants.ENDPOINT} does not answer as a hub does",
    )
