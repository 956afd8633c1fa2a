# Nodes: labels, taints, cordon and drain, and the Pods of a node.
kubectl create -f objects/node.yaml
kubectl get nodes -o name
kubectl get node kubectl-node
kubectl get node kubectl-node -o wide
kubectl get node kubectl-node --show-labels
kubectl get node kubectl-node -o 'jsonpath={.metadata.labels} {.spec.podCIDR}'
kubectl label node kubectl-node disk=ssd
kubectl label node kubectl-node disk=hdd
kubectl get nodes -l disk=ssd -o name
kubectl taint nodes kubectl-node dedicated=infra:NoSchedule
kubectl taint nodes kubectl-node dedicated=other:NoSchedule
kubectl taint nodes kubectl-node dedicated=other:NoSchedule --overwrite
kubectl get node kubectl-node -o 'jsonpath={.spec.taints[?(@.key=="dedicated")]}'
kubectl taint nodes kubectl-node dedicated=infra:Nonsense
kubectl taint nodes kubectl-node dedicated:NoSchedule-
kubectl taint nodes kubectl-node absent-
kubectl cordon kubectl-node
kubectl cordon kubectl-node
kubectl get node kubectl-node
kubectl get node kubectl-node -o 'jsonpath={.spec.unschedulable}'
kubectl get nodes --field-selector spec.unschedulable=true -o name
kubectl uncordon kubectl-node
kubectl uncordon kubectl-node
kubectl cordon absent
kubectl patch node kubectl-node --subresource=status --type=merge -p '{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}], "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}'
kubectl get node kubectl-node
kubectl wait node kubectl-node --for=condition=Ready --timeout=5s
kubectl describe node kubectl-node | grep -vE '^(Taints|PodCIDRs):'
sed 's/node-1/kubectl-node/' objects/pod.yaml | kubectl create -f -
kubectl describe node kubectl-node | sed -n '/Non-terminated/,$p'
kubectl get pods -A --field-selector spec.nodeName=kubectl-node -o name
kubectl drain kubectl-node
kubectl drain kubectl-node --dry-run=server --force
kubectl drain kubectl-node --force --disable-eviction --grace-period=0 --timeout=10s
kubectl get pods
kubectl drain kubectl-node
kubectl drain absent
kubectl annotate node kubectl-node note=x
kubectl top nodes
kubectl top pods
kubectl debug node/kubectl-node --image=busybox --attach=false 2>&1 | sed 's/debugger-[a-z0-9-]*/debugger/g'
kubectl delete node kubectl-node
kubectl get node kubectl-node
