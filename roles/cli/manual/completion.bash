_rlinf() {
    local line=${COMP_LINE:0:COMP_POINT} cur
    local -a words
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cur=${words[${#words[@]}-1]}
    local IFS=$'\n'
    COMPREPLY=($("${words[0]}" completion words -- "${words[@]:1}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
    if [[ $cur == *=* ]]; then # bash completes what stands behind the =
        COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*=}"}"}")
    fi
}
complete -o default -F _rlinf rlinf
