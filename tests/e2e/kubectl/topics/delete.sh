# Delete: with and without waiting, by selector, with finalizers, by force.
kubectl create configmap one
kubectl delete configmap one
kubectl delete configmap one
kubectl delete configmap one --ignore-not-found
kubectl create configmap one
kubectl delete configmap one --wait=false
kubectl create configmap one
kubectl delete configmap one -o name
kubectl create configmap one
kubectl delete configmap one --dry-run=server
kubectl get configmap one -o name
kubectl create configmap two
kubectl label configmap one two app=web
kubectl delete configmaps -l app=web
kubectl delete configmaps -l app=web
kubectl create configmap one
kubectl create configmap two
kubectl delete configmap one two absent
kubectl create configmap one
kubectl delete configmaps --all
kubectl delete -f objects/configmap.yaml
kubectl create -f objects/configmap.yaml
kubectl delete -f objects/configmap.yaml
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}'
kubectl delete configmap held --timeout=1s
kubectl get configmap held -o json
kubectl delete configmap held --wait=false
kubectl label configmap held still=here
kubectl patch configmap held --type=merge -p '{"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}'
meanwhile 'kubectl patch configmap held --type=merge -p "{\"metadata\": {\"finalizers\": null}}"' wait configmap held --for=delete --timeout=15s
kubectl get configmap held
kubectl create -f objects/pod.yaml
kubectl delete pod web --wait=false
kubectl get pod web -o json
kubectl delete pod web --wait=false --grace-period=5
kubectl get pod web -o 'jsonpath={.metadata.deletionGracePeriodSeconds}'
kubectl delete pod web --grace-period=0 --force
kubectl get pod web
kubectl create -f objects/pod.yaml
kubectl delete pod web --now --wait=false
kubectl delete pod web --grace-period=0 --force
kubectl delete nonsense absent
kubectl delete pods
kubectl delete namespace absent
kubectl delete namespace default
