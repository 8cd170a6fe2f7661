# shellcheck shell=bash
# clairon.completion.bash: bash completion for clairon: commands, options and settings, as each --help prints them.

_clairon() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        words=$("${COMP_WORDS[0]}" --help 2>/dev/null | sed -nE 's/^  (-?-?[a-z]+).*/\1/p')
    elif [ "$before" = -c ]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames 2>/dev/null
        return
    elif [ "$COMP_CWORD" = 2 ] && [ "$command" = errors ]; then
        words="list redrive drop"
    else
        # --section.key=VALUE goes on behind the sign; --section.key stands for all of them.
        words=$("${COMP_WORDS[0]}" "$command" --help 2>/dev/null |
            grep -oE '(^|[ (])--?[a-z][a-z0-9_.-]*=?' | tr -d ' (' | grep -vx -e '--section.key=')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word" | sort -u)
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -F _clairon clairon
