"""Commands that take the global flags, and groups that load their commands only when one is called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from shlex import join
from typing import TYPE_CHECKING, Any, cast

import click

from ctl.cli.options import GLOBAL_OPTIONS, Argument, GlobalOption, domain_option, project_option
from ctl.cli.revisions import RevisionTime
from ctl.cli.session import Session
from ctl.client.errors import InvalidInput
from ctl.client.words import did_you_mean, nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM = "rainbowctl"
#: Set by the completion script of a shell when it asks for words.
COMPLETE_VARIABLE = "_RAINBOWCTL_COMPLETE"

#: Spellings of flags that are close to a wrong one; several may be of one flag.
_MOST_NEAR = 6

HELP_NAMES = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Command(click.Command):
    """A command with the global flags."""

    def __init__(
        self,
        run: Callable[..., None],
        *,
        help: str,
        examples: Sequence[str] = (),
        params: Sequence[click.Parameter] = (),
    ) -> None:
        own_names = {name for param in params for name in param.opts}
        super().__init__(
            None,  # it is called as its group calls it
            callback=click.pass_obj(run),
            # A flag of the command's own, as --timeout of `wait`, stands for the global one.
            params=[*params, *(option for option in GLOBAL_OPTIONS if not own_names.intersection(option.opts))],
            help=help,
            epilog=example_text(examples),
            context_settings=HELP_NAMES,
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with explained_flags(ctx, args):
            return super().parse_args(ctx, plain_flags(ctx, args))

    def invoke(self, ctx: click.Context) -> Any:
        session = ctx.ensure_object(Session)
        session.check_output()
        own_names = {name for param in self.params for name in param.opts}
        for key, flag in (("project", "-p"), ("domain", "-d")):
            # Typed before the verb, where every command seems to take it.
            if session.typed.get(key) is not None and flag not in own_names:
                raise InvalidInput(f"{ctx.command_path.removeprefix('rainbowctl ')} takes no {key}: leave out {flag}.")
        ctx.params |= {
            name: value.number(session) for name, value in ctx.params.items() if isinstance(value, RevisionTime)
        }
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        format_options(self, ctx, formatter)


@contextmanager
def explained_flags(ctx: click.Context, args: Sequence[str]) -> Iterator[None]:
    """Answer a flag of flytectl's that has no meaning here, or that is an argument, with a sentence of its own."""
    try:
        yield
    except click.NoSuchOption as error:
        from ctl.cli.flytectl import explain_flag

        known = {name for param in ctx.command.params for name in param.opts}
        explanation = explain_flag(error.option_name, known) or _explain_argument(ctx, error.option_name, args)
        if explanation is not None:
            raise click.UsageError(explanation, ctx) from None
        near = _nearest_flags(ctx, error.option_name)
        raise click.NoSuchOption(error.option_name, possibilities=near, ctx=ctx) from None


#: Where a command keeps the words of its command line that it reads itself.
REST = f"{PROGRAM}.rest"


class RunCommand(Command):
    """A command that takes the words after `--` as the command to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[REST] = args[end:]
        rest = super().parse_args(ctx, args[:end])
        words = args[end + 1 :]
        if end < len(args) and not words and not ctx.resilient_parsing:
            raise click.UsageError("There is no command after --.", ctx)
        ctx.params["command"] = tuple(words)
        return rest


def _explain_argument(ctx: click.Context, flag: str, args: Sequence[str]) -> str | None:
    """A sentence about a flag that is an argument of the command, with what to type; None for any other."""
    arguments = [param for param in ctx.command.params if isinstance(param, Argument) and param.expose_value]
    argument = next((argument for argument in arguments if flag.removeprefix("--") in _words_of(ctx, argument)), None)
    if argument is None and flag == "--name" and args[:1] == ["execution"]:
        argument = arguments[-1]  # of `explain execution`, whose other arguments are a scope
    if argument is None:
        return None
    position = next(index for index, word in enumerate(args) if word.partition("=")[0] == flag)
    name = flag.removeprefix("--").upper()
    _flag, equals, value = args[position].partition("=")
    after = [value] if equals else list(args[position + 1 : position + 2]) or [name]
    words = [*args[:position], *after, *args[position + (1 if equals else 2) :], *ctx.meta.get(REST, ())]
    return f"There is no {flag}: {name} is an argument. Write `{ctx.command_path} {join(words)}`."


def _words_of(ctx: click.Context, argument: Argument) -> set[str]:
    """What a flag for an argument could be called; a name goes by that of its noun too."""
    words = {word.lower() for word in re.findall("[A-Za-z]+", argument.make_metavar(ctx))}
    nouns = {str(ctx.info_name), str(ctx.info_name).removesuffix("s")}
    return words | {"name", "id"} | nouns if words & {"name", "id"} else words


def _nearest_flags(ctx: click.Context, typed: str) -> list[str]:
    """The flags of a command that are closest to one that it has not, each in one spelling."""
    params = {
        name: param
        for param in ctx.command.get_params(ctx)
        if isinstance(param, click.Option) and not param.hidden
        for name in (*param.opts, *param.secondary_opts)
        if name.startswith("--")
    }
    by_param: dict[int, str] = {}
    for name in nearest(typed, params, limit=_MOST_NEAR):
        by_param.setdefault(id(params[name]), name)
    return sorted(by_param.values())


def plain_flags(ctx: click.Context, args: Sequence[str]) -> list[str]:
    """Arguments with the spellings of Go, `--flag=true`, `--flag=false` and `-o=json`, as click reads them."""
    options = {
        name: param
        for param in ctx.command.params
        if isinstance(param, click.Option)
        for name in (*param.opts, *param.secondary_opts)
    }
    words = iter(args)
    plain: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        option = options.get(name)
        if word == "--" or not (word.startswith("-") or ctx.allow_interspersed_args):
            return [*plain, word, *words]
        if option is None:
            plain.append(word)
        elif option.is_flag and value.lower() in {"true", "false"}:
            plain = _switched(plain, option, name, is_on=value.lower() == "true")
        elif equals and not option.is_flag and not name.startswith("--"):
            plain += [name, value]
        else:
            plain.append(word)
            plain += islice(words, 0 if equals or option.is_flag else option.nargs)
    return plain


def _switched(words: list[str], option: click.Option, name: str, *, is_on: bool) -> list[str]:
    """Arguments with a flag, or with its opposite; one that has none is off unless it is given."""
    if is_on:
        return [*words, name]
    if not option.secondary_opts:
        return [word for word in words if word not in option.opts]
    return [*words, (option.opts if name in option.secondary_opts else option.secondary_opts)[0]]


def command(
    *,
    help: str,
    examples: Sequence[str],
    params: Sequence[click.Parameter] = (),
    cls: type[Command] = Command,
) -> Callable[[Callable[..., None]], Command]:
    """Turns a function of the session and the parameters into a command."""
    return lambda run: cls(run, help=help, examples=examples, params=params)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Where a command of a group is found, and what it is for."""

    summary: str
    place: str  #: module below `ctl.commands`: `projects.get`
    aliases: tuple[str, ...] = ()


class Group(click.Group):
    """A group whose help needs none of its commands' modules."""

    word = "command"  #: what the help calls its commands

    def __init__(
        self,
        name: str,
        *,
        help: str,
        entries: Mapping[str, Entry],
        examples: Sequence[str] = (),
        epilog: str = "",
    ) -> None:
        super().__init__(
            name,
            help=help,
            params=[
                project_option("Project, for commands that take one."),
                domain_option("Domain."),
                *GLOBAL_OPTIONS,
            ],
            epilog=(example_text(examples) + epilog) or None,
            context_settings=HELP_NAMES,
            subcommand_metavar=f"{self.word.upper()} …",
        )
        self.entries = entries

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with explained_flags(ctx, args):
            return super().parse_args(ctx, plain_flags(ctx, args))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        for word, entry in self.entries.items():
            if name == word or name in entry.aliases:
                module = import_module(f"ctl.commands.{entry.place}")
                return cast(click.Command, getattr(module, self.variable(word)))
        return None

    def variable(self, word: str) -> str:
        """The variable of a command's module that holds the command."""
        return word.replace("-", "_")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name) or self.find_other_command(ctx, name, args[1:])
        if command is None and not ctx.resilient_parsing:
            raise click.UsageError(self.unknown(ctx, name), ctx)
        return (name if command else None), command, args[1:]

    def find_other_command(self, ctx: click.Context, name: str, args: list[str]) -> click.Command | None:
        """A command that is not in `entries`; groups that can look one up override this."""
        return None

    def unknown(self, ctx: click.Context, name: str) -> str:
        end = self.instead(name) or f".{did_you_mean(name, self.list_commands(ctx))}"
        return f"There is no {self.word} {name!r}{end}"

    def instead(self, name: str) -> str:
        """What to type instead of a word of other programs, as the end of a sentence; empty for any other."""
        from ctl.cli.flytectl import explain_word

        reason = explain_word(str(self.name), name)
        return f": {reason}." if reason else ""

    def summaries(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Sections of the help: a title, and names with what they are for."""
        return [(f"{self.word.capitalize()}s", [(name, entry.summary) for name, entry in self.entries.items()])]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, rows in self.summaries():
            if not rows:
                continue
            with formatter.section(title):
                formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        format_options(self, ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        words = {name: summary for _title, rows in self.summaries() for name, summary in rows}
        items = [CompletionItem(name, help=text) for name, text in words.items() if name.startswith(incomplete)]
        # The options come from click's own completion of a plain command.
        return items + click.Command.shell_complete(self, ctx, incomplete)


def format_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """A command's own flags first, then the global ones."""
    own: list[tuple[str, str]] = []
    shared: list[tuple[str, str]] = []
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            (shared if isinstance(param, GlobalOption) else own).append(record)
    for title, records in (("Options", own), ("Global options", shared)):
        if records:
            with formatter.section(title):
                formatter.write_dl(records, col_max=34)


def example_text(examples: Sequence[str]) -> str:
    """Examples as an epilog that click does not rewrap."""
    return "\b\nExamples:\n" + "".join(f"  {line}\n" for line in examples) + "\n" if examples else ""
