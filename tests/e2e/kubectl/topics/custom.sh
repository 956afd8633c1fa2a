# A custom kind: all verbs on its objects, and its removal.
kubectl get widgets
kubectl create -f objects/crd.yaml
kubectl wait crd widgets.shop.example.com --for=condition=Established --timeout=15s
kubectl create -f objects/crd.yaml
kubectl get crd widgets.shop.example.com -o json
kubectl get crd widgets.shop.example.com -o name
settled shop.example.com/v1 widgets
kubectl api-resources --api-group=shop.example.com --no-headers
fields widgets
fields widget.spec --recursive
kubectl explain widget.spec.parts.count
kubectl explain widget.spec.absent
kubectl get widgets -o json
kubectl create -f objects/widget.yaml -o json
kubectl create -f objects/widget.yaml
kubectl create -f - <<< '{"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "bad"}, "spec": {"size": 0}}'
kubectl create -f - <<< '{"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "bad"}, "spec": {"size": "many"}}'
kubectl create -f - <<< '{"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "bad"}, "spec": {}}'
kubectl create -f - -o json <<< '{"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "two"}, "spec": {"size": 1, "unknown": true}}'
kubectl create -f - <<< '{"apiVersion": "shop.example.com/v2", "kind": "Widget", "metadata": {"name": "bad"}}'
kubectl get widgets -o yaml
kubectl get wg -o name
kubectl get widget one -o json
kubectl get widgets.shop.example.com one -o yaml
kubectl get widgets.v1.shop.example.com one two -o name
kubectl get widgets -l app=web -o name
kubectl get widgets -l '!app' -o name
kubectl get widgets --field-selector metadata.name=two -o name
kubectl get widgets --field-selector spec.size=3 -o name
kubectl get widgets -A -o name
kubectl get widget absent
watching 2 'kubectl label widget one seen=yes; kubectl delete widget two' get widgets -w -o name
kubectl patch widget one --type=merge -p '{"spec": {"colour": "blue"}}' -o json
kubectl patch widget one --type=merge -p '{"spec": {"size": -1}}'
kubectl patch widget one --type=json -p '[{"op": "replace", "path": "/spec/size", "value": 4}]' -o json
kubectl patch widget one -p '{"spec": {"size": 5}}'
kubectl patch widget one --type=merge -p '{"status": {"phase": "Ready"}}' -o json
kubectl patch widget one --subresource=status --type=merge -p '{"status": {"phase": "Ready", "replicas": 1, "selector": "app=web", "conditions": [{"type": "Ready", "status": "True"}]}}' -o json
kubectl wait widget one --for=condition=Ready --timeout=5s
kubectl wait widget one --for=jsonpath='{.status.phase}'=Ready --timeout=5s
kubectl label widget one tier=front
kubectl label widget one tier=back
kubectl label widget one tier=back --overwrite
kubectl annotate widget one note=x
kubectl annotate widget one note-
kubectl scale widget one --replicas=3
kubectl get widget one -o json
kubectl get widget one --subresource=scale -o json
kubectl scale widget one --replicas=2 --current-replicas=7
editing 's/"size": 4/"size": 6/' widget one -o json
editing 's/size: 6/size: 0/' widget one
kubectl get widget one -o json | sed 's/"size": 6/"size": 7/' | kubectl replace -o json -f -
kubectl replace -f objects/widget.yaml
kubectl apply --server-side -f objects/widget.yaml
kubectl apply --server-side --force-conflicts -f objects/widget.yaml -o json
kubectl apply --server-side -f objects/widget.yaml
kubectl apply --server-side --field-manager=other -f - -o json --show-managed-fields <<< '{"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": 3, "parts": [{"name": "nut", "count": 2}]}}'
kubectl apply --server-side --field-manager=other -f - <<< '{"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": 8}}'
kubectl apply --server-side -f - -o json <<< '{"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "applied"}, "spec": {"size": 8}}'
kubectl apply -f - <<< '{"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "local"}, "spec": {"size": 8}}'
kubectl apply -f - -o json <<< '{"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "local"}, "spec": {"size": 9}}'
kubectl create -f objects/widget.yaml --dry-run=server
kubectl delete widget one --dry-run=server
kubectl delete widget one
kubectl delete widget one --wait=false
kubectl delete widgets --all
kubectl delete crd widgets.shop.example.com --timeout=15s
kubectl get widgets
kubectl get crd widgets.shop.example.com
