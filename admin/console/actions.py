"""Actions on one execution, each with a preview: cancel, give up, decide again, relaunch and recover."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response

from admin.console.answers import ask, ask_if_allowed, asked_query
from admin.console.commands import create_options, selector_options, tried_and_done
from admin.console.executions import SELECTORS, selector_of
from admin.console.fields import Field, input_field, read_form, shown
from admin.console.filters import page
from admin.console.pages import Pages, Shown, go_to, is_unconfirmed, render, shown_again
from admin.console.suggestions import suggestions
from admin.console.tries import Tried, nested, tried
from admin.core.placement.scores import STRATEGIES

pages = Pages("actions")

_PATH = "/executions/<project>/<domain>/<name>"
#: What may differ when something is run once more; what is left empty stays as it was.
_CHANGES = (
    Field("name", "Name of the new one", hint="Generated if left empty."),
    Field("cluster_assignment.cluster_pool_name", "Pool", suggestions="pools"),
    Field("execution_cluster_label.value", "Label", suggestions="labels"),
    Field("cluster", "Cluster", suggestions="clusters"),
    Field("strategy", "Strategy", "choice", words=tuple(STRATEGIES)),
    Field("overwrite_cache", "Overwrite cached results", "boolean"),
)
#: Executions that one form ends, each of which is a transaction of its own.
_MOST_ENDED = 1000


def _words(key: Mapping[str, str]) -> list[str]:
    return [key["name"], "-p", key["project"], "-d", key["domain"]]


def _add_end(word: str, verb: str, done: str, *, give_up: bool) -> None:
    options = ["--giveUp"] if give_up else []

    @pages.add("GET", f"{_PATH}/{word}", permission="executions.end")
    def preview(**key: str) -> str:
        asked_query()
        return render(
            "executions/cancel.html",
            title=f"{verb} {key['name']}",
            commands=tried_and_done(["delete", "execution", *_words(key), *options]),
            key=key,
            word=word,
            verb=verb,
            execution=ask("get_execution", {"with_status": True}, path=key),
            preview=ask("terminate_execution", {"dry_run": True}, {"give_up": True} if give_up else None, path=key),
        )

    @pages.add("POST", f"{_PATH}/{word}", permission="executions.end")
    def end(form: Mapping[str, str], **key: str) -> Response:
        if is_unconfirmed(form, key["name"]):
            return shown_again(preview(**key))
        cause = form.get("cause", "").strip()
        body = {**({"cause": cause} if cause else {}), **({"give_up": True} if give_up else {})}
        ended = ask("terminate_execution", body=body, path=key)
        notice = done.format(key["name"]) if ended.get("changed", True) else f"{key['name']} had ended before."
        return go_to(page("executions", *key.values()), notice)


_add_end("cancel", "Cancel", "The end of {} was asked for.", give_up=False)
_add_end("give-up", "Give up", "{} was given up.", give_up=True)


@pages.add("GET", "/executions/cancel", permission="executions.end", shows_some=True)
def preview_cancel_many() -> str:
    """What ending all executions would do that some filters fit."""
    return _cancel_many_page(asked_query(*SELECTORS, "search"))


def _cancel_many_page(query: Mapping[str, str]) -> str:
    selector = selector_of(query)
    return render(
        "executions/cancel_many.html",
        title="Cancel executions",
        commands=tried_and_done(["delete", "execution", "--allProjects", *selector_options(selector, has_flags=False)]),
        query=query,
        selector=selector,
        preview=ask("terminate_executions", {"dry_run": True}, {"selector": selector, "limit": _MOST_ENDED}),
    )


@pages.add("POST", "/executions/cancel", permission="executions.end", shows_some=True)
def cancel_many(form: Mapping[str, str]) -> Response:
    """End them, if they are as many as the confirmation says."""
    query = {name: form[name] for name in (*SELECTORS, "search") if form.get(name)}
    selector = selector_of(query)
    body = {"selector": selector, "limit": _MOST_ENDED}
    matched = ask("terminate_executions", {"dry_run": True}, body)["matched"]
    if is_unconfirmed(form, f"{matched} executions"):
        return shown_again(_cancel_many_page(query))
    cause = form.get("why", "").strip()  # `cause` is a filter
    ended = ask("terminate_executions", {}, {**body, **({"cause": cause} if cause else {})})
    others = " Others fit these filters too: cancel again." if ended.get("more") else ""
    return go_to(page("executions", **query), f"{ended['terminated']} of {ended['matched']} are being ended.{others}")


def _selector(key: Mapping[str, str]) -> dict[str, str]:
    return {"project": key["project"], "domain": key["domain"], "filters": f"eq(name,{key['name']})"}


@pages.add("GET", f"{_PATH}/redecide", permission="executions.write")
def preview_redecision(**key: str) -> str:
    """Where an execution that waits would go under the settings as they are now."""
    asked_query()
    execution = ask("get_execution", {"with_status": True}, path=key)
    return render(
        "executions/redecide.html",
        title=f"Decide again where {key['name']} runs",
        commands=tried_and_done(["redecide", "--selector", ",".join(f"{name}={value}" for name, value in key.items())]),
        key=key,
        execution=execution,
        preview=ask("redecide_executions", {"dry_run": True}, {"selector": _selector(key)}),
        compared=ask("compare_execution_settings", path=key),
    )


@pages.add("POST", f"{_PATH}/redecide", permission="executions.write")
def redecide(form: Mapping[str, str], **key: str) -> Response:
    """Decide it."""
    cause = form.get("cause", "").strip()
    body = {"selector": _selector(key), **({"cause": cause} if cause else {})}
    redecided = ask("redecide_executions", body=body)["executions"]
    if not redecided:
        notice = f"{key['name']} does not wait any more, so nothing was decided."
    else:
        notice = redecided[0]["reason"]["message"]
    return go_to(page("executions", *key.values()), notice)


def _add_repeat(word: str, verb: str) -> None:
    @pages.add("GET", f"{_PATH}/{word}", permission="executions.create")
    def show(**key: str) -> str:
        asked_query()
        return _repeat_page(word, verb, key)

    @pages.add("POST", f"{_PATH}/{word}", permission="executions.create")
    def repeat(form: Mapping[str, str], **key: str) -> Shown:
        execution = ask("get_execution", path=key)
        fields = _fields(execution)
        before = _inputs(fields, execution)
        read = read_form(fields, {name: text for name, text in form.items() if text != before.get(name)})
        body = {"id": dict(key), **nested(read.values)}
        is_preview = form.get("action") != "create"
        made = Tried()
        if not read.problems:
            made = tried(
                ask,
                f"{word}_execution",
                {"dry_run": is_preview},
                body,
                idempotency_key=form.get("idempotency_key"),
            )
        if made.answer is None or is_preview:
            problems = {**made.problems(field.name for field in fields), **read.problems}
            shown_page = _repeat_page(word, verb, key, form=form, made=made, problems=problems)
            return Response(shown_page, status=400 if read.problems else made.status, mimetype="text/html")
        id = made.answer["id"]
        notice = f"{id['name']} was created." if made.answer["created"] else f"{id['name']} had been created before."
        return go_to(page("executions", id["project"], id["domain"], id["name"]), notice)


def _repeat_page(
    word: str,
    verb: str,
    key: Mapping[str, str],
    *,
    form: Mapping[str, str] | None = None,
    made: Tried | None = None,
    problems: Mapping[str, str] | None = None,
) -> str:
    execution = ask("get_execution", path=key)
    fields = _fields(execution)
    made = made or tried(ask, f"{word}_execution", {"dry_run": True}, {"id": dict(key)})
    new = made.answer["execution"] if made.answer else None
    return render(
        "executions/repeat.html",
        title=f"{verb} {key['name']}",
        commands=tried_and_done(_repeat_command(word, key, fields, execution, form or {})),
        key=key,
        word=word,
        verb=verb,
        execution=execution,
        fields=fields,
        values=form if form is not None else _inputs(fields, execution),
        made=made,
        wait=_wait_of(new) if new and new.get("cluster") else None,
        problems=problems or {},
        suggested=suggestions(*(field.suggestions for field in fields if field.suggestions)),
    )


def _wait_of(new: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Why the cluster that something new would go to does not take it at once; None where it does, or is not told."""
    body = {**{name: new["id"][name] for name in ("project", "domain", "name")}, "spec": new["spec"]}
    placed = tried(ask, "place", None, {**body, **({"inputs": new["inputs"]} if new.get("inputs") else {})}).answer
    wait: Mapping[str, Any] | None = placed.get("wait") if placed and placed.get("cluster") == new["cluster"] else None
    return wait


def _repeat_command(
    word: str, key: Mapping[str, str], fields: list[Field], execution: Mapping[str, Any], form: Mapping[str, str]
) -> list[str]:
    """The command that creates what a form says."""
    before = _inputs(fields, execution)
    values = read_form(fields, {name: text for name, text in form.items() if text != before.get(name)}).values
    named = [str(values["name"])] if "name" in values else []
    return ["create", "execution", *named, f"--{word}", *_words(key), *create_options(values)]


def _fields(execution: Mapping[str, Any]) -> list[Field]:
    """The fields of a relaunch; those of inputs have the types that the workflow declares, where the caller sees it."""
    spec = execution["spec"]
    earlier = {
        "cluster_assignment.cluster_pool_name": (spec.get("cluster_assignment") or {}).get("cluster_pool_name"),
        "execution_cluster_label.value": (spec.get("execution_cluster_label") or {}).get("value"),
        "cluster": spec.get("cluster"),
        "strategy": spec.get("strategy"),
        "overwrite_cache": spec.get("overwrite_cache"),
    }
    fields = [field._replace(default=shown(field, earlier.get(field.name))) for field in _CHANGES]
    declared, fixed = _declared_inputs(execution)
    inputs = execution.get("inputs") or {}
    return fields + [input_field(name, declared.get(name, {})) for name in inputs if name not in fixed]


def _declared_inputs(execution: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The types of its inputs by name, and the inputs that its launch plan fixes."""
    if plan := execution.get("launch_plan"):
        launch_plan = ask_if_allowed("get_launch_plan", path=plan) or {}
        return launch_plan.get("expected_inputs") or {}, (launch_plan.get("spec") or {}).get("fixed_inputs") or {}
    if key := execution.get("workflow"):
        workflow = ask_if_allowed("get_workflow", path=key) or {}
        return (workflow.get("spec") or {}).get("inputs") or {}, {}
    return {}, {}


def _inputs(fields: list[Field], execution: Mapping[str, Any]) -> dict[str, str]:
    """The inputs as they were, as the form shows them."""
    inputs = execution.get("inputs") or {}
    return {
        field.name: shown(field, inputs[field.label])
        for field in fields
        if field.name.startswith("inputs.") and field.label in inputs
    }


_add_repeat("relaunch", "Relaunch")
_add_repeat("recover", "Recover")
