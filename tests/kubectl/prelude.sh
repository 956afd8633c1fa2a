# What the commands beside this file may use besides kubectl, which the runner puts on PATH with the topic's namespace.

# watching LINES ACTION ARGS...: what `kubectl ARGS` prints until it has printed LINES lines; ACTION runs after the first.
watching() {
    local lines=$1 action=$2 printed line
    shift 2
    coproc WATCH { exec kubectl "$@" 2>&1; }
    for ((printed = 0; printed < lines; printed++)); do
        IFS= read -r -t 15 line <&"${WATCH[0]}" || { echo "the watch said no more"; break; }
        printf '%s\n' "$line"
        if ((printed == 0)); then eval "$action" >/dev/null; fi
    done
    kill "$WATCH_PID"
    wait "$WATCH_PID" 2>/dev/null
    return 0
}

# meanwhile ACTION ARGS...: `kubectl ARGS` with its output and exit code, while ACTION happens beside it.
meanwhile() {
    local action=$1 waiting
    shift
    kubectl "$@" &
    waiting=$!
    eval "$action" >/dev/null
    wait "$waiting"
}

# editing SCRIPT ARGS...: `kubectl edit ARGS` with sed as the editor.
editing() {
    local script=$1
    shift
    KUBE_EDITOR="sed -i -e '$script'" kubectl edit "$@"
}
