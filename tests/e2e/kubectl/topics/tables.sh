# Tables: what kubectl prints by default, with -o wide, in watches, and for several kinds.
kubectl create configmap one --from-literal=k=v
kubectl create -f objects/deployment.yaml
kubectl create -f objects/pod.yaml
kubectl create service clusterip inside --clusterip=None --tcp=80:8080
kubectl create service externalname outside --external-name=example.com
kubectl create job once --image=busybox -- true
kubectl create cronjob often --image=busybox --schedule='@hourly' -- true
kubectl create secret generic hidden --from-literal=k=v
kubectl create role reader --verb=get --resource=pods
kubectl create rolebinding reads --role=reader --user=ann --serviceaccount=shop:sa
kubectl create poddisruptionbudget few --min-available=1 --selector=app=web
kubectl create quota small --hard=configmaps=100
kubectl create ingress front --rule='a.example.com/*=inside:80'
kubectl get configmap one
kubectl get configmap one --no-headers
kubectl get pods
kubectl get pods -o wide
kubectl get pods -o wide --show-labels
kubectl get pods -L app
kubectl get deployments -o wide
kubectl get services -o wide
kubectl get jobs,cronjobs
kubectl get jobs,cronjobs -o wide
kubectl get secrets,roles
kubectl get rolebindings -o wide
kubectl get pdb,ingress
kubectl get quota
kubectl get namespace "$NAMESPACE"
kubectl get all
kubectl get all -o wide
kubectl get all,configmaps --no-headers -l app=web
kubectl get pods,services --sort-by=.metadata.name
kubectl get services --sort-by=.spec.type
kubectl get services --sort-by=.metadata.creationTimestamp --no-headers | sort
kubectl get cm --chunk-size=1
kubectl get cm -A --field-selector metadata.name=one --no-headers | grep "^$NAMESPACE "
kubectl get cm absent one
kubectl get endpointslices
kubectl get deployment web --subresource=scale
kubectl get deployment web --subresource=status
kubectl get pods --server-print=false
watching 4 'kubectl label cm one seen=yes; kubectl delete cm one' get cm one -w
watching 3 'kubectl create secret generic two' get secrets -w --output-watch-events
kubectl get secret hidden --watch-only -o wide --request-timeout=1s
kubectl create -f objects/crd.yaml
kubectl wait crd widgets.shop.example.com --for=condition=Established --timeout=15s
kubectl get widgets
kubectl create -f objects/widget.yaml
kubectl get widgets
kubectl get widgets -o wide
kubectl get widgets,pods
kubectl get widgets --sort-by=.spec.size
kubectl delete crd widgets.shop.example.com --timeout=15s
