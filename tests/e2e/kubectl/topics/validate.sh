# Commands that kube-apiserver rejects because an object is invalid, and defaults that it sets.
kubectl create deployment bad --image=nginx:1 --replicas=-1
kubectl create cronjob nightly --image=busybox:1 --schedule='0 3 * * *'
kubectl get cronjob nightly -o json
kubectl run web --image=nginx:1
kubectl patch pod web --type=json -p '[{"op": "add", "path": "/spec/containers/-", "value": {"name": "second", "image": "nginx:1"}}]'
kubectl create deployment app --image=nginx:1
kubectl set resources deployment app --limits=cpu=100m --requests=cpu=200m
kubectl patch deployment app --type=json -p '[{"op": "replace", "path": "/spec/template/metadata/labels", "value": {"app": "other"}}]'
kubectl patch deployment app -p '{"spec": {"strategy": {"type": "Recreate"}}}'
kubectl patch deployment app --type=merge -p '{"spec": {"nonsense": 1}}'
kubectl scale deployment app --replicas=-1
kubectl expose deployment app --port=80
kubectl patch service app -p '{"spec": {"ports": [{"port": 80, "protocol": "HTTP"}]}}'
kubectl patch service app -p '{"spec": {"type": "Nonsense"}}'
kubectl create service clusterip bad --tcp=70000
kubectl create job once --image=busybox:1
kubectl patch job once -p '{"spec": {"parallelism": -1}}'
kubectl create pdb bad --selector=app=web --min-available=-1
kubectl autoscale deployment app --min=5 --max=2
kubectl create ingress bad --rule='*=app:80'
kubectl create ingress bad --rule='Host.example.com/x=app:80'
kubectl create secret tls bad --cert=objects/pod.yaml --key=objects/pod.yaml
kubectl create secret generic bad --type=kubernetes.io/dockerconfigjson --from-literal=k=v
kubectl create configmap Bad --from-literal=k=v
kubectl create configmap bad --from-literal='a b=v'
kubectl create namespace Bad_Name
kubectl label deployment app 'bad key=x'
kubectl label deployment app good='bad value!'
kubectl annotate deployment app 'bad key=x'
kubectl create clusterrolebinding bad --clusterrole=view --user=
kubectl create -f - <<<'{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: bad}, spec: {accessModes: [Nonsense], resources: {requests: {storage: 1Gi}}}}'
kubectl create -f - <<<'{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}'
kubectl get pvc data -o 'jsonpath={.spec} {.status}'
kubectl create -f - <<<'{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: bad}, spec: {podSelector: {}, policyTypes: [Sideways]}}'
kubectl create -f - <<<'{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: "db:1"}]}}}}'
kubectl get statefulset db -o json
kubectl patch statefulset db -p '{"spec": {"serviceName": "other"}}'
kubectl patch statefulset db -p '{"spec": {"podManagementPolicy": "Parallel"}}'
kubectl create -f - <<<'{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: other}}, spec: {containers: [{name: a, image: "a:1"}]}}}}'
kubectl get all -o name
