# SPDX-License-Identifier: Apache-2.0
# Completion for openstack, placement-server and placement-migrate; placement-completion printed it.

_placement_completion() {
    local answer line code
    local -a described plain continued
    answer=$(@PROGRAM@ --complete zsh "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null </dev/null)
    code=$?
    for line in ${(f)answer}; do
        case $line in
        *[=:]$'\t') continued+=("${line%$'\t'}") ;;
        *$'\t') plain+=("${line%$'\t'}") ;;
        *) described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    (( $#continued )) && compadd -S '' -a continued
    (( $#plain )) && compadd -a plain
    (( $#described )) && _describe word described
    case $code in
    3) (( $#_placement_completion_others )) && $=_placement_completion_others "$@" ;;
    4) _files ;;
    esac
    (( compstate[nmatches] ))
}

if (( ! $+functions[compdef] )); then
    autoload -Uz compinit && compinit
fi
if [[ ${_comps[openstack]-} != _placement_completion ]]; then
    typeset -g _placement_completion_others=${_comps[openstack]-}
fi
compdef _placement_completion openstack placement-server placement-migrate
_placement_completion_shells() { compadd bash zsh }
compdef _placement_completion_shells placement-completion
