package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Request is the key of a Deployment in a cluster.
type Request struct {
	Cluster string
	types.NamespacedName
}

// DeploymentReconciler writes the name of the cluster for each Deployment.
type DeploymentReconciler struct {
	Fleet *Fleet
}

// Reconcile applies the ConfigMap of a Deployment.
func (r *DeploymentReconciler) Reconcile(ctx context.Context, req Request) (ctrl.Result, error) {
	cluster := r.Fleet.GetCluster(req.Cluster)
	if cluster == nil {
		return ctrl.Result{}, nil
	}
	var deployment appsv1.Deployment
	if err := cluster.GetClient().Get(ctx, req.NamespacedName, &deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	owner := metav1ac.OwnerReference().
		WithAPIVersion(appsv1.SchemeGroupVersion.String()).
		WithKind("Deployment").
		WithName(deployment.Name).
		WithUID(deployment.UID).
		WithController(true)
	configMap := corev1ac.ConfigMap(deployment.Name, deployment.Namespace).
		WithOwnerReferences(owner).
		WithData(map[string]string{"cluster": req.Cluster})
	return ctrl.Result{}, cluster.GetClient().Apply(ctx, configMap, client.FieldOwner("cluster-names"), client.ForceOwnership)
}

// enqueueDeployment returns a handler that enqueues a Deployment.
func enqueueDeployment(cluster string) handler.TypedEventHandler[*appsv1.Deployment, Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, deployment *appsv1.Deployment) []Request {
		return []Request{{Cluster: cluster, NamespacedName: client.ObjectKeyFromObject(deployment)}}
	})
}

// enqueueOwner returns a handler that enqueues the Deployment which owns a ConfigMap.
func enqueueOwner(cluster string) handler.TypedEventHandler[*corev1.ConfigMap, Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, configMap *corev1.ConfigMap) []Request {
		owner := metav1.GetControllerOf(configMap)
		if owner == nil || owner.Kind != "Deployment" || owner.APIVersion != appsv1.SchemeGroupVersion.String() {
			return nil
		}
		name := types.NamespacedName{Namespace: configMap.Namespace, Name: owner.Name}
		return []Request{{Cluster: cluster, NamespacedName: name}}
	})
}

// SetupWithManager adds the controller to the manager.
func (r *DeploymentReconciler) SetupWithManager(mgr ctrl.Manager) error {
	options := controller.TypedOptions[Request]{Reconciler: r, MaxConcurrentReconciles: 4}
	created, err := controller.NewTyped("deployments", mgr, options)
	r.Fleet.controller = created
	return err
}
