# Explain, and the validation of fields by the server and by kubectl.
fields configmap
fields pods
fields pod.spec
fields pod.spec.containers.ports
fields pod.spec.containers.resources.limits
fields pod.spec.restartPolicy
fields pod.spec.volumes.persistentVolumeClaim.claimName
fields pods --recursive
fields deployments.apps.spec.strategy --recursive
fields services.spec.ports.targetPort
fields events
fields events --api-version=events.k8s.io/v1
fields hpa.spec.metrics --recursive
fields crd.spec.versions.schema.openAPIV3Schema
fields ingress.spec --recursive
fields pods --output=plaintext-openapiv2
fields pod.spec.containers --output=plaintext-openapiv2 --recursive
kubectl explain pod.spec.absent
kubectl explain absent
kubectl explain pod --api-version=absent/v1
kubectl create -f objects/configmap.yaml --dry-run=server
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad", "absent": "x"}, "datas": {"k": "v"}}'
kubectl create --validate=warn -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "warned", "absent": "x"}, "datas": {"k": "v"}}'
kubectl create --validate=ignore -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ignored", "absent": "x"}, "datas": {"k": "v"}}'
kubectl create --validate=strict -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}, "data": {"k": "v", "k": "w"}}'
kubectl apply -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "datas": {"k": "v"}}'
kubectl apply --dry-run=server -f objects/deployment.yaml -o name
kubectl apply --dry-run=client -f objects/deployment.yaml
kubectl diff -f objects/deployment.yaml | grep -E '^[+-] ' | grep -vE 'uid|Timestamp'
kubectl apply -f objects/deployment.yaml
kubectl diff -f objects/deployment.yaml
sed 's/replicas: 2/replicas: 3/' objects/deployment.yaml | kubectl diff -f - | grep '^[+-] '
sed 's/nginx:1/nginx:2/' objects/deployment.yaml | kubectl apply -f - -o json
sed 's/replicas: 2/replica: 2/' objects/deployment.yaml | kubectl apply -f -
sed 's/replicas: 2/replica: 2/' objects/deployment.yaml | kubectl replace -f -
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "listed"}}, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "listed"}}]}'
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}, "datas": {"k": "v"}}]}'
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}, "spec": {"containers": [{"image": 1}], "hostNetwork": "yes"}}]}'
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "bad"}, "spec": {"egress": [{"ports": [{"port": true}]}]}}]}'
