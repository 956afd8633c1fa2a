# kubectl set, patch types, replace, labels and annotations of workloads.
kubectl create -f objects/deployment.yaml
kubectl create serviceaccount robot
kubectl create configmap settings --from-literal=COLOUR=red
kubectl create secret generic hidden --from-literal=PASSWORD=open
kubectl set image deployment/web main=nginx:2 -o json
kubectl set image deployments --all main=nginx:3
kubectl set image deployment/web '*=nginx:4' --dry-run=server
kubectl set image deployment absent main=nginx:2
kubectl set env deployment/web A=b C=d
kubectl set env deployment/web --list
kubectl set env deployment/web --from=configmap/settings
kubectl set env deployment/web --from=secret/hidden --prefix=SECRET_
kubectl set env deployment/web A-
kubectl get deployment web -o 'jsonpath={.spec.template.spec.containers[0].env}'
kubectl set resources deployment web -c=main --limits=cpu=200m,memory=512Mi --requests=cpu=100m,memory=256Mi
kubectl get deployment web -o 'jsonpath={.spec.template.spec.containers[0].resources}'
kubectl set resources deployment web --limits=cpu=nonsense
kubectl set serviceaccount deployment web robot
kubectl get deployment web -o 'jsonpath={.spec.template.spec.serviceAccountName}'
kubectl create service clusterip web --tcp=80:80
kubectl set selector service web app=other
kubectl get service web -o 'jsonpath={.spec.selector}'
kubectl create rolebinding readers --clusterrole=view --user=jane
kubectl set subject rolebinding readers --user=joe --serviceaccount="$NAMESPACE:robot"
kubectl get rolebinding readers -o 'jsonpath={.subjects}'
kubectl patch deployment web --type=json -p '[{"op": "replace", "path": "/spec/replicas", "value": 4}]'
kubectl patch deployment web --type=json -p '[{"op": "replace", "path": "/spec/absent/replicas", "value": 4}]'
kubectl patch deployment web -p '{"spec": {"template": {"spec": {"containers": [{"name": "main", "ports": [{"containerPort": 80}]}]}}}}'
kubectl patch deployment web --type=merge -p '{"spec": {"template": {"metadata": {"labels": {"extra": "yes"}}}}}'
kubectl patch deployment web --type=strategic -p '{"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "main"}], "containers": [{"name": "main", "env": [{"name": "NEW", "value": "1"}]}]}}}}' -o 'jsonpath={.spec.template.spec.containers[0].env}'
kubectl patch -f objects/deployment.yaml -p '{"metadata": {"annotations": {"a": "b"}}}'
kubectl patch deployment web -p 'spec: {replicas: 5}'
kubectl patch service web -p '{"spec": {"type": "NodePort"}}' -o 'jsonpath={.spec.type}'
kubectl patch configmap settings --type=merge -p '{"immutable": true}'
kubectl patch configmap settings --type=merge -p '{"data": {"COLOUR": "blue"}}'
kubectl replace -f objects/deployment.yaml
kubectl replace --force -f objects/deployment.yaml
kubectl get deployment web -o 'jsonpath={.spec.replicas} {.metadata.generation}'
kubectl scale --replicas=3 -f objects/deployment.yaml
kubectl scale deployment --all --replicas=0
kubectl label -f objects/deployment.yaml tier=front
kubectl label deployment web tier=front --resource-version=1
kubectl label deployments --all tier=back --overwrite
kubectl label deployment web tier- absent-
kubectl label pods --all x=y
kubectl annotate deployment web note=x other=y
kubectl annotate deployment web note=y
kubectl annotate deployment web note=y --overwrite
kubectl annotate deployments -l app=web other-
kubectl annotate deployment web --list
editing 's/replicas: 0/replicas: 6/' deployment web
kubectl get deployment web -o 'jsonpath={.spec.replicas}'
