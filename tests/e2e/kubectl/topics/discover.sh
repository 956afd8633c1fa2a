# Discovery and permissions.
kubectl api-resources --no-headers
kubectl api-resources --no-headers | grep -vE "^($ABSENT) " | tr -s ' '
kubectl api-resources --namespaced=false --no-headers -o name | grep -vE "^($ABSENT)(\.|$)"
kubectl api-resources --api-group=apps -o wide --no-headers
kubectl api-resources --verbs=list,create --categories=all -o name
kubectl api-versions
kubectl api-versions | grep -vE "^($ABSENT_VERSIONS)$"
kubectl get --raw /version | grep -o '"gitVersion": "v1.36[^"]*"'
kubectl cluster-info dump --output-directory=/dev/null --namespaces=absent
kubectl auth can-i get pods
kubectl auth can-i '*' '*' --all-namespaces
kubectl auth can-i delete configmaps/one
kubectl auth can-i get nonsense
kubectl auth can-i get /healthz
kubectl auth can-i get pods --subresource=log -q
kubectl --context=nobody auth can-i get pods
kubectl --context=nobody auth can-i list configmaps --all-namespaces
kubectl --context=nobody get configmaps
kubectl --context=nobody create configmap one
kubectl --context=nobody delete configmap one
kubectl --context=nobody get configmap one
kubectl auth can-i --list --no-headers
kubectl auth whoami -o 'jsonpath={.status.userInfo.username} {.status.userInfo.groups}'
kubectl --context=nobody auth whoami -o 'jsonpath={.status.userInfo.username} {.status.userInfo.groups}'
