# SPDX-License-Identifier: Apache-2.0
"""Option tables as completion for bash, zsh and fish: verbs, options, values that are words, files, programs, and the
allocators that are installed, with their knobs."""

from __future__ import annotations

import re
from typing import Any

Table = dict[str, Any]
FILES = {"FILE", "RAW", "TRACE", "RESULTS", "PLAN"}
OTHERS = {"DIR": "dir", "PROGRAM": "program", "COMMAND": "program", "CMD": "program", "ALLOCATOR": "allocator"}
RUN_A_PROGRAM = ("record", "try", "validate")
"""A command of its own follows the -- of these verbs."""


def kind(argument: str) -> tuple[str, bool]:
    """Words to choose from with blanks between, or what sort of thing an argument is ("" if anything); whether it is a list."""
    several = argument.endswith(",...")
    parts = argument.removesuffix(",...").removesuffix("...").strip("[]").split("|")
    words = [part for part in parts if re.fullmatch(r"[a-z0-9_]+", part)]
    if words:
        return " ".join(words), several
    return "file" if parts[0] in FILES else OTHERS.get(parts[0], ""), several


def operands(table: Table) -> list[str]:
    """The words of the first way to call a verb that are no options."""
    return [word for word in table["usage"][0].split() if not word.startswith(("-", "[--"))]


def brief(text: str) -> str:
    """A help text cut to what a menu has room for."""
    return re.split(r" \(default|; |: |\. ", text)[0]


def _flags(option: dict[str, str]) -> list[str]:
    return [f"-{letter}" for letter in option.get("short", "")] + [f"--{option['long']}"]


# ---- bash ----

_BASH = r"""# bash completion for heaptape and replay. Written by cli/pages.py from the option tables.

# The programs replay-NAME beside replay, or where they are installed, and what was added.
_heaptape_allocators() {
    local program folder file
    for file in "${XDG_DATA_HOME:-$HOME/.local/share}"/heaptape/allocators/*@*; do
        [[ -d $file ]] && printf '%s\n' "${file##*/}"
    done
    program=$(command -v replay) || program=$(command -v heaptape) || return
    folder=$(dirname "$(readlink -f "$program")")
    for file in "$folder"/replay-* "$folder/@CHILDREN@"/replay-*; do
        [[ -x $file && ${file##*/} != *.* ]] && printf '%s\n' "${file##*/replay-}"
    done
}

_heaptape_knobs() {
    case ${1%%@*} in
@KNOBS@
    esac
}

# REPLY: what the option of the verb takes. False where that is nothing.
_heaptape_argument() {
    case "$1 $2" in
@ARGUMENTS@
    *) return 1 ;;
    esac
}

# What a value may be: fills COMPREPLY.
_heaptape_value() {
    local sort=$1 value=$2 before='' all=''
    if [[ $sort == *, ]]; then
        all=all sort=${sort%,} before=${value%"${value##*,}"} value=${value##*,}
    fi
    case $sort in
    '') ;;
    file) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
    dir) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "$value") ;;
    program) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -c -- "$value") ;;
    allocator)
        if [[ $value == *:* ]]; then
            compopt -o nospace
            mapfile -t COMPREPLY < <(compgen -P "$before${value%%:*}:" -S = -W "$(_heaptape_knobs "${value%%:*}")" -- "${value#*:}")
        else
            [[ $1 == *, ]] && compopt -o nospace
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_heaptape_allocators) $all" -- "$value")
        fi
        ;;
    *) mapfile -t COMPREPLY < <(compgen -P "$before" -W "$sort" -- "$value") ;;
    esac
}

_heaptape() {
    local line=${COMP_LINE:0:COMP_POINT} cur='' verb word operand=0 REPLY
    local -a words
    read -ra words <<<"$line"
    if [[ $line != *[[:space:]] ]]; then
        cur=${words[-1]}
        unset 'words[-1]'
    fi
    [[ ${words[0]##*/} == replay ]] && words=(heaptape replay "${words[@]:1}")
    COMPREPLY=()
    verb=${words[1]-}
    if ((${#words[@]} == 1)) || [[ $verb == help ]]; then
        word='help --help --version'
        [[ $verb == help ]] && word=--json
        mapfile -t COMPREPLY < <(compgen -W "@VERBS@ $word" -- "$cur")
        return
    fi
    for word in "${words[@]:2}"; do
        [[ $word == -- ]] && operand=-1 && continue
        ((operand < 0)) && operand=-2
        [[ $operand -ge 0 && $word != -* ]] && ((++operand))
    done
    if ((operand < 0)) && [[ " @RUN@ " == *" $verb "* ]]; then
        if ((operand == -1)); then _heaptape_value program "$cur"; else _heaptape_value file "$cur"; fi
    elif [[ $cur == --*=* ]] && _heaptape_argument "$verb" "${cur%%=*}"; then
        _heaptape_value "$REPLY" "${cur#*=}"
    elif [[ ${words[-1]} == -* ]] && _heaptape_argument "$verb" "${words[-1]}"; then
        _heaptape_value "$REPLY" "$cur"
    elif [[ $cur == -* ]]; then
        case $verb in
@OPTIONS@
        esac
        [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace
    else
        case $verb in
@OPERANDS@
        esac
    fi
    # Words end at : and =, and begin with @, for bash, which has what is before them already.
    local head=${cur%"${cur##*[=:]}"}
    [[ ${cur#"$head"} == *@* ]] && head=${cur%@*}
    [[ $cur == --*=* ]] && head=${head#*=}
    COMPREPLY=("${COMPREPLY[@]#"$head"}")
}

complete -F _heaptape heaptape replay
"""


def _bash(tables: list[Table], children: str) -> str:
    arguments, options, wanted = [], [], []
    for table in tables[1:]:
        verb = table["name"]
        for option in table["options"]:
            if "argument" in option:
                sort, several = kind(option["argument"])
                arguments.append(f"    {' | '.join(repr(f'{verb} {flag}') for flag in _flags(option))}) REPLY='{sort}{',' * several}' ;;")
        flags = " ".join(flag + "=" * (flag.startswith("--") and "argument" in option)
                         for option in table["options"] for flag in _flags(option))
        options.append(f"        {verb}) mapfile -t COMPREPLY < <(compgen -W '{flags}' -- \"$cur\") ;;")
        sorts = [kind(word)[0] for word in operands(table)]
        if len(sorts) > 1 and verb not in RUN_A_PROGRAM:
            wanted.append(f"        {verb}) if ((operand)); then _heaptape_value '{sorts[1]}' \"$cur\"; else _heaptape_value '{sorts[0]}' \"$cur\"; fi ;;")
        elif sorts:
            wanted.append(f"        {verb}) _heaptape_value '{sorts[0]}' \"$cur\" ;;")
    knobs = [f"    {name}) echo {' '.join(names)} ;;" for name, names in tables[0]["knobs"].items() if names]
    text = _BASH
    for mark, lines in (("KNOBS", knobs), ("ARGUMENTS", arguments), ("OPTIONS", options), ("OPERANDS", wanted)):
        text = text.replace(f"@{mark}@", "\n".join(lines))
    return text.replace("@VERBS@", " ".join(table["name"] for table in tables[1:])).replace("@RUN@", " ".join(RUN_A_PROGRAM)) \
        .replace("@CHILDREN@", children)


# ---- zsh ----

_ZSH = r"""#compdef heaptape replay
# zsh completion for heaptape and replay. Written by cli/pages.py from the option tables.

_heaptape_allocators() {
    local folder=${${commands[replay]:-${commands[heaptape]}}:A:h}
    local -A knobs=(
@KNOBS@
    )
    local -a names=($folder/replay-*(N-*:t) $folder/@CHILDREN@/replay-*(N-*:t))
    names=(${names#replay-} ${XDG_DATA_HOME:-$HOME/.local/share}/heaptape/allocators/*@*(N/:t))
    compset -P '*,'
    if [[ $PREFIX == *:* ]]; then
        local name=${PREFIX%%:*}
        compset -P '*:'
        compadd -S = -- ${=knobs[${name%%@*}]}
    else
        compadd -q -S , -- $names all
    fi
}

_heaptape() {
    local verb=replay
    if [[ $service != replay ]]; then
        if ((CURRENT == 2)); then
            local -a verbs=(
@VERBS@
            )
            _describe -t verbs verb verbs
            return
        fi
        verb=$words[2]
        shift words
        ((CURRENT--))
    fi
    case $verb in
@CASES@
    help) _values verb @NAMES@ --json ;;
    esac
}

_heaptape "$@"
"""

_ZSH_ACTIONS = {"file": "_files", "dir": "_files -/", "program": "_command_names -e", "allocator": "_heaptape_allocators", "": " "}


def _zsh_action(argument: str) -> str:
    sort, several = kind(argument)
    if sort in _ZSH_ACTIONS:
        return _ZSH_ACTIONS[sort]
    return f"_values -s , word {sort}" if several else f"({sort})"


def _quoted(text: str) -> str:
    return text.replace("'", "'\\''")


def _zsh_option(option: dict[str, str]) -> str:
    flags = _flags(option)
    about = _quoted(re.sub(r"([\[\]])", r"\\\1", brief(option["help"])))
    if "argument" not in option:
        names = f"'({' '.join(flags)})'{{{','.join(flags)}}}" if len(flags) > 1 else flags[0]
        return f"{names}'[{about}]'"
    argument = option["argument"]
    ends = [flag + ("=" if flag.startswith("--") else "+") for flag in flags]
    names = f"'({' '.join(flags)})'{{{','.join(ends)}}}" if len(flags) > 1 else ends[0]
    label = argument.replace(":", "\\:")
    return f"{names}'[{about}]:{label}:{_zsh_action(argument)}'"


def _zsh_case(table: Table) -> str:
    words = [_zsh_option(option) for option in table["options"]]
    for number, operand in enumerate(operands(table)):
        sort = kind(operand)[0]
        if sort == "program":
            words += ["'(-):program:_command_names -e'", "'*::argument:_normal'"]
            break
        words.append(f"'{'*' if operand.endswith('...') else number + 1}:{operand.strip('[].').split('|')[0]}:{_zsh_action(operand)}'")
    return f"    {table['name']}) _arguments -s -S " + " \\\n        ".join(words) + " ;;"


def _zsh(tables: list[Table], children: str) -> str:
    knobs = "\n".join(f"        {name} '{' '.join(names)}'" for name, names in tables[0]["knobs"].items() if names)
    verbs = "\n".join(f"                '{table['name']}:{_quoted(table['summary'])}'" for table in tables[1:])
    return _ZSH.replace("@KNOBS@", knobs).replace("@VERBS@", verbs).replace("@CASES@", "\n".join(map(_zsh_case, tables[1:]))) \
        .replace("@NAMES@", " ".join(table["name"] for table in tables[1:])).replace("@CHILDREN@", children)


# ---- fish ----

_FISH = r"""# fish completion for heaptape and replay. Written by cli/pages.py from the option tables.

function __heaptape_allocators
    set -l item (string replace -r '.*[,=]' '' -- (commandline -ct))
    switch $item
@KNOBS@
    end
    set -l program (command -s replay heaptape)
    set -l folder (dirname (realpath $program[1]))
    for file in $folder/replay-* $folder/@CHILDREN@/replay-*
        test -x $file; and string replace -r '.*/replay-' '' -- $file
    end
    set -q XDG_DATA_HOME; and set -l data $XDG_DATA_HOME; or set -l data ~/.local/share
    for file in $data/heaptape/allocators/*@*
        basename $file
    end
    echo all
end

complete -c heaptape -f
complete -c heaptape -n '__fish_seen_subcommand_from help' -l json -d 'Print the option tables'
"""


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_values(argument: str) -> str:
    sort, several = kind(argument)
    if sort == "allocator":
        return "-x -a '(__fish_complete_list , __heaptape_allocators)'" if several else "-x -a '(__heaptape_allocators)'"
    known = {"file": "-r -F", "dir": "-x -a '(__fish_complete_directories)'", "program": "-x -a '(__fish_complete_command)'", "": "-x"}
    return known.get(sort, f"-x -a '{sort}'")


def _fish(tables: list[Table], children: str) -> str:
    knobs = "\n".join(f"        case '{name}:*'\n            printf '{name}:%s=\\n' {' '.join(names)}\n            return"
                      for name, names in tables[0]["knobs"].items() if names)
    lines = [f"complete -c heaptape -n __fish_use_subcommand -a {table['name']} -d {_fish_quoted(table['summary'])}" for table in tables[1:]]
    for table in tables[1:]:
        when = f"complete -c heaptape -n '__fish_seen_subcommand_from {table['name']}'"
        for option in table["options"]:
            letter = f"-s {option['short']} " if "short" in option else ""
            values = f" {_fish_values(option['argument'])}" if "argument" in option else ""
            lines.append(f"{when} {letter}-l {option['long']}{values} -d {_fish_quoted(brief(option['help']))}")
        sorts = [kind(word)[0] for word in operands(table)]
        if sorts[:1] == ["program"]:
            taking = " ".join(flag for option in table["options"] if "argument" in option for flag in _flags(option))
            lines.append(f"{when} -a '(__fish_complete_subcommand --fcs-skip=2 {taking})'")
        elif sorts[:1] == ["file"]:
            lines.append(f"{when} -F")
        lines += [f"{when} -a '{sort}'" for sort in sorts if " " in sort]
    return _FISH.replace("@KNOBS@", knobs).replace("@CHILDREN@", children) + "\n".join(lines) + "\n"


def scripts(tables: list[Table], children: str) -> dict[str, str]:
    """By file name. bash and fish look for the name of the command."""
    bash = _bash(tables, children)
    return {"bash/heaptape": bash, "bash/replay": bash, "zsh/_heaptape": _zsh(tables, children),
            "fish/heaptape.fish": _fish(tables, children),
            "fish/replay.fish": "# Written by cli/pages.py.\ncomplete -c replay -w 'heaptape replay'\n"}
