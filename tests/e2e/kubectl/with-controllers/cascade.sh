# Dependents of deleted owners. On the real server, the garbage collector of kube-controller-manager deletes them.
kubectl create configmap owner
owned owner child
kubectl delete configmap owner --cascade=orphan
kubectl get configmap child -o json
kubectl create configmap owner
owned owner dependent
kubectl delete configmap owner --cascade=foreground
kubectl get configmap owner dependent
kubectl create configmap owner
owned owner dependent
kubectl delete configmap owner
kubectl wait configmap dependent --for=delete --timeout=20s >/dev/null && kubectl get configmap dependent
kubectl get configmap child -o name
