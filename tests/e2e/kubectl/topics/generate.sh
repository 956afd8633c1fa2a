# The generators of kubectl create, run, expose and autoscale.
kubectl create deployment app --image=nginx:1 --replicas=2 --port=8080 -o json
kubectl create deployment multi --image=nginx:1 --image=busybox:1 -o yaml
kubectl create deployment cmd --image=busybox:1 --dry-run=server -o json -- sleep 60
kubectl create job once --image=busybox:1 -o json -- echo hello
kubectl create cronjob nightly --image=busybox:1 --schedule='0 3 * * *' --restart=Never -o name -- echo hello
kubectl create job manual --from=cronjob/nightly -o json
kubectl create job bad --from=cronjob/absent
kubectl create ingress front --class=nginx --rule='a.example.com/*=app:80,tls=cert' --default-backend=app:80 -o json
kubectl create role reader --verb=get --verb=watch --resource=pods,deployments.apps --resource-name=one -o json
kubectl create role bad --verb=get --resource=nonsense
kubectl create clusterrole "$NAMESPACE-pages" --verb=get --non-resource-url='/logs/*' -o json
kubectl create clusterrole "$NAMESPACE-sum" --aggregation-rule=team=shop -o json
kubectl create clusterrolebinding "$NAMESPACE-pages" --clusterrole="$NAMESPACE-pages" --group=team -o json
kubectl create rolebinding robots --clusterrole=view --serviceaccount=shop:robot -o json
kubectl create quota limits2 --hard=cpu=1,memory=1Gi,services.loadbalancers=0 -o json
kubectl create pdb most --selector=app=web --max-unavailable=50% -o json
kubectl create pdb bad --selector=app=web
kubectl create priorityclass "$NAMESPACE-high" --value=1000 --preemption-policy=Never --description=important -o json
kubectl create serviceaccount robot -o yaml
kubectl create secret generic files --from-file=objects/configmap.yaml --from-literal=k=v -o 'jsonpath={.type} {.data.k}'
kubectl create secret generic typed --type=kubernetes.io/basic-auth --from-literal=username=me --from-literal=password=open -o json
kubectl create secret generic badtype --type=kubernetes.io/basic-auth --from-literal=k=v
kubectl create secret docker-registry pull --docker-username=me --docker-password=open --docker-email=me@example.com -o json
kubectl create secret generic sshkey --type=kubernetes.io/ssh-auth --from-literal=ssh-privatekey=key -o 'jsonpath={.type}'
kubectl create configmap from-files --from-file=objects/ -o 'jsonpath={.data}' | grep -o '"[a-z-]*.yaml"' | sort | head -3
kubectl create configmap env --from-env-file=objects/settings.env -o json
kubectl create service clusterip headless --clusterip=None -o 'jsonpath={.spec}'
kubectl create service nodeport nodes --tcp=80:8080 --node-port=31235 -o json
kubectl create service loadbalancer balanced --tcp=443:8443 -o 'jsonpath={.spec.type} {.spec.ports[0].port}'
kubectl create token robot --duration=10m | wc -l
kubectl create token absent
kubectl run web --image=nginx:1 --port=80 --labels=app=web,tier=front --env=A=b -o 'jsonpath={.metadata.labels} {.spec.containers} {.status}'
kubectl run web --image=nginx:1
kubectl run task --image=busybox:1 --restart=OnFailure --command -o 'jsonpath={.spec.restartPolicy} {.spec.containers[0].command}' -- sleep 5
kubectl run exposed --image=nginx:1 --port=80 --expose
kubectl run dry --image=nginx:1 --dry-run=server -o name
kubectl run --image=nginx:1
kubectl expose deployment app --port=80 --target-port=8080 -o json
kubectl expose deployment app --port=80
kubectl expose pod web --name=web-pod --port=80 --type=NodePort -o 'jsonpath={.spec.type} {.spec.selector}'
kubectl expose deployment absent --port=80
kubectl expose service headless --port=80 --name=again
kubectl autoscale deployment app --min=2 --max=5 --cpu=70% -o json
kubectl autoscale deployment app --max=5
kubectl autoscale deployment absent --max=5
kubectl get hpa
kubectl get deployments,services,pods --show-labels
