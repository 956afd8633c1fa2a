# Create and replace: files, generators, existing objects, rejected objects.
kubectl create -f objects/configmap.yaml -o json
kubectl create -f objects/configmap.yaml
kubectl create -f objects/two-kinds.yaml -o name
kubectl get secret pair -o json
kubectl create secret generic plain --from-literal=user=me --from-literal=password=open -o yaml
kubectl create secret docker-registry pull --docker-username=me --docker-password=open --docker-server=registry.example.com -o name
kubectl create secret tls absent --cert=absent --key=absent
kubectl create configmap dry --from-literal=k=v --dry-run=server -o json
kubectl create configmap dry --from-literal=k=v --dry-run=client -o json
kubectl get configmap dry
kubectl create configmap Wrong_Name
kubectl create configmap one -n absent
kubectl create namespace "$NAMESPACE"
kubectl create namespace "$NAMESPACE-beside" -o json
kubectl create serviceaccount robot -o json
kubectl create deployment made --image=nginx:1 --replicas=3 -o name
kubectl get deployment made -o 'jsonpath={.metadata.labels} {.spec.replicas} {.spec.selector} {.spec.template.spec.containers[0].name} {.metadata.generation}'
kubectl create deployment made --image=nginx:1
kubectl create job made --image=busybox:1 -o name -- true
kubectl get job made -o 'jsonpath={.spec.template.spec.containers[0].command} {.spec.template.spec.restartPolicy}'
kubectl create cronjob made --image=busybox:1 --schedule='*/5 * * * *' -o name -- true
kubectl create job from-made --from=cronjob/made -o name
kubectl create service clusterip made --tcp=80:8080 -o name
kubectl get service made -o 'jsonpath={.spec.ports[0].port} {.spec.selector}'
kubectl create role reader --verb=get,list --resource=configmaps -o json
kubectl create rolebinding readers --role=reader --user=jane -o json
kubectl create clusterrole "$NAMESPACE" --verb=get --resource=pods -o json
kubectl create priorityclass "$NAMESPACE" --value=7 -o json
kubectl create quota small --hard=pods=2 -o 'jsonpath={.spec}'
kubectl create ingress front --rule=example.com/=made:80 -o 'jsonpath={.spec.rules[0].host}'
kubectl create poddisruptionbudget budget --selector=app=web --min-available=1 -o 'jsonpath={.spec}'
kubectl run once --image=busybox:1 --restart=Never -o name
kubectl get pod once -o 'jsonpath={.metadata.labels} {.spec.restartPolicy} {.status.phase}'
kubectl create -f objects/pod.yaml -o json
kubectl get pods --field-selector spec.nodeName=node-1 -o name
kubectl get pods --field-selector spec.nodeName!=node-1,status.phase=Pending -o name
kubectl get pods --field-selector spec.absent=x -o name
kubectl create -f objects/deployment.yaml -o json
kubectl create -f objects/absent.yaml
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}, "data": {"k": "v"}}' | sed 's/made-[a-z0-9]\{5\} /made-SUFFIX /'
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}, "data": {"k": 1}}'
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Nonsense", "metadata": {"name": "bad"}}'
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "elsewhere", "name": "bad"}}'
kubectl create -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad", "labels": {"a b": "c"}}}'
kubectl get configmap three -o json | sed 's/"k": "v"/"k": "w"/' | kubectl replace -o json -f -
kubectl get configmap three -o json | kubectl replace -o json -f -
kubectl get configmap three -o json | sed 's/"resourceVersion": "[0-9]*"/"resourceVersion": "1"/' | kubectl replace -f -
kubectl get configmap three -o json | sed 's/"uid": "[^"]*"/"uid": "other"/' | kubectl replace -f -
kubectl replace -f - <<< '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "absent"}}'
kubectl replace --force -f objects/configmap.yaml
kubectl get configmap three -o json
editing 's/k: w/k: x/; s/k: v/k: x/' configmap three -o json
editing 's/nothing/at all/' configmap three
editing 's/name: three/name: four/' configmap three
