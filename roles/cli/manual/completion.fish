function _rlinf
    set -l words (commandline -opc)
    set -l all ($words[1] completion words -- $words[2..-1] \
        (commandline -ct | string collect --allow-empty) 2>/dev/null)
    if test (count $all) -eq 0
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $all
    end
end
complete -c rlinf -f -a '(_rlinf)'
