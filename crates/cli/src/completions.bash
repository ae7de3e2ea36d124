
# What clap cannot know: the keys of the store, and the command behind --.
_leasehold_here() {
    local at cur=${COMP_WORDS[COMP_CWORD]}
    for ((at = 1; at < COMP_CWORD; at++)); do
        [[ ${COMP_WORDS[at]} == -- ]] || continue
        if ((COMP_CWORD == at + 1)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        return
    done
    _leasehold "$@"
    case ${COMP_WORDS[1]} in
        run | once | hold | show | break)
            [[ $cur == -* || ${COMP_WORDS[COMP_CWORD - 1]} == -* ]] && return
            local keys
            # One object a line, and the key first. A key with a quote or a backslash in it is left out.
            keys=$(leasehold ls -q --json --all 2>/dev/null | sed -n 's/^{"key":"\([^"\\]*\)".*/\1/p')
            local IFS=$'\n'
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$keys" -- "$cur")
            ;;
    esac
}
complete -F _leasehold_here -o nosort -o bashdefault -o default leasehold
