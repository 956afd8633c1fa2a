# Get: names, several names, selectors, missing objects, watches.
kubectl create configmap one --from-literal=k=v -o json
kubectl create configmap two --from-literal=a=1 --from-literal=b=2 -o yaml
kubectl create -f objects/configmap.yaml
kubectl label configmap one app=web tier=front
kubectl label configmap two app=db
kubectl get configmap one -o json
kubectl get configmap one -o yaml
kubectl get configmap one
kubectl get configmaps -o wide
kubectl get configmaps -o json
kubectl get configmaps -o yaml
kubectl get cm -o name
kubectl get cm one two -o json
kubectl get cm/one cm/two -o name
kubectl get cm,secret -o name
kubectl get cm one -o 'jsonpath={.data.k}'
kubectl get cm --sort-by=.metadata.name -o 'custom-columns=NAME:.metadata.name,APP:.metadata.labels.app'
kubectl get cm --chunk-size=1 -o name
kubectl get cm one -o json --show-managed-fields | grep '"manager"'
kubectl get cm absent
kubectl get cm absent -o json
kubectl get cm absent --ignore-not-found
kubectl get cm one absent -o name
kubectl get secrets
kubectl get nonsense
kubectl get widgets.absent.example.com
kubectl get cm -n absent -o name
kubectl get cm -l app=web -o name
kubectl get cm -l app==web -o name
kubectl get cm -l app!=web -o name
kubectl get cm -l 'app in (web,db)' -o name
kubectl get cm -l 'app notin (web)' -o name
kubectl get cm -l tier -o name
kubectl get cm -l '!tier' -o name
kubectl get cm -l 'app=web,tier=front' -o name
kubectl get cm -l 'app in' -o name
kubectl get cm -l 'app=a/b' -o name
kubectl get cm -l app=web one
kubectl get cm -A -l app=web -o name
kubectl get cm --field-selector metadata.name=one -o name
kubectl get cm --field-selector metadata.name!=one -o name
kubectl get cm -A --field-selector "metadata.namespace=$NAMESPACE" -o name
kubectl get cm --field-selector data.k=v -o name
kubectl get cm --field-selector nonsense -o name
kubectl get namespace "$NAMESPACE" -o json
kubectl get namespaces -o name --field-selector "metadata.name=$NAMESPACE"
kubectl get namespaces kube-system kube-public default kube-node-lease -o name
kubectl get --raw /readyz
kubectl get --raw /livez/ping
kubectl get --raw "/api/v1/namespaces/$NAMESPACE/configmaps/absent"
kubectl get --raw "/api/v1/namespaces/$NAMESPACE/configmaps?limit=1&fieldSelector=metadata.name%3Done" | grep -o '"continue"'
kubectl get --raw /apis/absent.example.com/v1
kubectl get cm one --request-timeout=5s -o name
watching 4 'kubectl label cm one seen=yes; kubectl label cm one seen-' get cm -w -l tier -o name
watching 2 'kubectl annotate cm two note=x' get cm two -w -o 'jsonpath={.metadata.name} {.metadata.annotations}{"\n"}'
watching 3 'kubectl create configmap four; kubectl delete configmap four' get cm --watch-only=false -w --field-selector metadata.name!=two --output-watch-events -o 'jsonpath={.type} {.object.metadata.name}{"\n"}'
watching 1 : get cm one -w --output-watch-events -o 'jsonpath={.type} {.object.metadata.name}{"\n"}'
