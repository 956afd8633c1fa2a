# Further commands: diff, prune, kustomize, apply of several files, delete variants, and local commands.
kubectl apply -k objects/kustom
kubectl kustomize objects/kustom
kubectl diff -k objects/kustom
kubectl apply -k objects/kustom --prune -l team=shop
kubectl get configmap -l team=shop -o 'jsonpath={.items[*].metadata.name}'
kubectl delete -k objects/kustom
kubectl apply -f objects/two-kinds.yaml -l app=none
kubectl apply -f objects/two-kinds.yaml
kubectl apply -f objects/two-kinds.yaml
kubectl apply view-last-applied configmap/pair
kubectl apply edit-last-applied configmap/absent
kubectl apply set-last-applied -f objects/configmap.yaml
kubectl apply set-last-applied -f objects/two-kinds.yaml
sed 's/k: v/k: w/' objects/two-kinds.yaml | kubectl diff -f - | grep '^[+-] '
sed 's/k: v/k: w/' objects/two-kinds.yaml | kubectl diff --server-side -f - 2>&1 | grep -E '^[+-] |conflict'
sed 's/k: v/k: w/' objects/two-kinds.yaml | kubectl apply --server-side -f -
kubectl apply --server-side --field-manager=mine --force-conflicts -f objects/two-kinds.yaml
kubectl get configmap pair --show-managed-fields -o 'jsonpath={.metadata.managedFields[*].manager}'
kubectl apply -f objects/configmap.yaml --dry-run=server
kubectl apply -f objects/configmap.yaml --dry-run=client -o name
kubectl apply -f absent.yaml
kubectl apply -f objects/deployment.yaml -o 'jsonpath={.metadata.annotations}'
kubectl apply -f objects/deployment.yaml --prune --all --prune-allowlist=core/v1/ConfigMap
kubectl get configmap pair
kubectl apply -f objects/deployment.yaml --force
kubectl delete deployment web
kubectl create configmap one
kubectl create configmap two
kubectl delete cm/one cm/two
kubectl create configmap one
kubectl delete configmap one --now
kubectl create configmap one
kubectl delete configmap --field-selector metadata.name=one
kubectl create configmap one
kubectl delete configmap one --cascade=background --wait=false
kubectl delete configmap one --cascade=nonsense
kubectl delete all --all
kubectl delete configmaps,secrets -l absent=yes
kubectl delete -f objects/two-kinds.yaml --ignore-not-found
kubectl delete --raw "/api/v1/namespaces/$NAMESPACE/configmaps/absent"
kubectl delete configmap
kubectl delete
kubectl create --raw "/api/v1/namespaces/$NAMESPACE/configmaps" -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "raw"}}' | grep -o '"name":"raw"'
kubectl wait configmap/raw --for=jsonpath='{.metadata.name}'=raw --timeout=1s
kubectl wait configmap/raw --for=create --timeout=1s
kubectl wait --for=delete configmap/absent
kubectl wait configmap/raw --for=nonsense
kubectl wait configmaps --all --for=jsonpath='{.metadata.uid}' --timeout=1s
kubectl api-resources --api-group=batch --no-headers | tr -s ' '
kubectl api-resources --verbs=nonsense
kubectl api-resources --namespaced=true --api-group=policy -o name
kubectl explain configmap --api-version=v2
kubectl options | head -1
kubectl completion bash | wc -l
kubectl __complete get pods -n "$NAMESPACE" '' 2>/dev/null
kubectl __complete get cm '' 2>/dev/null
kubectl convert -f objects/deployment.yaml
kubectl alpha 2>&1 | head -1
kubectl nonsense
