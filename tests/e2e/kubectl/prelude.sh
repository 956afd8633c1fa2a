# Functions for the commands of the topics. The runner adds kubectl, with the namespace of the topic, to PATH.

# Built-in kinds that require a component of a cluster. The embedded server does not serve them.
ABSENT='bindings|componentstatuses|tokenreviews'
ABSENT_VERSIONS='autoscaling/v1'

# watching LINES ACTION ARGS...: prints the first LINES lines of `kubectl ARGS`. Runs ACTION after the first line.
watching() {
    local lines=$1 action=$2 printed line
    shift 2
    coproc WATCH { exec kubectl "$@" 2>&1; }
    for ((printed = 0; printed < lines; printed++)); do
        IFS= read -r -t 15 line <&"${WATCH[0]}" || { echo "the watch sent no further line"; break; }
        printf '%s\n' "$line"
        if ((printed == 0)); then eval "$action" >/dev/null; fi
    done
    kill "$WATCH_PID"
    wait "$WATCH_PID" 2>/dev/null
    return 0
}

# meanwhile ACTION ARGS...: runs `kubectl ARGS`, and ACTION when its watch is open. Returns the exit code of kubectl.
meanwhile() {
    local action=$1 log waiting
    shift
    log=$(mktemp)
    kubectl -v=6 "$@" 2>"$log" &
    waiting=$!
    until grep -q 'watch=true' "$log" || ! kill -0 "$waiting" 2>/dev/null; do sleep 0.02; done
    eval "$action" >/dev/null
    wait "$waiting"
    waiting=$?
    cat "$log" >&2
    return "$waiting"
}

# editing SCRIPT ARGS...: runs `kubectl edit ARGS` with sed as the editor.
editing() {
    local script=$1
    shift
    KUBE_EDITOR="sed -i -e '$script'" kubectl edit "$@"
}

# owned OWNER NAME: creates the ConfigMap NAME, owned by the ConfigMap OWNER.
owned() {
    local uid
    uid=$(kubectl get configmap "$1" -o 'jsonpath={.metadata.uid}')
    kubectl create -f - <<EOF
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "$2", "ownerReferences": [
  {"apiVersion": "v1", "kind": "ConfigMap", "name": "$1", "uid": "$uid", "blockOwnerDeletion": true}]}}
EOF
}

# fields ARGS...: prints `kubectl explain ARGS` without descriptions, which kube-testserver omits for built-in kinds.
fields() {
    kubectl explain "$@" | awk '/^ *ENUM:/ { values = 1 } /^$/ { values = 0 }
        values || /^(GROUP|KIND|VERSION|RESOURCE|FIELD)/ || /^ +[^ \t]+\t/ || /^ *enum: /'
    return "${PIPESTATUS[0]}"
}

# settled GROUP/VERSION RESOURCE: waits until discovery and the OpenAPI index contain the resource of a CRD. kube-apiserver publishes them
# after the CRD. Then clears the HTTP cache of kubectl: it contains the index that `kubectl create` read, and kube-apiserver reports
# this index as unchanged if it changed within the same second.
settled() {
    until kubectl api-resources --api-group="${1%/*}" --no-headers 2>/dev/null | grep -q "^$2 " &&
        kubectl get --raw /openapi/v3 | grep -q "\"apis/$1\""; do sleep 0.1; done
    rm -rf "$KUBECACHEDIR/http"
}

# replica_set NAME REVISION IMAGE: creates a ReplicaSet of the Deployment NAME, as its controller would.
replica_set() {
    local uid
    uid=$(kubectl get deployment "$1" -o 'jsonpath={.metadata.uid}')
    kubectl create -f - <<EOF
{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "$1-$2", "labels": {"app": "$1"},
  "annotations": {"deployment.kubernetes.io/revision": "$2", "kubernetes.io/change-cause": "revision $2"},
  "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "$1", "uid": "$uid", "controller": true}]},
 "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "$1", "pod-template-hash": "$2"}},
  "template": {"metadata": {"labels": {"app": "$1", "pod-template-hash": "$2"}},
   "spec": {"containers": [{"name": "main", "image": "$3"}]}}}}
EOF
}
