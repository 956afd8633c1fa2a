# Permissions, service accounts, reviews and certificates.
kubectl auth can-i create deployments.apps
kubectl auth can-i create pods --subresource=eviction
kubectl auth can-i get pods --as=jane
kubectl auth can-i get pods --as=jane --as-group=system:masters
kubectl auth can-i list secrets --as="system:serviceaccount:$NAMESPACE:robot"
kubectl auth can-i use widgets
kubectl auth can-i get pods -A -q
kubectl auth can-i --list --as=jane --no-headers | wc -l | grep -c .
kubectl auth whoami -o name
kubectl create serviceaccount robot
kubectl get serviceaccounts -o name
kubectl get serviceaccount robot -o json
kubectl create role bad --verb=nonsense --resource=pods -o 'jsonpath={.rules}'
kubectl create rolebinding same --role=absent --user=jane
kubectl get roles,rolebindings
kubectl get csr
kubectl certificate approve absent
kubectl certificate deny absent
kubectl delete rolebinding same
kubectl delete role bad
