# Server-side apply: field managers, conflicts, force, no changes; and the client-side apply of kubectl.
kubectl apply --server-side -f objects/configmap.yaml
kubectl apply --server-side -f objects/configmap.yaml -o json --show-managed-fields
kubectl apply --server-side --field-manager=other -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}, "data": {"k": "w"}}'
kubectl apply --server-side --field-manager=other --force-conflicts -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}, "data": {"k": "w"}}'
kubectl get configmap three -o json --show-managed-fields
kubectl apply --server-side -f objects/configmap.yaml
kubectl apply --server-side --field-manager=other -f - -o json <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}, "data": {}}'
kubectl apply --server-side -f - -o json --show-managed-fields <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}, "data": {"l": "x"}}'
kubectl apply --server-side -f - --dry-run=server -o json <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}, "data": {"dry": "run"}}'
kubectl apply --server-side -f objects/deployment.yaml
kubectl apply --server-side -f objects/deployment.yaml
kubectl get deployment web -o json --show-managed-fields
kubectl scale deployment web --replicas=5
kubectl apply --server-side -f objects/deployment.yaml
kubectl apply --server-side --force-conflicts -f objects/deployment.yaml -o json
sed 's/nginx:1/nginx:2/' objects/deployment.yaml | kubectl apply --server-side -f - -o json
sed 's/replicas: 2/replicas: -1/' objects/deployment.yaml | kubectl apply --server-side -f -
kubectl apply --server-side -f - <<< '{"apiVersion": "v1", "kind": "Nonsense", "metadata": {"name": "three"}}'
kubectl apply --server-side -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three", "managedFields": [{"manager": "x"}]}}'
kubectl apply -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "local"}, "data": {"k": "v", "l": "x"}}'
kubectl get configmap local -o json
kubectl apply -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "local"}, "data": {"k": "v", "l": "x"}}'
kubectl apply -f - -o json <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "local"}, "data": {"k": "w"}}'
kubectl apply --server-side -f - -o json <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "local"}, "data": {"k": "x"}}'
kubectl apply -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "local"}}' --prune -l app=absent
