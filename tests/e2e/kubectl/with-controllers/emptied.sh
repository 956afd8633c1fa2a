# Delete of a namespace with its objects. On the real server, kube-controller-manager deletes them.
kubectl create namespace "$NAMESPACE-gone"
kubectl create configmap one -n "$NAMESPACE-gone"
kubectl delete namespace "$NAMESPACE-gone"
kubectl get namespace "$NAMESPACE-gone"
kubectl get configmap one -n "$NAMESPACE-gone"
kubectl create namespace "$NAMESPACE-held"
kubectl create -f - -n "$NAMESPACE-held" <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}'
kubectl delete namespace "$NAMESPACE-held" --wait=false
kubectl create configmap late -n "$NAMESPACE-held"
kubectl get namespace "$NAMESPACE-held" -o 'jsonpath={.status.phase} {.spec.finalizers}'
kubectl wait configmap held -n "$NAMESPACE-held" --for=jsonpath='{.metadata.deletionTimestamp}' --timeout=20s
kubectl patch configmap held -n "$NAMESPACE-held" --type=merge -p '{"metadata": {"finalizers": null}}'
kubectl wait namespace "$NAMESPACE-held" --for=delete --timeout=25s >/dev/null && kubectl get namespace "$NAMESPACE-held"
