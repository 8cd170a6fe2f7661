# shellcheck shell=bash
# clairon.completion.bash: bash completion for clairon. Commands, options and settings come from the output of --help.

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
    elif [ "$COMP_CWORD" = 2 ] && [ "$command" = store ]; then
        words=accept
    else
        # Skip the placeholder --section.key=; the settings themselves end with "=".
        words=$("${COMP_WORDS[0]}" "$command" --help 2>/dev/null |
            grep -oE '(^|[ (])--?[a-z][a-z0-9_.-]*=?' | tr -d ' (' | grep -vx -e '--section.key=')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word" | sort -u)
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -F _clairon clairon
