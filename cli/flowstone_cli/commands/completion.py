"""`flow completion bash|zsh`: print the script that makes TAB complete verbs, options, workflows and runs."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flowstone.errors import UsageError
from flowstone_cli import json_text
from flowstone_cli.session import Session

_BASH = """\
# flow completion bash: put this into your ~/.bashrc:  eval "$(flow completion bash)"
_flow_asked() {{ # what prefix: candidates of the command itself, for the database and folder on this line
    local i db=() dir=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in
            --db) db=(--db "${{COMP_WORDS[i + 1]}}") ;;
            --dir) dir=(--dir "${{COMP_WORDS[i + 1]}}") ;;
        esac
    done
    flow __complete "$1" "$2" "${{db[@]}}" "${{dir[@]}}" 2>/dev/null
}}
_flow() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} verb= i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in
            --db|--dir|--color) ((i++)) ;;
            -*) ;;
            *) verb=${{COMP_WORDS[i]}}; break ;;
        esac
    done
    COMPREPLY=()
    case $before in
        {files}) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --color) COMPREPLY=($(compgen -W "auto always never" -- "$word")); return ;;
    esac
    if [[ -z $verb ]]; then
        COMPREPLY=($(compgen -W "{verbs} {shared}" -- "$word")); return
    fi
    if [[ $word == -* ]]; then
        case $verb in
{options}
        esac
        return
    fi
    case $verb in
        {workflows}) COMPREPLY=($(compgen -W "$(_flow_asked workflows "$word")" -- "$word")) ;;
        {runs}) COMPREPLY=($(compgen -W "$(_flow_asked runs "$word")" -- "$word")) ;;
        help) COMPREPLY=($(compgen -W "{verbs} {topics}" -- "$word")) ;;
        completion) COMPREPLY=($(compgen -W "bash zsh" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}}
complete -F _flow flow
"""

_ZSH = """\
# flow completion zsh: put this into your ~/.zshrc, after compinit:  eval "$(flow completion zsh)"
autoload -U +X bashcompinit && bashcompinit
"""

SHELLS = ("bash", "zsh")
_FILES = "-i|--input|--db|--dir|-o|--output"
_WORKFLOWS = ("run", "show", "check")


def command(
    ctx: typer.Context,
    shell: Annotated[str, typer.Argument(metavar="bash|zsh", help="For which shell.", show_default=False)],
) -> int:
    """Print the completion script of a shell; no file of yours is changed.

    In ~/.bashrc or ~/.zshrc: eval "$(flow completion bash)"
    """
    session: Session = ctx.obj
    if shell not in SHELLS:
        raise UsageError(f"flow completion takes {' or '.join(SHELLS)}; not {shell}", hint="flow completion bash")
    script = ("" if shell == "bash" else _ZSH) + _script(ctx)
    fields = {"schema": "flow.completion/1", "shell": shell, "script": script}
    session.out.write(json_text.document(fields) if session.options.json else script)
    return 0


def _script(ctx: typer.Context) -> str:
    from flowstone_cli.commands.help import TOPICS

    assert ctx.parent is not None
    group: Any = ctx.parent.command
    verbs: Mapping[str, Any] = {name: group.get_command(ctx.parent, name) for name in group.list_commands(ctx.parent)}
    takes_runs = [
        name
        for name, verb in verbs.items()
        if any(param.param_type_name == "argument" and "RUN" in str(param.metavar) for param in verb.params)
    ]
    options = "\n".join(
        f'            {name}) COMPREPLY=($(compgen -W "{" ".join(_options(verb))}" -- "$word")) ;;'
        for name, verb in verbs.items()
    )
    return _BASH.format(
        files=_FILES,
        verbs=" ".join(verbs),
        shared=" ".join(_options(group)),
        options=options,
        workflows="|".join(name for name in verbs if name in _WORKFLOWS),
        runs="|".join(name for name in takes_runs if name not in _WORKFLOWS),
        topics=" ".join(TOPICS),
    )


def _options(verb: Any) -> list[str]:
    return [opt for param in verb.params for opt in param.opts if opt.startswith("-")]
