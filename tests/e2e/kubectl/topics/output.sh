# The output formats of get.
kubectl create -f objects/deployment.yaml
kubectl create -f objects/pod.yaml
sed 's/name: web$/name: second/' objects/pod.yaml | kubectl create -f -
kubectl create configmap one --from-literal=k=v
kubectl create configmap two --from-literal=k=w
kubectl label configmap one app=web
kubectl get pods -o 'jsonpath={.items[*].metadata.name}'
kubectl get pods -o 'jsonpath={range .items[*]}{.metadata.name}{"\t"}{.spec.nodeName}{"\n"}{end}'
kubectl get pods -o 'jsonpath={.items[?(@.metadata.name=="web")].spec.containers[0].image}'
kubectl get pod web -o 'jsonpath={.absent}'
kubectl get pod web -o 'jsonpath={.spec.containers[7].image}'
kubectl get pod web -o 'jsonpath={'
kubectl get pod web -o 'jsonpath-as-json={.spec.tolerations}'
kubectl get pods -o 'custom-columns=NAME:.metadata.name,NODE:.spec.nodeName,ABSENT:.status.absent'
kubectl get pods --no-headers -o 'custom-columns=NAME:.metadata.name'
kubectl get pods -o 'go-template={{range .items}}{{.metadata.name}}={{.status.phase}};{{end}}'
kubectl get cm one -o 'go-template={{.data.k}}'
kubectl get cm one -o 'template={{.data.absent}}'
kubectl get pods -o wide --no-headers
kubectl get pods -o yaml
kubectl get pods -o json
kubectl get pods -o name
kubectl get pods -o kyaml
kubectl get pods -o nonsense
kubectl get pods --show-labels --show-kind
kubectl get pods --sort-by=.metadata.name
kubectl get pods --sort-by='{.spec.nodeName}'
kubectl get pods --sort-by=.absent
kubectl get pods -A --field-selector "metadata.namespace=$NAMESPACE"
kubectl get pods --chunk-size=1
kubectl get pods --limit=1
kubectl get pods --field-selector status.phase=Pending -o name
kubectl get pods --field-selector status.phase!=Pending
kubectl get pods --field-selector spec.restartPolicy=Always,spec.schedulerName=default-scheduler -o name
kubectl get pods --field-selector metadata.labels=x
kubectl get pods -l 'app in (web), app notin (db)' -o name
kubectl get pods,deployments,cm -l app=web
kubectl get pods/web deploy/web -o name
kubectl get pod web deploy web
kubectl get all -A -o name | grep -c "^pod/"
kubectl get --raw "/api/v1/namespaces/$NAMESPACE/configmaps?limit=1" | grep -o '"remainingItemCount":[0-9]*'
kubectl get --raw "/api/v1/namespaces/$NAMESPACE/configmaps/one" | grep -o '"data":{[^}]*}'
kubectl get --raw "/api/v1/namespaces/$NAMESPACE/configmaps/absent"
kubectl get --raw /apis/apps/v1/nonsense
kubectl get --raw /healthz
kubectl get --raw /version -v=0 | grep -o '"major": "[0-9]*"'
kubectl get -f objects/deployment.yaml
kubectl get -f objects/deployment.yaml -o 'jsonpath={.spec.replicas}'
kubectl get -f objects/two-kinds.yaml
kubectl get pods --watch --output-watch-events --request-timeout=1s
kubectl get pods --ignore-not-found absent
kubectl get events
kubectl get events --for=pod/web
kubectl events
kubectl get deploy.apps web -o name
kubectl get deployments.v1.apps web -o name
kubectl get deployments.v2.apps web -o name
kubectl get pod web --subresource=status -o 'jsonpath={.status.phase}'
kubectl get pod web --subresource=nonsense
kubectl get pod web --show-managed-fields -o 'jsonpath={.metadata.managedFields[0].manager}'
kubectl version -o json | grep -c gitVersion
kubectl cluster-info
kubectl config view --minify -o 'jsonpath={.contexts[0].name}' | wc -w
