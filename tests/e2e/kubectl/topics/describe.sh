# Describe: the objects that a cluster without nodes contains, and the errors.
kubectl create -f objects/pod.yaml
kubectl create -f objects/deployment.yaml
kubectl create service clusterip web --tcp=80:8080
kubectl create service nodeport open --tcp=80:8080 --node-port=31234
kubectl create service externalname outside --external-name=example.com
kubectl create job once --image=busybox:1 -- true
kubectl create cronjob often --image=busybox:1 --schedule='@hourly' -- true
kubectl create configmap one --from-literal=k=v --from-literal=l=x
kubectl create secret generic hidden --from-literal=password=open
kubectl create ingress front --rule='a.example.com/*=web:80' --annotation=note=x
kubectl create role reader --verb=get,list --resource=pods,configmaps
kubectl create rolebinding readers --role=reader --user=jane --group=team --serviceaccount=shop:robot
kubectl create serviceaccount robot
kubectl create quota small --hard=configmaps=100,pods=5
kubectl create poddisruptionbudget budget --selector=app=web --min-available=1
kubectl create -f objects/claim.yaml
kubectl create -f objects/daemonset.yaml
kubectl create -f objects/statefulset.yaml
kubectl create -f objects/networkpolicy.yaml
kubectl autoscale deployment web --min=1 --max=3 --cpu=80%
kubectl describe pod web
kubectl describe pods -l app=web
kubectl describe po/web --show-events=false
kubectl describe deployment web
kubectl describe service web --show-events=false
kubectl describe services --show-events=false
kubectl describe job once
kubectl describe cronjob often
kubectl describe configmap one
kubectl describe cm
kubectl describe secret hidden
kubectl describe ingress front
kubectl describe role reader
kubectl describe rolebinding readers
kubectl describe serviceaccount robot
kubectl describe quota small
kubectl describe pdb budget
kubectl describe pvc data | grep -v Finalizers
kubectl describe daemonset agent | grep -v Annotations
kubectl describe statefulset db
kubectl describe networkpolicy closed
kubectl describe hpa web
kubectl describe namespace "$NAMESPACE"
kubectl describe namespace default
kubectl describe storageclass
kubectl describe configmap absent
kubectl describe nonsense
kubectl describe pods -l app=absent
kubectl describe configmap o
kubectl describe deployment/web configmap/one -o name
kubectl describe -f objects/pod.yaml --show-events=false | head -5
