# Rollouts: status, history, undo, restart, pause and resume, with ReplicaSets that no controller changes.
kubectl create -f objects/deployment.yaml
kubectl rollout status deployment/web --timeout=1s
kubectl rollout status deployment/web --watch=false
kubectl rollout history deployment/web
kubectl rollout pause deployment/web
kubectl rollout pause deployment/web
kubectl get deployment web -o 'jsonpath={.spec.paused}'
kubectl rollout resume deployment/web
kubectl rollout resume deployment/web
kubectl rollout restart deployment/web
kubectl get deployment web -o 'jsonpath={.spec.template.metadata.annotations}' | sed 's/[0-9T:+-]*Z/TIME/; s/T[0-9:+-]*"/"/'
kubectl annotate deployment web kubernetes.io/change-cause='second image'
replica_set web 1 nginx:1
replica_set web 2 nginx:2
kubectl get replicasets
kubectl rollout history deployment/web
kubectl rollout history deployment/web --revision=1
kubectl rollout history deployment/web --revision=9
kubectl rollout undo deployment/web --to-revision=1
kubectl get deployment web -o 'jsonpath={.spec.template.spec.containers[0].image}'
kubectl rollout undo deployment/web --to-revision=9
kubectl rollout undo deployment/web --dry-run=server
kubectl rollout undo deployment/web --to-revision=2
kubectl patch deployment web --subresource=status --type=merge -p '{"status": {"observedGeneration": 20, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True"}]}}'
kubectl rollout status deployment/web --timeout=5s
kubectl get deployment web
kubectl get deployment web -o wide
kubectl wait deployment web --for=condition=Available --timeout=5s
kubectl create -f objects/daemonset.yaml
kubectl create -f objects/statefulset.yaml
kubectl rollout status daemonset/agent --timeout=1s
kubectl rollout status statefulset/db --timeout=1s
kubectl rollout history daemonset/agent
kubectl rollout history statefulset/db
kubectl rollout undo statefulset/db
kubectl rollout restart statefulset/db daemonset/agent
kubectl rollout restart deployment -l app=web
kubectl rollout restart deployment/absent
kubectl rollout restart configmap/one
kubectl rollout pause statefulset/db
kubectl scale statefulset/db --replicas=2
kubectl scale rs -l app=web --replicas=0
kubectl get rs -l app=web -o 'jsonpath={.items[*].spec.replicas}'
