# Commands that need a node: logs, exec, attach, port-forward, cp, debug. Without a node, they fail on both servers.
kubectl create -f objects/pod.yaml
kubectl run loose --image=nginx:1
kubectl logs absent
kubectl logs loose
kubectl logs loose -c absent
kubectl logs -l app=absent
kubectl logs deployment/absent
kubectl exec absent -- true
kubectl exec loose -c absent -- true
kubectl attach absent
kubectl port-forward pod/absent 8080:80
kubectl port-forward loose 8080:80
kubectl cp absent:/etc/hosts hosts
kubectl cp hosts loose:/etc/hosts
kubectl debug absent --image=busybox
kubectl wait pod loose --for=condition=Ready --timeout=1s
kubectl wait pod loose --for=jsonpath='{.status.phase}'=Pending --timeout=5s
kubectl get pod loose
kubectl get pod loose -o 'jsonpath={.status}'
kubectl patch pod loose -p '{"spec": {"containers": [{"name": "loose", "image": "nginx:2"}]}}'
kubectl set image pod/loose loose=nginx:3
kubectl annotate pod loose note=x
kubectl delete pod loose
kubectl delete pod web --wait=false
kubectl get pods
kubectl delete pods --all --grace-period=0 --force
kubectl delete pods -l app=web --now
kubectl get pods
kubectl delete pod absent --ignore-not-found
