# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion for openstack, placement-server and placement-migrate; placement-completion printed it.

_placement_completion() {
    local answer code=0
    answer=$(@PROGRAM@ --complete bash "$COMP_LINE" "$COMP_POINT" "$COMP_WORDBREAKS" 2>/dev/null </dev/null) || code=$?
    COMPREPLY=()
    # its status says only that no NUL follows; a shell with errexit would end
    IFS=$'\n' read -r -d '' -a COMPREPLY <<<"$answer" || true
    case ${COMPREPLY[0]-} in
    *[=:]) compopt -o nospace 2>/dev/null ;;
    esac
    case $code in
    3)
        # others add the words of their commands
        local function=${_placement_completion_others:-_openstack}
        if declare -F "$function" >/dev/null; then
            local ours=(${COMPREPLY[@]+"${COMPREPLY[@]}"})
            "$function" "$@"
            COMPREPLY+=(${ours[@]+"${ours[@]}"})
        fi
        ;;
    4) compopt -o default 2>/dev/null ;;
    esac
}

if ! complete -p openstack >/dev/null 2>&1; then
    # what bash-completion has for a command is loaded when it is completed first
    { __load_completion openstack || _comp_load openstack || true; } >/dev/null 2>&1
fi
if [[ "$(complete -p openstack 2>/dev/null)" =~ -F\ ([^ ]+) && ${BASH_REMATCH[1]} != _placement_completion ]]; then
    _placement_completion_others=${BASH_REMATCH[1]}
fi
complete -F _placement_completion openstack placement-server placement-migrate
complete -W 'bash zsh' placement-completion
