_rlinf() {
    local -a all keys
    all=("${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    all=("${(@)all:#}")
    keys=("${(@M)all:#*=}")
    if (( ! ${#all} )); then
        _files
        return
    fi
    (( ${#keys} )) && compadd -S '' -- "${(@)keys}"
    all=("${(@)all:#*=}")
    (( ${#all} )) && compadd -- "${(@)all}"
}
compdef _rlinf rlinf
