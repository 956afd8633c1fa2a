# Change: patches, labels, annotations, set, scale.
kubectl create configmap one --from-literal=k=v
kubectl patch configmap one --type=merge -p '{"data": {"k": "w", "l": "x"}}' -o json
kubectl patch configmap one --type=merge -p '{"data": {"k": null}}' -o json
kubectl patch configmap one --type=merge -p '{"data": {"l": "x"}}'
kubectl patch configmap one --type=json -p '[{"op": "add", "path": "/data/m", "value": "y"}]' -o yaml
kubectl patch configmap one --type=json -p '[{"op": "test", "path": "/data/m", "value": "z"}, {"op": "remove", "path": "/data/m"}]'
kubectl patch configmap one --type=json -p '[{"op": "remove", "path": "/data/absent"}]'
kubectl patch configmap one --type=json -p '[{"op": "test", "path": "/metadata/finalizers", "value": null}, {"op": "test", "path": "/data/m", "value": "y"}]'
kubectl patch configmap one --type=json -p '[{"op": "test", "path": "/absent/below", "value": null}]'
kubectl patch configmap one --type=json -p '[{"op": "nonsense", "path": "/data/absent"}]'
kubectl patch configmap one --type=merge -p '{"metadata": {"name": "two"}}'
kubectl patch configmap one --type=merge -p '{"metadata": {"resourceVersion": "1"}}'
kubectl patch configmap one --type=merge -p 'nonsense'
kubectl patch configmap one -p '{"data": {"n": "z"}}' -o json
kubectl patch configmap one -p '{"metadata": {"labels": {"app": "web"}}}'
kubectl patch configmap one -p '{"data": {"n": "z"}}'
kubectl patch configmap absent --type=merge -p '{"data": {"k": "v"}}'
kubectl patch configmap one --type=merge -p '{"data": {"dry": "run"}}' --dry-run=server -o json
kubectl label configmap one app=web
kubectl label configmap one app=db
kubectl label configmap one app=db --overwrite
kubectl label configmap one app=db --overwrite -o json
kubectl label configmap one tier=front app- -o json
kubectl label configmap one absent-
kubectl label configmap one 'a b=c'
kubectl label configmap one "long=$(printf 'x%.0s' {1..64})"
kubectl label configmap one a=b --resource-version=1
kubectl label configmap one --list
kubectl label configmap absent a=b
kubectl create configmap two
kubectl label configmaps --all team=shop
kubectl label configmaps -l team=shop more=yes
kubectl annotate configmap one note='a note'
kubectl annotate configmap one note=other
kubectl annotate configmap one note=other --overwrite -o yaml
kubectl annotate configmap one note-
kubectl annotate configmap one note-
kubectl annotate configmap one 'a b=c'
kubectl create -f objects/deployment.yaml -o name
kubectl scale deployment web --replicas=5
kubectl get deployment web -o json
kubectl scale deployment/web --replicas=4 --current-replicas=5
kubectl scale deployment web --replicas=3 --current-replicas=5
kubectl scale deployment web --replicas=4 -o json
kubectl scale deployment absent --replicas=1
kubectl scale configmap one --replicas=1
kubectl scale deployment web --replicas=-1
kubectl get deployment web --subresource=scale -o json
kubectl patch deployment web --subresource=scale --type=merge -p '{"spec": {"replicas": 6}}' -o json
kubectl patch deployment web --subresource=status --type=merge -p '{"status": {"readyReplicas": 1, "replicas": 1}}' -o json
kubectl get deployment web --subresource=status -o json
kubectl patch deployment web --type=merge -p '{"status": {"readyReplicas": 7}}'
kubectl patch deployment web -p '{"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}}' -o json
kubectl patch deployment web -p '{"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1", "imagePullPolicy": "IfNotPresent", "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}]}}}}' -o json
kubectl patch deployment web -p '{"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}' -o json
kubectl set image deployment/web main=nginx:3
kubectl set image deployment/web absent=nginx:3
kubectl set env deployment/web MODE=test -o json
kubectl set env deployment/web MODE-
kubectl set resources deployment/web --limits=cpu=100m
kubectl get deployment web -o 'jsonpath={.metadata.generation} {.spec.template.spec.containers}'
kubectl patch configmap one --type=merge -p '{"data": {"k": 1}}'
