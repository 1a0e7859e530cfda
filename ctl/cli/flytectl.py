"""Words of flytectl, and of people's habits, that are not ours: what to write instead, or why there is none."""

from __future__ import annotations

from collections.abc import Collection

from ctl.client.words import fold

_TOKEN = "the admin takes a bearer token: name its file with --token-file, or set RAINBOW_TOKEN"
_LOGIN = "`rainbowctl login` logs in at the admin's OpenID provider, and --browser with a browser on this machine"
_RETRIES = "a failed read is tried again by itself, a write never is"
_TIMEOUT = "--timeout says how many seconds to wait for an answer"
_LOGS = "rainbowctl writes no log; -q leaves out its notes"
_PROXY = "set HTTP_PROXY, HTTPS_PROXY and NO_PROXY"

_UPLOADS = "nothing is uploaded: jobs name their image or command"
_PAGER = ("-i", "--interactive")
#: What the flags of a command do that stand for the pager.
_IN_PLACE_OF_PAGER = {"--filter.page": "shows a list page by page", "--watch": "shows it again whenever it changes"}

#: Flags of flytectl, each with the reason why a command has it not and what to use.
FLAGS = {
    **dict.fromkeys(_PAGER, "there is no pager"),
    "--tags": "executions have no tags: give them labels, as in --label team=ml",
    "--attrFile": "only settings have attribute files, as in `rainbowctl get task-resource-attribute --attrFile FILE`",
    "--gen": "where nothing is set, --attrFile writes a sample",
    "--storage": _UPLOADS,
    "--console": "no console has an address of its own: leave it out",
    "--console.endpoint": "no console has an address of its own: leave it out",
    "--insecure": "write http:// before the host in --endpoint",
    "--admin.insecure": "write http:// before the host in --endpoint",
    "--admin.insecureSkipVerify": "certificates are always checked: name who signed them with --ca-file",
    "--admin.authType": _TOKEN,
    "--admin.clientId": _TOKEN,
    "--admin.clientSecretLocation": _TOKEN,
    "--admin.clientSecretEnvVar": _TOKEN,
    "--admin.scopes": _TOKEN,
    "--admin.audience": _TOKEN,
    "--admin.useAudienceFromAdmin": _TOKEN,
    "--admin.tokenUrl": _TOKEN,
    "--admin.tokenRefreshWindow": _TOKEN,
    "--admin.authorizationHeader": "the token is always sent in the header Authorization",
    "--admin.command": f'{_TOKEN}="$(COMMAND)"',
    "--admin.proxyCommand": _PROXY,
    "--admin.httpProxyURL": _PROXY,
    "--admin.pkceConfig.timeout": _LOGIN,
    "--admin.pkceConfig.refreshTime": _LOGIN,
    "--admin.deviceFlowConfig.timeout": _LOGIN,
    "--admin.deviceFlowConfig.refreshTime": _LOGIN,
    "--admin.deviceFlowConfig.pollInterval": _LOGIN,
    "--admin.maxRetries": _RETRIES,
    "--admin.maxBackoffDelay": _RETRIES,
    "--admin.perRetryTimeout": _TIMEOUT,
    "--admin.maxMessageSizeBytes": "the admin says how large a request may be",
    "--admin.defaultServiceConfig": "rainbowctl speaks HTTP, not gRPC",
}
#: Families of such flags.
_FAMILIES = {
    "--files.": "`rainbowctl register files` has flags of its own, which its --help lists",
    "--storage.": _UPLOADS,
    "--logger.": _LOGS,
    "--otel.": "rainbowctl sends no traces",
    "--admin.": "rainbowctl speaks HTTP; --endpoint, --token-file, --ca-file and --timeout say how",
}

_END = "`rainbowctl delete execution NAME` ends an execution"
_AGAIN = "`rainbowctl create execution --relaunch NAME` runs an execution again"
_RUN = (
    "`rainbowctl create execution -- COMMAND …` runs a command, with --launchplan NAME or --workflow NAME what is "
    "registered"
)
_SHOW = (
    "`rainbowctl get NOUN NAME -o yaml` shows one thing, `rainbowctl get execution NAME --details` an execution, "
    "`rainbowctl describe cluster NAME` what a cluster has, `rainbowctl explain` where a setting comes from"
)
_LIST = "`rainbowctl get NOUN` lists them"
_LIST_EXECUTIONS = "`rainbowctl get execution` lists what runs, waits and has ended"
_QUEUE = (
    "`rainbowctl get execution -A --phase QUEUED --by reason` counts what waits, `rainbowctl get cluster NAME` shows "
    "who is next there"
)
_START = "`rainbow-admin serve` starts an admin, `rainbow-agent run` an agent of this machine"
_REGISTERED = "a registered version stays as it is: register a new one with `rainbowctl register files`"

#: Words that people type, by the verb before them, each with what to type instead.
WORDS = {
    "rainbowctl": {
        **dict.fromkeys(("cancel", "terminate", "abort", "stop", "kill"), _END),
        **dict.fromkeys(("relaunch", "rerun", "retry"), _AGAIN),
        "recover": "`rainbowctl create execution --recover NAME` runs an execution again that did not succeed",
        **dict.fromkeys(("rm", "remove"), f"`rainbowctl delete NOUN` deletes what is set; {_END}"),
        "add": "`rainbowctl create NOUN` creates something, `rainbowctl update KIND` sets a setting",
        "ps": "`rainbowctl get execution --filter.fieldSelector phase=RUNNING` lists what runs",
        "top": "`rainbowctl get cluster` shows what is free and what waits on each cluster",
        **dict.fromkeys(
            ("hold", "release", "suspend", "pause", "resume"),
            "nothing holds one execution back: an execution-quota of `running: 0` stops what starts at a scope, "
            "`rainbowctl cordon` a cluster",
        ),
        **dict.fromkeys(("squeue", "queue"), _QUEUE),
        "sinfo": "`rainbowctl get cluster` shows what is free and what waits on each cluster",
        "sacct": "`rainbowctl get execution -A --since 7d --by project -o wide` shows what each project ran and had",
        "scancel": _END,
        **dict.fromkeys(
            ("prioritize", "nice"),
            "`rainbowctl update quality-of-service` sets the tier, and `rainbowctl redecide` has what waits adopt it",
        ),
        "archive": "`rainbowctl update project ID --archive` archives a project, `rainbowctl update execution NAME "
        "--archive` an execution",
        "activate": "`rainbowctl update launchplan NAME --version V --activate` activates a version of a launch plan, "
        "`rainbowctl update project ID --activate` a project",
        **dict.fromkeys(("run", "submit", "launch", "exec"), _RUN),
        "show": _SHOW,
        "status": "`rainbowctl get execution NAME` shows its phase, `rainbowctl version` whether the admin answers",
        **dict.fromkeys(("list", "ls"), _LIST),
        "set": "`rainbowctl update KIND` sets what its flags or its --attrFile say",
        "compile": "`rainbowctl register files --dryRun` checks documents and registers nothing",
        "upgrade": "install the new version as this one was installed",
        **dict.fromkeys(("demo", "sandbox"), _START),
        "help": "`rainbowctl --help` lists the commands, and --help after any of them explains it",
    },
    "get": {
        **dict.fromkeys(("job", "task-execution", "node-execution"), _LIST_EXECUTIONS),
        "queue": _QUEUE,
        "node": "`rainbowctl describe cluster NAME` shows what a cluster has, "
        "`rainbowctl get execution -A --filter.fieldSelector node=NAME` what ran on one node",
        **dict.fromkeys(
            ("event", "audit-event"),
            "`rainbowctl history` shows what changed and happened, `rainbowctl "
            "get audit` who logged in or was denied something",
        ),
        "quota": "`rainbowctl get execution-quota --usage` shows quotas and who uses them, `rainbowctl get token-pool` "
        "token pools",
        "permission": "`rainbowctl get role` lists the roles with their permissions",
        "log": "`rainbowctl logs NAME` shows what an execution printed",
    },
    "describe": dict.fromkeys(("execution", "project", "pool", "label", "workflow", "launchplan", "user"), _SHOW),
    "config": {
        **dict.fromkeys(
            ("validate", "discover"), "`rainbowctl config view` checks the file, and shows what comes from it"
        ),
        "docs": "`rainbowctl config set-context --help` lists what can be set",
    },
    "update": {
        **dict.fromkeys(("workflow", "task", "workflow-meta", "task-meta"), _REGISTERED),
        "launchplan-meta": "`rainbowctl update launchplan NAME --version V` activates or deactivates a version",
    },
    "delete": {
        "project": "`rainbowctl update project ID --archive` archives it",
        **dict.fromkeys(("workflow", "task"), "registered versions stay"),
        "launchplan": "`rainbowctl update launchplan NAME --version V --deactivate` deactivates a version",
    },
    "register": dict.fromkeys(
        ("examples", "flytesnacks"), "write documents of your own, and register them with `rainbowctl register files`"
    ),
}


def explain_flag(flag: str, known: Collection[str] = ()) -> str | None:
    """A sentence about a flag of flytectl's that a command has not; None for any other.

    `known` are the flags that the command has.
    """
    by_fold = {fold(name): reason for name, reason in FLAGS.items()}
    family = next((reason for start, reason in _FAMILIES.items() if flag.startswith(start)), None)
    reason = by_fold.get(fold(flag)) or family
    if flag in _PAGER:
        instead = [f"{name} {does}" for name, does in _IN_PLACE_OF_PAGER.items() if name in known]
        reason = ": ".join([FLAGS[flag], *([", and ".join(instead)] if instead else [])])
    return f"{flag} of flytectl has no meaning here: {reason}." if reason else None


def explain_word(group: str, word: str) -> str | None:
    """What to type instead of a word, in singular or plural, after a verb; None where there is nothing to say."""
    words = WORDS.get(group, {})
    return words.get(word) or words.get(word.removesuffix("s"))
