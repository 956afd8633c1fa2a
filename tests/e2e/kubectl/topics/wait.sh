# Wait: for conditions, values, creation and deletion; and timeouts.
kubectl create -f objects/pod.yaml
meanwhile 'kubectl patch pod web --subresource=status --type=merge -p "{\"status\": {\"phase\": \"Running\", \"conditions\": [{\"type\": \"Ready\", \"status\": \"True\"}]}}"' wait pod web --for=condition=Ready --timeout=15s
kubectl wait pod web --for=condition=Ready=true -o name
kubectl wait pod web --for=condition=Absent --timeout=1s
kubectl wait pod web --for=jsonpath='{.status.phase}'=Running --timeout=5s
kubectl wait pod web --for=jsonpath='{.status.phase}'=Failed --timeout=1s
kubectl wait pod web --for=jsonpath='{.metadata.name}'
kubectl wait pod -l app=web --for=condition=Ready
kubectl wait pod absent --for=condition=Ready --timeout=1s
kubectl wait pod absent --for=delete --timeout=1s
kubectl wait pod absent --for=create --timeout=1s
(sleep 0.5; kubectl create configmap born >/dev/null) & kubectl wait configmap born --for=create --timeout=15s
meanwhile 'kubectl delete configmap born' wait configmap born --for=delete --timeout=15s
kubectl wait pod web --for=delete --timeout=1s
meanwhile 'kubectl delete pod web --grace-period=0 --force' wait pod web --for=delete --timeout=15s
