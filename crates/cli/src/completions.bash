
# What clap cannot know: the keys of the store, and the command behind --.
_leasehold_here() {
    local at cur=${COMP_WORDS[COMP_CWORD]}
    for ((at = 1; at < COMP_CWORD; at++)); do
        [[ ${COMP_WORDS[at]} == -- ]] || continue
        # Otherwise bash does not quote blanks, and takes a directory for the whole word.
        compopt -o filenames
        if ((COMP_CWORD == at + 1)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        return
    done
    _leasehold "$@"
    # The words as they were typed: bash takes them apart at colons and equals signs.
    local line=${COMP_LINE:0:COMP_POINT} typed task= store=() word=
    read -ra typed <<<"$line"
    [[ $line == *[[:space:]] ]] || { word=${typed[-1]}; unset 'typed[-1]'; }
    [[ $word == -* || $_leasehold_with_value == *" ${typed[-1]} "* ]] && return
    for ((at = 1; at < ${#typed[@]}; at++)); do
        case ${typed[at]} in
            --store) store+=(--store "${typed[++at]}") ;;
            --store=*) store+=("${typed[at]}") ;;
            -*) [[ $_leasehold_with_value == *" ${typed[at]} "* ]] && ((at++)) ;;
            *) task=${task:-${typed[at]}} ;;
        esac
    done
    local looks
    case $task in
        run | hold | break | ls | top | watch | metrics) looks=("") ;;
        once | every | show | forget) looks=("" --marks) ;;
        *) return ;;
    esac
    local look key
    for look in "${looks[@]}"; do
        # One object a line, and the key first. A key with a quote or a backslash in it is left out.
        while IFS= read -r key; do
            [[ $key == "$word"* ]] || continue
            printf -v key %q "$key"
            [[ $word == *:* && $COMP_WORDBREAKS == *:* ]] && key=${key#"${word%:*}:"}
            COMPREPLY+=("$key")
        done < <(leasehold ls -q --json --all --outage-limit 1s $look "${store[@]}" 2>/dev/null |
            sed -n 's/^{"key":"\([^"\\]*\)".*/\1/p')
    done
}
# Older ones, such as that of macOS, lack what it uses, and keep the completions of clap.
if [[ ${BASH_VERSINFO[0]} -eq 4 && ${BASH_VERSINFO[1]} -ge 4 || ${BASH_VERSINFO[0]} -gt 4 ]]; then
    complete -F _leasehold_here -o nosort -o bashdefault -o default leasehold
fi
